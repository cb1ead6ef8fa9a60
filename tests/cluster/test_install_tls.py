"""The chart's certificates in a real cluster: what its ports speak then, and to whom."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.component.sources.certificates import Pair, authority, signed
from tests.support.alerts import alert_json, message_json
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.daemons import free_port
from tests.support.cluster.release import CHART, HERE, ROOT_ONLY, Release

HOST = f"{HERE}.{HERE}.svc"
"""What docs/install.md has the certificates be for."""
TOKEN = "open sesame"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PATIENCE_SECONDS = 60.0
"""What an answer may take at most on a machine with other things to do."""

pytestmark = pytest.mark.cluster


@dataclass(frozen=True)
class Known:
    """Two authorities, and what each has signed."""

    ours: Pair
    theirs: Pair
    server: Pair
    client: Pair
    stranger: Pair


def made(folder: Path) -> Known:
    """By openssl."""
    for name in ("ours", "theirs"):
        (folder / name).mkdir()
    ours, theirs = authority(folder / "ours", "ours"), authority(folder / "theirs", "theirs")
    server = signed(ours, "server", f"DNS:{HOST}")
    return Known(ours, theirs, server, signed(ours, "client"), signed(theirs, "stranger"))


def trusting(server: Pair, shown: Pair | None = None) -> ssl.SSLContext:
    """A client that trusts an authority, and shows a certificate."""
    context = ssl.create_default_context(cafile=str(server.cert))
    if shown is not None:
        context.load_cert_chain(shown.cert, shown.key)
    return context


def answer(url: str, context: ssl.SSLContext, headers: Mapping[str, str] | None = None) -> httpx.Response | None:
    """What is said at an address to somebody who looks for the Service's name in the certificate; None for nothing.

    Alerts are posted, pages are asked for.
    """
    alerts = url.endswith("/alerts")
    content = message_json(alert_json()) if alerts else None
    with httpx.Client(verify=context, trust_env=False, timeout=PATIENCE_SECONDS) as client:
        try:
            return client.request(
                "POST" if alerts else "GET",
                url,
                content=content,
                headers=headers,
                extensions={"sni_hostname": HOST},
            )
        except httpx.TransportError:
            return None


def code(url: str, context: ssl.SSLContext, headers: Mapping[str, str] | None = None) -> int | None:
    """The status of the answer; None where there is none."""
    found = answer(url, context, headers)
    return None if found is None else found.status_code


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("SPECLOOP_REQUIRE_ENGINES"), reason=ROOT_ONLY)
def test_a_release_with_certificates_speaks_https_alone_and_knows_its_senders(empty: Cluster, tmp_path: Path) -> None:
    """Both ports, probes and `helm test` included; with webhook.tls.clientCa a certificate is asked for as well."""
    cluster, release, known = empty, Release(empty), made(tmp_path)
    pair = [f"--from-file=tls.crt={known.server.cert}", f"--from-file=tls.key={known.server.key}"]
    kind = ("create", "secret", "generic", "--type=kubernetes.io/tls")
    release.kubectl(*kind, "specloop-tls", *pair)
    release.kubectl(*kind, "specloop-webhook-tls", *pair, f"--from-file=ca.crt={known.ours.cert}")
    release.kubectl("create", "secret", "generic", "alertmanager-token", f"--from-literal=token={TOKEN}")

    door = free_port()
    values = release.values(
        "metrics.tlsSecret=specloop-tls",
        "webhook.enabled=true",
        f"webhook.port={door}",
        "webhook.tokenSecret.name=alertmanager-token",
        "webhook.tls.secretName=specloop-webhook-tls",
    )
    release.helm("install", str(CHART), *values, "--wait")
    first = release.until_all_new({})
    anybody = trusting(known.ours)
    for address in (one["status"]["podIP"] for one in first.values()):
        page, alerts = f"//{address}:{release.port}/metrics", f"//{address}:{door}/alerts"
        metrics = answer(f"https:{page}", anybody)
        assert metrics is not None
        assert "specloop_build_info" in metrics.text
        assert code(f"https:{page}", trusting(known.theirs)) is None
        assert code(f"http:{page}", anybody) is None
        assert [code(f"https:{alerts}", anybody, headers) for headers in (None, BEARER)] == [401, 200]
        assert code(f"https:{alerts}", trusting(known.theirs), BEARER) is None
        assert code(f"http:{alerts}", anybody, BEARER) is None
    cluster.kubelet.hosts[HOST] = next(iter(first.values()))["status"]["podIP"]
    assert "Phase:          Succeeded" in release.helm("test")

    release.helm("upgrade", str(CHART), "--reuse-values", "--set=webhook.tls.clientCa=true", "--wait")
    for address in (one["status"]["podIP"] for one in release.until_all_new(first).values()):
        alerts = f"https://{address}:{door}/alerts"
        ours = trusting(known.ours, known.client)
        assert [code(alerts, ours, headers) for headers in (None, BEARER)] == [401, 200]
        assert code(alerts, anybody, BEARER) is None
        assert code(alerts, trusting(known.ours, known.stranger), BEARER) is None
        assert code(f"https://{address}:{release.port}/metrics", anybody) == 200
    assert len(release.logs()) >= 4  # of two pods at each of two revisions
    assert release.complaints() == []
