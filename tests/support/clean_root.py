"""A container image without a builder: the steps of a Containerfile in a root of their own, and the result started.

A root is a folder that `chroot` enters, with mounts and processes of its own. Bases come from Debian, not from a
registry. The image `python:3.11-slim-bookworm` is Debian bookworm with a CPython 3.11 at /usr/local; for it stands
Debian bookworm with its own CPython 3.11, and an environment of it at /usr/local, pip included. For the image `busybox`
stands Debian's static busybox. Sizes are therefore near those of the images, and not theirs.

It needs root, Linux namespaces, and mmdebstrap, which made the base in 27 s where debootstrap took 156 s.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote

import pytest

from tests.support.containerfile import Context, Instruction, Refused, Stage, argument, filled, pairs, read, words_of

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specloop" / "clean-root"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Whom this machine trusts, which a step that downloads must trust too; Debian and its images have the file there."""
NETWORK_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Builders hand these to every step by themselves."""
DEVICES = ("null", "zero", "full", "random", "urandom")
SLIM = ("doc", "man", "locale", "info", "lintian")
"""What Debian's slim images leave out of /usr/share."""
BOOTSTRAP = (
    *("mmdebstrap", "--quiet", "--mode=root", "--format=directory"),
    *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in SLIM),
)
STEP_SECONDS = 600.0
"""The longest one, a base, took 27 s, and two minutes on a machine with many other things to do."""


@dataclass(frozen=True)
class Base:
    """How a base is made: packages of Debian bookworm, and a command in the root that holds them."""

    variant: str
    packages: tuple[str, ...]
    afterwards: tuple[str, ...]
    environment: Mapping[str, str]
    """As the image has it that this stands for."""

    @property
    def key(self) -> str:
        """Names what it is made of."""
        parts = (*BOOTSTRAP, self.variant, *self.packages, *self.afterwards, platform.machine())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


BASES = {
    "docker.io/library/python:3.11.14-slim-bookworm": Base(
        "minbase",
        ("ca-certificates", "netbase", "tzdata", "python3", "python3-venv"),
        ("/usr/bin/python3", "-m", "venv", "/usr/local"),
        {"PATH": "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
    ),
    "docker.io/library/busybox:1.37.0-musl": Base(
        "extract",
        ("busybox-static",),
        (
            "/bin/busybox",
            "sh",
            "-c",
            "/bin/busybox mkdir -p /proc /tmp /usr/bin /usr/sbin /sbin && /bin/busybox --install -s",
        ),
        {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
    ),
}
"""By the image that each stands for: whoever names another one looks first what that has."""


@dataclass(frozen=True)
class Image:
    """A root, and how programs are started in it."""

    root: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def command(
        self,
        *words: str,
        user: str = "",
        volumes: Mapping[str, Path] | None = None,
        environment: Mapping[str, str] | None = None,
        building: bool = False,
        network: bool = False,
    ) -> list[str]:
        """A command of this machine that starts these words there, as the first process, as a cluster would.

        The root is read-only, unless it is being built; without network there is not even loopback. Volumes are files
        and folders of this machine, by their paths there.
        """
        root = quote(str(self.root))
        lines = [
            f"mount --bind {root} {root}",
            f"mount -t proc proc {root}/proc",
            f"mount -t tmpfs -o mode=755,size=64k tmpfs {root}/dev",
            # Processes that share work have their locks there; every runtime makes it.
            f"mkdir {root}/dev/shm; mount -t tmpfs -o mode=1777,size=64m tmpfs {root}/dev/shm",
            *(f"touch {root}/dev/{one}; mount --bind /dev/{one} {root}/dev/{one}" for one in DEVICES),
        ]
        for there, here in (volumes or {}).items():
            lines.append(f"mount --bind {quote(str(here))} {quote(str(self._mount_point(there, here)))}")
        if not building:
            lines += [f"mount -o remount,bind,ro {root}", f"mount -o remount,ro {root}/dev"]
        variables = [f"{name}={value}" for name, value in {**self.environment, **(environment or {})}.items()]
        enter = ["chroot", f"--userspec={user or self.user}", "--groups=", str(self.root), "/usr/bin/env", "-i"]
        start = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', self.folder]
        script = "\n".join(["set -e", *lines, 'exec "$@"'])
        alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *([] if network else ["--net"])]
        return [*alone, "/bin/sh", "-c", script, "sh", *enter, *variables, *start, *words]

    def run(self, *words: str, **how: object) -> "subprocess.CompletedProcess[str]":
        """What a program says that ends by itself; arguments as those of `command`."""
        command = self.command(*words, **how)  # type: ignore[arg-type]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=STEP_SECONDS)

    def path(self, inside: str) -> Path:
        """Where something of the root is on this machine; refused where a link would lead out of the root."""
        found = (self.root / inside.lstrip("/")).resolve()
        if not found.is_relative_to(self.root.resolve()):
            raise Refused(f"{inside} leads out of the root")
        return found

    def _mount_point(self, inside: str, here: Path) -> Path:
        point = self.path(inside)
        if here.is_dir():
            point.mkdir(parents=True, exist_ok=True)
        else:
            point.parent.mkdir(parents=True, exist_ok=True)
            point.touch()
        return point


def why_not() -> str | None:
    """Why no clean root can be made here; None where one can."""
    if os.geteuid() != 0:
        return "a clean root takes the user root"
    missing = [name for name in ("mmdebstrap", "unshare", "chroot") if shutil.which(name) is None]
    if missing:
        return f"a clean root takes {' and '.join(missing)}: install the packages mmdebstrap, util-linux and coreutils"
    tried = subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "true"], capture_output=True, text=True)
    return f"no namespaces of our own are allowed here: {tried.stderr.strip()}" if tried.returncode else None


def require() -> None:
    """Skip a test where there is no clean root to be had, or fail it where real things are required."""
    if (reason := why_not()) is not None:
        if os.environ.get("SPECLOOP_REQUIRE_ENGINES"):
            pytest.fail(reason)
        pytest.skip(reason)


def build(containerfile: Path, context: Context, arguments: Mapping[str, str], into: Path) -> Image:
    """Carry out all steps; roots are made in the folder `into`, and those of earlier stages go once all is done."""
    stages = read(containerfile.read_text(), arguments)
    made: dict[str, Image] = {}
    for number, stage in enumerate(stages):
        name = stage.name or str(number)
        made[name] = _stage(stage, made, context, arguments, into / name)
    *others, (_, last) = made.items()
    for _, image in others:
        shutil.rmtree(image.root)
    return last


def _stage(
    stage: Stage, earlier: Mapping[str, Image], context: Context, arguments: Mapping[str, str], root: Path
) -> Image:
    known = BASES.get(stage.image)
    if known is None:
        raise Refused(f"FROM {stage.image}: nothing is known to stand for it; add it to BASES")
    subprocess.run(["cp", "--archive", "--reflink=auto", str(_base(known)), str(root)], check=True)
    image, given = Image(root, environment=known.environment), dict[str, str]()
    for step in stage.steps:
        image = _step(step, image, given, earlier, context, arguments)
    return image


def _step(
    step: Instruction,
    image: Image,
    given: dict[str, str],
    earlier: Mapping[str, Image],
    context: Context,
    arguments: Mapping[str, str],
) -> Image:
    """The image after one step; grows `given` by the stage's arguments."""
    rest = filled(step, {**given, **image.environment})
    match step.name:
        case "ARG":
            given.update(argument(step, arguments))
        case "ENV":
            return replace(image, environment={**image.environment, **pairs(rest)})
        case "LABEL":
            return replace(image, labels={**image.labels, **pairs(rest)})
        case "WORKDIR":
            if not rest.startswith("/"):
                raise Refused(f"WORKDIR {rest}: it may be an absolute path")
            image.path(rest).mkdir(parents=True, exist_ok=True)
            return replace(image, folder=rest)
        case "USER":
            if not all(part.isdecimal() for part in rest.split(":")) or rest.count(":") != 1:
                raise Refused(f"USER {rest}: it may be two numbers, which a cluster can tell from root")
            return replace(image, user=rest)
        case "ENTRYPOINT":
            return replace(image, entrypoint=words_of(step))
        case "COPY":
            _copy(rest.split(), image, earlier, context)
        case "RUN":
            _run(rest, image, given)
        case _:
            raise Refused(f"{step.name}: nobody here needs it")
    return image


def _copy(words: Sequence[str], image: Image, earlier: Mapping[str, Image], context: Context) -> None:
    """Files as they are, folders by what is in them, with the modes that they have; to root's account."""
    stage = words[0].removeprefix("--from=") if words[0].startswith("--from=") else None
    *sources, target = words[1:] if stage is not None else words
    if any(word.startswith("--") or set(word) & set('*?["') for word in (*sources, target)) or not sources:
        raise Refused(f"COPY {' '.join(words)}: it may be plain paths, with --from=STAGE")
    into_folder = target.endswith("/")
    if len(sources) > 1 and not into_folder:
        raise Refused(f"COPY {' '.join(words)}: several files go into a folder, which ends with /")
    where = image.path(target if target.startswith("/") else f"{image.folder}/{target}")
    for source in sources:
        found = earlier[stage].path(source) if stage is not None else context.path(source)
        if found.is_dir():
            ignore = shutil.ignore_patterns(*(context.kept_out() if stage is None else ()))
            shutil.copytree(found, where, symlinks=True, ignore=ignore, dirs_exist_ok=True)
        else:
            where.parent.mkdir(parents=True, exist_ok=True)
            (where if into_folder else where.parent).mkdir(exist_ok=True)
            shutil.copy2(found, where / found.name if into_folder else where)


def _run(line: str, image: Image, given: Mapping[str, str]) -> None:
    """One line for the shell, with the network and the certificates of this machine, and a cache for downloads."""
    if line.startswith(("[", "--")):
        raise Refused(f"RUN {line}: it may be a line for the shell")
    downloads = CACHE / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    environment = {name: os.environ[name] for name in NETWORK_VARIABLES if name in os.environ}
    volumes = {"/root/.cache": downloads, "/etc/resolv.conf": Path("/etc/resolv.conf")}
    if CERTIFICATES.exists() and image.path(str(CERTIFICATES)).exists():
        volumes[str(CERTIFICATES)] = CERTIFICATES
        environment |= {"SSL_CERT_FILE": str(CERTIFICATES), "PIP_CERT": str(CERTIFICATES)}
    done = image.run(
        "/bin/sh",
        "-c",
        line,
        volumes=volumes,
        environment={"HOME": "/root", **environment, **given},
        building=True,
        network=True,
    )
    if done.returncode != 0:
        raise AssertionError(f"RUN {line}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _base(base: Base) -> Path:
    """The root that a base is, made once for each user and kept; two at once are safe: the second waits."""
    kept = CACHE / base.key
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kept.exists():
            return kept
        for left_over in CACHE.glob("making-*"):
            shutil.rmtree(left_over)
        making = Path(tempfile.mkdtemp(prefix="making-", dir=CACHE)) / "root"
        packages = [f"--variant={base.variant}", f"--include={','.join(base.packages)}"]
        subprocess.run([*BOOTSTRAP, *packages, "bookworm", str(making)], check=True, timeout=STEP_SECONDS)
        image = Image(making, environment=base.environment)
        subprocess.run(["chroot", str(image.root), *base.afterwards], check=True, env=dict(base.environment))
        making.rename(kept)  # whole from the first moment that it is there
        making.parent.rmdir()
    return kept
