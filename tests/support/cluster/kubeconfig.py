"""Kubeconfig files: who talks to which address of the API server."""

from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A file that names a server, what to trust it by, and a bearer token; all clients take it."""

    path: Path
    url: str
    token: str
    ca: Path | None
    """None over plain HTTP."""

    def write(self) -> "Kubeconfig":
        """Write the file; itself."""
        cluster = {"server": self.url, **({"certificate-authority": str(self.ca)} if self.ca else {})}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        self.path.write_text(yaml.safe_dump(content))
        return self
