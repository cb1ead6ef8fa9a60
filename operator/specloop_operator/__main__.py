"""`python -m specloop_operator`: read the settings once, then run until asked to end."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from specloop_operator.api import ConnectError
from specloop_operator.cluster import ApiError
from specloop_operator.interpreter import set_up
from specloop_operator.leadership import Deposed
from specloop_operator.logs import configure_logging
from specloop_operator.program import run
from specloop_operator.serving import ListenError
from specloop_operator.settings import SettingsError, load_settings


def main() -> int:
    """Exit code 0 after a signal, 1 where another leads now, 2 where it cannot run as it is set up."""
    parser = argparse.ArgumentParser(prog="python -m specloop_operator", description=__doc__)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="YAML with the settings of docs/reference/operator.md"
    )
    arguments = parser.parse_args()
    try:
        settings = load_settings(arguments.config, os.environ)
        configure_logging(settings.log_format, settings.log_level.upper())
        set_up()
        asyncio.run(run(settings))
    except (SettingsError, ConnectError, ListenError, ApiError) as error:
        sys.stderr.write(f"specloop-operator: {error}\n")
        return 2
    except Deposed as error:
        sys.stderr.write(f"specloop-operator: {error}; another operator leads, or may\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
