"""Live control of one engine on this machine: its command asks for the plugin, and here is what the plugin needs.

The plugin's scheduler comes with the command, `--scheduler-cls specloop_vllm.LiveScheduler`; the package, a folder and
a token come with the environment, unless the user's own environment has them.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

import specloop_vllm
from specloop_control.credentials import CredentialError, secret
from specloop_control.live import LiveControl, level_table, started_table
from specloop_engine.command_line import CommandLine
from specloop_engine.speculation import StartupProfile
from specloop_policy.ladder import Level
from specloop_vllm.control import TOKEN_FILE
from specloop_vllm.exchange import FOLDER

PACKAGE = specloop_vllm.__name__


def has_plugin(line: CommandLine) -> bool:
    """Whether a command loads the plugin's scheduler."""
    flag = line.flag("--scheduler-cls")
    return flag is not None and (flag.value or "").startswith(f"{PACKAGE}.")


@contextmanager
def plugin_environment(given: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """What the plugin needs beside the environment that is given, for the length of a block.

    A package, a folder and a token of ours; what the user's own environment names is left to it.
    """
    with tempfile.TemporaryDirectory(prefix="specloop-") as name:
        folder = Path(name)
        shutil.copytree(Path(specloop_vllm.__path__[0]), folder / "python" / PACKAGE)
        (folder / "live").mkdir()
        (folder / "token").write_text(secrets.token_urlsafe(32))
        (folder / "token").chmod(0o600)
        path = [one for one in (given.get("PYTHONPATH"), str(folder / "python")) if one]
        own = {FOLDER: str(folder / "live"), TOKEN_FILE: str(folder / "token")}
        yield {**{key: given.get(key, value) for key, value in own.items()}, "PYTHONPATH": os.pathsep.join(path)}


class LocalLive:
    """Brings one engine to levels without a restart, as far as it was started for them."""

    def __init__(
        self, client: httpx.AsyncClient, token_file: Path, profile_of: Callable[[Level], StartupProfile | None]
    ) -> None:
        """`profile_of` tells what the engine is started with at a level."""
        self._client = client
        self._token_file = token_file
        self._profile_of = profile_of

    async def reach(self, url: str, started: Level, level: Level) -> str | None:
        """Bring an engine that was started at one level to another; None once it has taken that, else why it does not.

        "" where there is nothing wrong, and a restart is what it takes.
        """
        profile = self._profile_of(started)
        if profile is None or not profile.reaches(level):
            return ""
        try:
            headers = {"Authorization": f"Bearer {secret(self._token_file, 'token')}"}
        except CredentialError as error:
            return str(error)
        control = LiveControl(self._client, headers)
        table = started_table(level, profile.table) if level == started else level_table(level)
        found = (await control.bring({"engine": url}, table))["engine"]
        return None if found.in_line else found.reason
