"""A simulated vLLM server: `python -m specloop_sim.server serve MODEL [vLLM's flags]`.

It speaks enough of vLLM's HTTP to take traffic and to be watched, and answers with words that mean nothing, as fast as
the engine model says.  Everything about time that it shows is the model's (settings.py).  It is told nothing of the
traffic to come.  The port opens when the simulated start-up is over.  SIGTERM and SIGINT give running requests
`--shutdown-timeout` model seconds, during which `/health` stays 200 and new requests are refused (assumed); at 0,
vLLM's default, they are cut off.
"""

import os
import sys
import time


def main() -> int:
    """Serve until told to end; the exit code, 1 where vLLM would not start."""
    began = time.time()
    # Imported only now, so that the time this takes is part of the simulated start-up.
    from specloop_sim.serve.serving import run

    return run(sys.argv[1:], os.environ, began)


if __name__ == "__main__":
    sys.exit(main())
