"""`python -m specloop_operator`: read the settings once, then run until asked to end."""

import argparse
import asyncio
import gc
import os
import sys
from pathlib import Path

from specloop_operator.api import ConnectError
from specloop_operator.cluster import ApiError
from specloop_operator.health import ListenError
from specloop_operator.logs import configure_logging
from specloop_operator.program import run
from specloop_operator.settings import SettingsError, load_settings

COLLECT = (10_000, 20, 10)
"""Collect garbage a tenth as often: an answer about a thousand pods is some 300,000 objects with no cycle among them,
and by default a third of the processor's time goes into looking for one."""

SWITCH_SECONDS = 0.0005
"""How long the thread that reads such an answer may go on before the event loop has its turn: it asks for one at every
request, and by default waits ten times as long, which makes it four times as slow."""


def main() -> int:
    """Exit code 0 after a signal, 2 where it cannot run as it is set up."""
    parser = argparse.ArgumentParser(prog="python -m specloop_operator", description=__doc__)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="YAML with the settings of docs/reference/operator.md"
    )
    arguments = parser.parse_args()
    try:
        settings = load_settings(arguments.config, os.environ)
        configure_logging(settings.log_format, settings.log_level.upper())
        gc.set_threshold(*COLLECT)
        sys.setswitchinterval(SWITCH_SECONDS)
        asyncio.run(run(settings))
    except (SettingsError, ConnectError, ListenError, ApiError) as error:
        sys.stderr.write(f"specloop-operator: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
