"""`python -m specloop_cli` is `specloop`."""

import sys

from specloop_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
