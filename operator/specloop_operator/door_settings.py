"""Settings of what others reach the operator by, and of the Lease: every field with its meaning and default."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from specloop_operator.serving import Tls
from specloop_operator.source_settings import FilePath, Part, Port, Word
from specloop_policy.model import Name


class TlsSettings(Part):
    """A certificate that pages are served with; its files are looked at every minute."""

    certificate_file: FilePath = Field(description="The certificate in PEM, with those between it and the root.")
    key_file: FilePath = Field(description="Its key in PEM.")

    def tls(self) -> Tls:
        """The same for the server."""
        return Tls(Path(self.certificate_file), Path(self.key_file))


class WebhookTlsSettings(TlsSettings):
    """A certificate that the webhook is served with, and whether clients must show one; looked at every minute."""

    client_ca_file: FilePath | None = Field(
        default=None,
        description="Certificates, in PEM, that a client's must come from; by default clients are asked for none.",
    )

    def tls(self) -> Tls:
        """The same for the server."""
        client_ca = None if self.client_ca_file is None else Path(self.client_ca_file)
        return Tls(Path(self.certificate_file), Path(self.key_file), client_ca)


class WebhookSettings(Part):
    """Where Alertmanager sends alerts to, and how it shows who it is: by a token, a client certificate, or both."""

    port: Port = Field(
        default=8443, description="Port that it is served on, at `healthAddress`; 8443, as the chart has it."
    )
    token_file: FilePath | None = Field(
        default=None,
        description="File with the tokens that are taken, one a line, so that a new one can come before the old one "
        "goes; by default none is asked for. Read again at every message.",
    )
    tls: WebhookTlsSettings | None = Field(
        default=None, description="Certificates; by default it is served as plain http."
    )
    namespace_label: Word = Field(
        default="namespace", description="Label that names an alert's namespace; `namespace`, as monitors set it."
    )
    pod_label: Word = Field(default="pod", description="Label that names an alert's pod; `pod`, as monitors set it.")

    @model_validator(mode="after")
    def somebody(self) -> Self:
        """Not everybody may come in."""
        if self.token_file is None and (self.tls is None or self.tls.client_ca_file is None):
            raise ValueError("lets everybody in; give tokenFile, or tls.clientCaFile, or both")
        return self


class LeaseSettings(Part):
    """A Lease of coordination.k8s.io, which is made where it is not there."""

    namespace: Name = Field(description="Namespace of the Lease: the operator's own.")
    name: Name = Field(default="specloop", description="Name of the Lease; operators of one name follow each other.")
