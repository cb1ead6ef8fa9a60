"""A real control plane on loopback: etcd, API server, controller manager, scheduler.

Several may run side by side, each with ports and a folder of its own. They are stopped in the opposite order of their
start and one after the other, because an API server whose etcd is gone lingers for a minute.
"""

import base64
import json
import secrets
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import httpx
import yaml

from tests.support.cluster.daemons import Daemon, free_port
from tests.support.cluster.environment import Object
from tests.support.cluster.kubeconfig import Kubeconfig

READY_SECONDS = 60.0
"""It takes 2 to 4; the machine may have other things to do."""
CRDS = Path(__file__).parents[3] / "crds"
TOKEN_SECONDS = 24 * 3600
CREDENTIAL = "authentication.kubernetes.io/credential-id"
"""Where the API server says by which of a service account's tokens a request came (KEP-4193)."""
AUDITED: Object = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]}],
}
"""What is written down of requests: of writes, who asked for what, when, and with which answer."""


class ControlPlane:
    """A running control plane; leaving the with-block ends it."""

    def __init__(self, binaries: Mapping[str, Path], folder: Path) -> None:
        self.binaries = binaries
        self.folder = folder
        self.url = f"https://127.0.0.1:{free_port()}"
        self.admin = Kubeconfig(folder / "admin.yaml", self.url, secrets.token_hex(16), self._pki / "apiserver.crt")
        etcd, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._etcd = self._daemon("etcd", self._etcd_flags(etcd, peers))
        self._api = self._daemon("kube-apiserver", self._api_flags(etcd))
        self._controllers = self._daemon("kube-controller-manager", self._controller_flags())
        self._scheduler = self._daemon("kube-scheduler", self._client_flags())

    def __enter__(self) -> Self:
        """Start everything, and return when the API server is ready and its controllers run."""
        try:
            self._write_secrets()
            self._etcd.start()
            self.start_api()
            self._controllers.start()
            self._scheduler.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill everything, in order: there is nothing to keep but the logs."""
        for daemon in (self._scheduler, self._controllers, self._api, self._etcd):
            daemon.kill()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def start_api(self) -> None:
        """Start the API server and wait until it is ready."""
        self._api.start()
        self._until(self._is_ready, self._api)

    def stop_api(self) -> None:
        """Stop the API server alone: clients get nothing but refused connections."""
        self._api.stop()

    @contextmanager
    def api_down(self) -> Iterator[None]:
        """No API server for the length of the block; a ready one afterwards."""
        self.stop_api()
        yield
        self.start_api()

    def audit(self, kubeconfig: Kubeconfig) -> list[Object]:
        """The writes that the API server has answered to who holds this service account's token, oldest first."""
        with self._audit_log.open(encoding="utf-8") as log:
            entries = [json.loads(line) for line in log if line.endswith("\n")]
        whose = [f"JTI={_token_id(kubeconfig.token)}"]
        return [one for one in entries if (one["user"].get("extra") or {}).get(CREDENTIAL) == whose]

    def client(self, kubeconfig: Kubeconfig | None = None) -> httpx.Client:
        """A plain HTTP client of the API server, by default the admin's."""
        who = kubeconfig or self.admin
        trust = ssl.create_default_context(cafile=who.ca) if who.ca else False
        headers = {"Authorization": f"Bearer {who.token}", "User-Agent": "specloop-test"}
        return httpx.Client(base_url=who.url, headers=headers, verify=trust, timeout=30.0)

    def install_crds(self) -> None:
        """Create the project's resource definitions, and wait until their objects can be stored."""
        with self.client() as http:
            for path in sorted(CRDS.glob("*.yaml")):
                definition = yaml.safe_load(path.read_text(encoding="utf-8"))
                http.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=definition).raise_for_status()
                spec = definition["spec"]
                served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
                # 404 at first, and then for about a second 429, "storage is (re)initializing".
                self._until(lambda path=served: http.get(path).status_code == 200, self._api)  # type: ignore[misc]

    def service_account(self, namespace: str, name: str, url: str | None = None) -> Kubeconfig:
        """The kubeconfig of an existing service account, with a fresh token; `url` may be that of a proxy."""
        with self.client() as http:
            answer = http.post(
                f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
                json={"spec": {"expirationSeconds": TOKEN_SECONDS}},
            )
        token: str = answer.raise_for_status().json()["status"]["token"]
        return self.kubeconfig(f"{namespace}-{name}", token, url)

    def kubeconfig(self, name: str, token: str, url: str | None = None) -> Kubeconfig:
        """A new kubeconfig file for a token, straight to the API server or by another URL."""
        where = url or self.url
        ca = self.admin.ca if where.startswith("https") else None
        return Kubeconfig(self.folder / f"{name}-{secrets.token_hex(4)}.yaml", where, token, ca).write()

    @property
    def _pki(self) -> Path:
        return self.folder / "pki"

    @property
    def _signing_key(self) -> Path:
        return self.folder / "service-accounts.key"

    @property
    def _audit_policy(self) -> Path:
        return self.folder / "audit-policy.yaml"

    @property
    def _audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def _tokens(self) -> Path:
        return self.folder / "tokens.csv"

    def _write_secrets(self) -> None:
        key = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(self._signing_key)]
        subprocess.run(key, check=True, capture_output=True)
        self._audit_policy.write_text(yaml.safe_dump(AUDITED))
        self._tokens.write_text(f'{self.admin.token},admin,admin,"system:masters"\n')
        self.admin.write()

    def _daemon(self, name: str, flags: Mapping[str, object]) -> Daemon:
        command = [str(self.binaries[name]), *(f"--{flag}={value}" for flag, value in flags.items())]
        return Daemon(command, self.folder / f"{name}.log")

    def _etcd_flags(self, clients: str, peers: str) -> Mapping[str, object]:
        return {
            "data-dir": self.folder / "etcd",
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "unsafe-no-fsync": "true",
        }

    def _api_flags(self, etcd: str) -> Mapping[str, object]:
        return {
            "etcd-servers": etcd,
            "secure-port": self.url.rpartition(":")[2],
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "cert-dir": self._pki,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": self._signing_key,
            "service-account-signing-key-file": self._signing_key,
            "token-auth-file": self._tokens,
            "audit-policy-file": self._audit_policy,
            "audit-log-path": self._audit_log,
            "authorization-mode": "Node,RBAC",
            "service-cluster-ip-range": "10.0.0.0/24",
            "endpoint-reconciler-type": "none",
            # A namespace may name the nodes of its pods: each test has nodes of its own.
            "enable-admission-plugins": "PodNodeSelector",
        }

    def _controller_flags(self) -> Mapping[str, object]:
        return {
            **self._client_flags(),
            "use-service-account-credentials": "true",
            "service-account-private-key-file": self._signing_key,
            "root-ca-file": self.admin.ca,  # what pods trust the API server by
        }

    def _client_flags(self) -> Mapping[str, object]:
        # No --authentication-kubeconfig: without a client CA it waits for a ConfigMap that never comes.
        return {
            "kubeconfig": self.admin.path,
            "leader-elect": "false",
            "bind-address": "127.0.0.1",
            "secure-port": free_port(),
            "cert-dir": self._pki,
        }

    def _is_ready(self) -> bool:
        try:
            with self.client() as http:
                return http.get("/readyz").status_code == 200
        except (httpx.TransportError, OSError):  # no port yet, or not even the certificate
            return False

    def _until(self, condition: Callable[[], bool], daemon: Daemon) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not condition():
            if not daemon.running or time.monotonic() > deadline:
                raise AssertionError(f"not ready ({daemon.log}): {daemon.last_words()}")
            time.sleep(0.05)


def _token_id(token: str) -> str:
    """The `jti` of a service account's token, which is a JSON Web Token (RFC 7519)."""
    claims = token.split(".")[1]
    found: str = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["jti"]
    return found
