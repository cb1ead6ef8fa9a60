"""The reader of Containerfiles: what ours say is carried out, and all else is refused rather than passed over."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.component.images.conftest import IMAGES, ROOT
from tests.support.clean_root import BASES, Image, build, require
from tests.support.containerfile import Context, Refused, read

BUSYBOX = next(name for name in BASES if "busybox" in name)


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.Containerfile")), ids=lambda path: path.stem)
def test_every_base_is_named_in_full(path: Path) -> None:
    """By registry and full release, so that no builder asks which one is meant, and by one that a root stands for."""
    assert {stage.image for stage in read(path.read_text(), {})} <= BASES.keys()


@pytest.mark.parametrize(
    "text",
    [
        "FROM a\nADD https://example.com/x /x",
        "FROM a\nEXPOSE 8080",
        'FROM a\nSHELL ["/bin/bash"]',
        "FROM --platform=linux/arm64 a",
        "FROM a AS",
        "RUN true\nFROM a",
        "ARG WITHOUT\nFROM a",
        "FROM ${UNKNOWN}",
    ],
)
def test_what_it_does_not_read_is_refused(text: str) -> None:
    """A step that is passed over would leave the root other than the image."""
    with pytest.raises(Refused):
        read(text, {})


def test_lines_are_joined_comments_left_out_and_arguments_filled_in() -> None:
    """As the Dockerfile reference has it: a comment may stand between the lines of one step."""
    (stage,) = read("ARG A=b:1\nFROM ${A} AS c\nRUN one && \\\n# said between\n    two", {})
    assert (stage.image, stage.name) == ("b:1", "c")
    assert [step.rest.split() for step in stage.steps] == [["one", "&&", "two"]]
    assert read("ARG A=b:1\nFROM ${A}", {"A": "d:2"})[0].image == "d:2"


@pytest.fixture
def built(tmp_path: Path) -> Callable[[str], Image]:
    """Makes an image of steps on busybox, with a small context."""
    require()
    context = tmp_path / "context"
    (context / "in" / "__pycache__").mkdir(parents=True)
    (context / "in" / "__pycache__" / "x.pyc").touch()
    (context / "in" / "file").write_text("said\n")
    (context / "secret").write_text("said\n")
    (context / ".dockerignore").write_text("# comment\n*\n!in\n**/__pycache__\n")

    def make(steps: str) -> Image:
        file = tmp_path / "Containerfile"
        file.write_text(f"FROM {BUSYBOX} AS first\n{steps}")
        into = tmp_path / "roots"
        into.mkdir()
        return build(file, Context(context), {}, into)

    return make


@pytest.mark.parametrize(
    "step",
    [
        "COPY secret /secret",
        "COPY missing /missing",
        "COPY ../context/in /in",
        "COPY --chown=1:1 in /in",
        "COPY in/* /in/",
        "COPY in in /in",
        'RUN ["true"]',
        "RUN --mount=type=cache,target=/x true",
        "ENV A b",
        "WORKDIR relative",
        "USER nobody",
        "USER 65532",
        "ENTRYPOINT python -m x",
        'CMD ["x"]',
        "LABEL a=${UNKNOWN}",
    ],
)
def test_a_form_that_builders_read_otherwise_is_refused(built: Callable[[str], Image], step: str) -> None:
    """Among them what is not in the context, for a builder never sees it, and the shell that would take signals."""
    with pytest.raises(Refused):
        built(step)


def test_steps_are_carried_out(built: Callable[[str], Image]) -> None:
    """Folders are copied by what is in them, and later stages see earlier ones; a step that fails ends it."""
    image = built(
        "ARG WORD=heard\nWORKDIR /work\nCOPY in/file ./\nCOPY in tree\nRUN echo $WORD > made\n"
        f'FROM {BUSYBOX}\nCOPY --from=first /work /kept\nENV A=b C="d e"\nUSER 7:8\nENTRYPOINT ["env"]'
    )
    said = image.run("sh", "-c", "find /kept -type f | sort; cat /kept/made; id -u; id -g; echo $C; pwd")
    assert said.stdout.splitlines() == ["/kept/file", "/kept/made", "/kept/tree/file", "heard", "7", "8", "d e", "/"]
    assert image.entrypoint == ("env",)


def test_a_step_that_fails_fails_the_build(built: Callable[[str], Image]) -> None:
    """With its line and what it said."""
    with pytest.raises(AssertionError, match=r"RUN echo why >&2; false\nended with 1:\nwhy"):
        built("RUN echo why >&2; false")


def test_what_runs_there_can_write_nowhere_and_reach_nobody(built: Callable[[str], Image]) -> None:
    """Or the tests of a read-only root would show nothing: even root cannot, and there is no network card."""
    image = built("RUN true")
    for folder in ("/", "/tmp", "/etc", "/dev"):
        assert "Read-only file system" in image.run("touch", f"{folder}/x", user="0:0").stderr
    assert (
        image.run("sh", "-c", "ls /sys/class/net 2>/dev/null; tail -n +3 /proc/net/dev").stdout.split(":")[0].strip()
        == "lo"
    )
    assert image.run("sh", "-c", "echo $$").stdout == "1\n"


def test_a_mount_that_leads_out_of_the_root_is_refused(built: Callable[[str], Image], tmp_path: Path) -> None:
    """A link in the image must not have a folder of this machine mounted over."""
    image = built("RUN ln -s ../../../../../../../../../../../../tmp /out")
    with pytest.raises(Refused):
        image.run("true", volumes={"/out/x": tmp_path})


def test_the_context_has_no_more_than_is_built_from() -> None:
    """Whatever else lies in a checkout, such as an environment of gigabytes or a file with a password."""
    context = Context(ROOT)
    assert context.path("operator/specloop_operator") == ROOT / "operator" / "specloop_operator"
    for name in (".venv", ".git", "tests", "charts/specloop"):
        with pytest.raises(Refused):
            context.path(name)
