"""A command with files of its own in places of this machine, which nobody else sees there; needs root.

It gets a mount namespace.  Places that the machine lacks, such as /etc/specloop, come by an overlay of the folder at
the top, so that nothing of the machine itself is changed.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path


def mounted(command: Sequence[str], mounts: Mapping[str, Path], scratch: Path, *, read_only: bool) -> list[str]:
    """The command with a file or folder in each place, and all else read-only if wished; its process id stays."""
    places = {Path(place).resolve(): source for place, source in mounts.items()}  # /var/run leads to /run
    absent = [place for place in places if not place.exists()]
    for place in absent:
        (scratch / place.relative_to("/")).mkdir(parents=True, exist_ok=True)
    tops = sorted({place.parts[1] for place in absent})
    steps = [
        *(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={scratch / top}:/{top}", f"/{top}"] for top in tops),
        *(["mount", "--bind", str(source), str(place)] for place, source in places.items()),
        *([["mount", "-o", "remount,bind,ro", "/"]] if read_only else []),
    ]
    script = " && ".join([*map(shlex.join, steps), 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command]
