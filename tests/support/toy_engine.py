"""A toy engine: answers `/health`, and on `/metrics` what a llama-server would say of steady traffic.

It takes llama-server's speculative flags, to which it owes its K, and `--toy BEHAVIOUR` any number of times; with `K:`
before it a behaviour is shown at this K alone.

  exit=CODE      end at once with this code
  start=SECONDS  open the port only after so long
  sick           be alive, and never healthy
  deaf           do not listen to SIGTERM
  stop=SECONDS   take so long to end after SIGTERM
  busy           always have a request under way
  rate=SHARE     accept this share of the draft tokens (0.8)

`--toy-journal FILE` gets a line with the time, K and what happened, for every start, SIGTERM and end.
"""

import argparse
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType

REQUESTS_A_SECOND = 50.0
TOKENS_A_REQUEST = 200.0
DRAFTS_A_REQUEST = 60.0


def read_flags() -> argparse.Namespace:
    """The flags that matter here; the rest of llama-server's are accepted and change nothing."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--spec-type", default="none")
    parser.add_argument("--spec-draft-n-max", type=int, default=0)
    parser.add_argument("--spec-ngram-simple-size-m", type=int, default=48)
    parser.add_argument("--toy", action="append", default=[])
    parser.add_argument("--toy-journal", default="/dev/null")
    return parser.parse_known_args()[0]


def tokens(flags: argparse.Namespace) -> int:
    """K, 0 when off."""
    if flags.spec_type == "ngram-simple":
        return int(flags.spec_ngram_simple_size_m)
    return 0 if flags.spec_type == "none" else int(flags.spec_draft_n_max)


def behaviours(flags: argparse.Namespace, k: int) -> dict[str, str]:
    """Behaviours at this K with their values; what is said of this K alone wins."""
    found: dict[str, str] = {}
    for one in sorted(flags.toy, key=lambda text: ":" in text):
        at, colon, behaviour = one.rpartition(":")
        if not colon or int(at) == k:
            name, _, value = behaviour.partition("=")
            found[name] = value
    return found


def page(k: int, rate: float, seconds: float, busy: bool) -> str:
    """What a llama-server that has had steady traffic for so long says of it."""
    requests = 1 + int(REQUESTS_A_SECOND * seconds)
    drafts = int(DRAFTS_A_REQUEST * requests) if k else 0
    accepted = int(drafts * rate)
    lines = [
        f"llamacpp:prompt_tokens_total {100 * requests}",
        f"llamacpp:tokens_predicted_total {int(TOKENS_A_REQUEST * requests)}",
        f"llamacpp:n_decode_total {int(TOKENS_A_REQUEST * requests)}",
        f"llamacpp:spec_decode_num_drafts_total {drafts}",
        f"llamacpp:spec_decode_num_draft_tokens_total {drafts * k}",
        f"llamacpp:spec_decode_num_accepted_tokens_total {accepted * k}",
        f"llamacpp:requests_processing {int(busy)}",
        "llamacpp:requests_deferred 0",
    ]
    if drafts:
        lines += [
            f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{place}"}} {accepted}'
            for place in range(k)
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Serve until told to end."""
    flags = read_flags()
    k = tokens(flags)
    shown = behaviours(flags, k)
    began = time.monotonic()

    def note(event: str) -> None:
        with Path(flags.toy_journal).open("a") as journal:
            journal.write(f"{time.monotonic():.3f} {k} {event}\n")

    def told_to_end(number: int, frame: FrameType | None) -> None:
        note("sigterm")
        if "deaf" not in shown:
            time.sleep(float(shown.get("stop", "0")))
            note("end")
            sys.exit(0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer `/health` and `/metrics`."""
            healthy = self.path != "/health" or "sick" not in shown
            text = "ok\n"
            if self.path == "/metrics":
                text = page(k, float(shown.get("rate", "0.8")), time.monotonic() - began, "busy" in shown)
            self.send_response(200 if healthy else 503)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *arguments: object) -> None:
            """Say nothing of clients that went away."""

    signal.signal(signal.SIGTERM, told_to_end)
    signal.signal(signal.SIGINT, told_to_end)
    note("start")
    if "exit" in shown:
        sys.stderr.write("toy engine: no such luck\n")
        sys.exit(int(shown["exit"]))
    time.sleep(float(shown.get("start", "0")))
    with Server((flags.host, flags.port), Handler) as server:
        sys.stdout.write(f"toy engine: K = {k} on port {flags.port}\n")
        sys.stdout.flush()
        server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
