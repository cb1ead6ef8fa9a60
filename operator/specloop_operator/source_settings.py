"""Settings of metric sources: every field with its meaning, unit, default and the reason for that default.

Secrets stand in files of their own, which are named here.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic.alias_generators import to_camel

from specloop_control.credentials import BasicAuth
from specloop_control.prometheus_hub import WAIT_SECONDS
from specloop_control.prometheus_server import LAG_SECONDS, TIMEOUT_SECONDS, PrometheusSettings
from specloop_control.scrape import SCRAPE_SECONDS
from specloop_engine.reader import VLLM_PREFIX

Seconds = Annotated[float, Field(gt=0.0, le=300.0)]
Port = Annotated[int, Field(ge=1, le=65535)]
FilePath = Annotated[str, Field(min_length=1, max_length=4096)]
Word = Annotated[str, Field(min_length=1, max_length=253)]


class Part(BaseModel):
    """A piece of the settings: frozen, strict, and closed to unknown fields."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True)


class PodsSettings(Part):
    """The target's pods themselves, scraped one by one: nothing else has to be there."""

    type: Literal["pods"] = Field(description="The kind of source: the pods.")
    scheme: Literal["http", "https"] = Field(
        default="http", description="How pods are asked; `http`, for that is what engines serve."
    )
    port: Port | None = Field(
        default=None, description="Port of the metrics; by default the engine's own, which serves them."
    )
    path: Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=1024)] = Field(
        default="/metrics", description="Path of the metrics; `/metrics`, as vLLM and llama-server have it."
    )
    ca_file: FilePath | None = Field(
        default=None,
        description="Certificates, in PEM, that the pods' are checked against; by default those that the system "
        "trusts. Read again at every look.",
    )
    server_name: Word | None = Field(
        default=None,
        description="Name that the pods' certificates must have; by default the pod's address, which few have.",
    )
    token_file: FilePath | None = Field(
        default=None, description="File with a bearer token; by default none is sent. Read again at every look."
    )
    insecure_skip_verify: bool = Field(
        default=False, description="Take any certificate; `false`, for anybody could then answer for a pod."
    )
    timeout_seconds: Seconds = Field(
        default=SCRAPE_SECONDS,
        description="Seconds that a page may take as a whole; 5, for engines answer from memory and are asked again.",
    )
    max_bytes: Annotated[int, Field(ge=1024, le=16 * 1024 * 1024)] = Field(
        default=4 * 1024 * 1024,
        description="Longest page in bytes; 4 MiB, for one of vLLM has 60 kB, and less than 1 MB with sixteen ranks.",
    )

    @model_validator(mode="after")
    def tls_with_https(self) -> Self:
        """What is said of certificates goes with https, and trusting all of them with nothing else."""
        given = {
            "caFile": self.ca_file,
            "serverName": self.server_name,
            "insecureSkipVerify": self.insecure_skip_verify,
        }
        named = [name for name, value in given.items() if value]
        if self.scheme == "http" and named:
            raise ValueError(f"{named[0]} is for https; add scheme: https, or remove it")
        if self.insecure_skip_verify and len(named) > 1:
            raise ValueError(f"insecureSkipVerify takes any certificate, whatever {named[0]} says; remove one of them")
        return self


class BasicAuthSettings(Part):
    """A user and a password."""

    username: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="The user's name; by default it is in a file."
    )
    username_file: FilePath | None = Field(
        default=None, description="File with the user's name; by default it stands here. Read again for every query."
    )
    password_file: FilePath = Field(description="File with the password. Read again for every query.")

    @model_validator(mode="after")
    def one_name(self) -> Self:
        """The name is given once."""
        if (self.username is None) == (self.username_file is None):
            raise ValueError("needs exactly one of username and usernameFile")
        return self

    def basic_auth(self) -> BasicAuth:
        """The same for the client."""
        return BasicAuth(Path(self.password_file), self.username or "", _path(self.username_file))


class PrometheusSourceSettings(Part):
    """A Prometheus that scrapes the pods already; all policies share its queries, at most five in an interval."""

    type: Literal["prometheus"] = Field(description="The kind of source: a Prometheus.")
    url: Annotated[str, Field(min_length=1, max_length=2048)] = Field(
        description="Address, such as `http://prometheus.monitoring:9090`; a path before `/api/v1` belongs to it."
    )
    timeout_seconds: Seconds = Field(
        default=TIMEOUT_SECONDS,
        description="Seconds that an answer may take as a whole; 30, for nobody waits longer for what comes at every "
        f"tick. Policies wait {WAIT_SECONDS:g} s for it at most; what comes later is there at the next tick.",
    )
    lag_seconds: Annotated[float, Field(ge=0.0, le=300.0)] = Field(
        default=LAG_SECONDS,
        description="Seconds after which a scrape is surely stored: the longest scrape time-out of the pods' jobs; 10, "
        "Prometheus' default. Decisions come later by as much.",
    )
    prefix: Word = Field(
        default=VLLM_PREFIX,
        description="What the names of vLLM's series begin with; `vllm:`, as vLLM has it (KServe: `kserve_vllm:`).",
    )
    namespace_label: Word = Field(
        default="namespace", description="Label that names the pod's namespace; `namespace`, as monitors set it."
    )
    pod_label: Word = Field(default="pod", description="Label that names the pod; `pod`, as monitors set it.")
    matchers: Annotated[tuple[Word, ...], Field(strict=False, max_length=16)] = Field(
        default=(),
        description='Further matchers in PromQL, such as `cluster="west"` where one Prometheus holds several clusters; '
        "by default none.",
    )
    token_file: FilePath | None = Field(
        default=None, description="File with a bearer token; by default none is sent. Read again for every query."
    )
    basic_auth: BasicAuthSettings | None = Field(
        default=None, description="User and password instead of a token; by default none are sent."
    )
    cert_file: FilePath | None = Field(
        default=None,
        description="The operator's own certificate, in PEM, for servers that ask for one; by default it has none. "
        "Read again for every connection.",
    )
    key_file: FilePath | None = Field(
        default=None, description="Its key, in PEM; by default it is in the same file. Read again as well."
    )
    ca_file: FilePath | None = Field(
        default=None,
        description="Certificates, in PEM, that the server's is checked against; by default those that the system "
        "trusts. Read again for every connection.",
    )
    headers: Annotated[dict[Word, str], Field(max_length=16)] = Field(
        default={}, description="Further headers of every query, none of them secret; by default none."
    )
    tenant: Word | None = Field(
        default=None, description="Tenant whose series are asked for, sent as `X-Scope-OrgID`; by default none is sent."
    )

    @field_validator("url", "prefix", "namespace_label", "pod_label", "matchers", "headers", "tenant")
    @classmethod
    def one_by_one(cls, value: Any, info: ValidationInfo) -> Any:
        """The client takes each of them."""
        alone: dict[str, Any] = {"url": "http://prometheus", info.field_name or "": value}
        PrometheusSettings(**alone)
        return value

    @field_validator("url")
    @classmethod
    def no_password(cls, url: str) -> str:
        """The address holds no secret."""
        if "@" in url:
            raise ValueError("holds a password, which must not stand here; give basicAuth")
        return url

    @model_validator(mode="after")
    def all_together(self) -> Self:
        """The client takes them together."""
        if self.token_file is not None and self.basic_auth is not None:
            raise ValueError("tokenFile and basicAuth: a query carries one of them; remove the other")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("keyFile is the key of a certificate; add certFile")
        return self

    def server(self) -> PrometheusSettings:
        """The same for the client."""
        return PrometheusSettings(
            self.url,
            prefix=self.prefix,
            namespace_label=self.namespace_label,
            pod_label=self.pod_label,
            matchers=self.matchers,
            timeout_seconds=self.timeout_seconds,
            lag_seconds=self.lag_seconds,
            token_file=_path(self.token_file),
            basic_auth=None if self.basic_auth is None else self.basic_auth.basic_auth(),
            ca_file=_path(self.ca_file),
            cert_file=_path(self.cert_file),
            key_file=_path(self.key_file),
            headers=self.headers,
            tenant=self.tenant,
        )


SourceSettings = Annotated[PodsSettings | PrometheusSourceSettings, Field(discriminator="type")]


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)
