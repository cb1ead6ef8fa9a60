"""Whatever a user gives: one line that names the file, the place and the mend, exit code 2, and nothing on stdout."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import idle, page
from tests.unit.explain.calls import Explain

START = idle(5)
GOOD = page(START)
LATER = page(START.after((0.6, 0.4, 0.3, 0.2, 0.1), drafts=9000, requests=240))

BAD_PAGES = {
    "empty": (b"", "line 1: the page is empty"),
    "blank": (b"\n \n", "line 1: the page is empty"),
    "html": (b"<!DOCTYPE html>\n<title>502 Bad Gateway</title>\n", "line 1: this is HTML or XML, not metrics"),
    "json": (b'{"detail": "Not Found"}\n', "line 1: this is JSON, not metrics"),
    "prose": (b"upstream connect error\n", "line 1: this is not metrics: 'upstream connect error'"),
    "binary": (b"\x7fELF\x02\x01\x01\x00\xff\xfe\x80", "is not UTF-8"),
    "nul": (b"vllm:x 1\n\x00\n", "line 2: a NUL character"),
    "gzip": (b"\x1f\x8b\x08\x00\x00", "line 1: the page is compressed with gzip"),
    "utf-16": ("vllm:x 1\n".encode("utf-16"), "line 1: the page is UTF-16; save it as UTF-8"),
    "truncated": (GOOD.encode()[:-20], "the page ends inside this line: truncated"),
    "twice": ((GOOD + GOOD).encode(), "with the same labels is on line"),
    "no number": (
        GOOD.replace("vllm:prompt_tokens_total{", "vllm:prompt_tokens_total{a=", 1).encode(),
        "cannot be read as a name, labels and a number",
    ),
}


@pytest.mark.parametrize("name", BAD_PAGES)
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_bad_page_is_named_with_its_line(explain: Explain, name: str, place: str) -> None:
    content, words = BAD_PAGES[name]
    bad = explain.folder / "bad page.txt"
    bad.write_bytes(content)
    pair = (bad, LATER) if place == "before" else (GOOD, bad)
    refusal = explain.refusal(*explain.arguments({"": pair}, None))
    assert refusal.startswith(f"{bad}: line ")
    assert words in refusal


def test_a_page_that_never_ends_is_read_only_so_far(explain: Explain) -> None:
    refusal = explain.refusal(*explain.arguments({"": (Path("/dev/zero"), LATER)}, None))
    assert refusal.startswith("/dev/zero: line 1: the page has ")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("{folder}/missing.txt", "cannot read {folder}/missing.txt: No such file or directory"),
        ("{folder}", "cannot read {folder}: Is a directory"),
        ("{folder}/" + "n" * 300, "File name too long"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(explain: Explain, path: str, words: str) -> None:
    place = path.format(folder=explain.folder)
    refusal = explain.refusal(*explain.arguments({"": (GOOD, Path(place))}, None))
    assert words.format(folder=explain.folder) in refusal
    assert place in refusal


def test_a_policy_that_cannot_be_read_is_named(explain: Explain) -> None:
    arguments = explain.arguments({"": (GOOD, LATER)}, None)
    arguments[1] = str(explain.folder / "missing.yaml")
    assert explain.refusal(*arguments) == f"cannot read {arguments[1]}: No such file or directory"


def test_a_policy_with_mistakes_is_named_with_its_line(explain: Explain) -> None:
    arguments = explain.arguments({"": (GOOD, LATER)}, None)
    Path(arguments[1]).write_text("apiVersion: specloop.dev/v1alpha1\nkind: SpecPolicy\nmetadata: {name: x}\nspec: 7\n")
    assert explain.refusal(*arguments).startswith(f"{arguments[1]}:4: ")


def test_a_page_for_the_policy_and_a_policy_for_the_page_are_told_apart(explain: Explain) -> None:
    arguments = explain.arguments({"": (GOOD, LATER)}, None)
    swapped = [*arguments]
    swapped[1], swapped[swapped.index("--metrics") + 1] = arguments[arguments.index("--metrics") + 1], arguments[1]
    assert explain.refusal(*swapped).startswith(swapped[1])


@pytest.mark.parametrize("elapsed", ["0", "-1", "nan", "inf", "-inf", "1e-9", "1e300"])
def test_a_time_that_cannot_lie_between_two_pages_is_refused(explain: Explain, elapsed: str) -> None:
    arguments = explain.arguments({"": (GOOD, LATER)}, None)
    arguments[arguments.index("300")] = elapsed
    refusal = explain.refusal(*arguments)
    assert refusal.startswith(f"--elapsed {float(elapsed):g}: must be seconds above 0")


@pytest.mark.parametrize("elapsed", ["", "soon", "5m"])
def test_a_time_that_is_no_number_is_refused(explain: Explain, elapsed: str) -> None:
    arguments = explain.arguments({"": (GOOD, LATER)}, None)
    arguments[arguments.index("300")] = elapsed
    assert "--elapsed" in explain.refusal(*arguments)


class TestTheNumberOfPages:
    def test_none(self, explain: Explain) -> None:
        arguments = explain.arguments({}, None)
        assert "'--metrics'" in explain.refusal(*arguments)

    def test_one(self, explain: Explain) -> None:
        arguments = [*explain.arguments({}, None), "--metrics", explain.file("one.txt", GOOD)]
        assert explain.refusal(*arguments) == (
            "--metrics: 1 page, and two are needed: the one before and the one after"
        )

    def test_three(self, explain: Explain) -> None:
        file = explain.file("one.txt", GOOD)
        arguments = [*explain.arguments({"": (GOOD, LATER)}, None), "--metrics", file]
        assert explain.refusal(*arguments).startswith("--metrics: 3 pages, and two are needed")

    def test_one_of_a_pod(self, explain: Explain) -> None:
        file = explain.file("one.txt", GOOD)
        arguments = [*explain.arguments({"pod-a": (GOOD, LATER)}, None), "--metrics", f"pod-b={file}"]
        assert explain.refusal(*arguments).startswith("--metrics: 1 page of pod pod-b, and two are needed")

    def test_a_file_with_an_equals_sign_in_its_name_is_a_file(self, explain: Explain) -> None:
        paths = [explain.folder / name for name in ("a=1.txt", "a=2.txt")]
        for path, text in zip(paths, (GOOD, LATER), strict=True):
            path.write_text(text)
        arguments = explain.arguments({"": (paths[0], paths[1])}, None)
        assert explain.run(*arguments, "-o", "json")[0] == 0


def piped(arguments: list[str], text: bytes) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr of the program with `text` on its standard input."""
    command = [sys.executable, "-m", "specloop_cli", "explain", *arguments]
    result = subprocess.run(command, input=text, capture_output=True, check=False)
    return result.returncode, result.stdout, result.stderr


class TestStandardInput:
    def test_a_page_may_come_from_there(self, explain: Explain) -> None:
        arguments = [*explain.arguments({}, None), "--metrics", explain.file("before.txt", GOOD), "--metrics", "-"]
        code, out, err = piped(arguments, LATER.encode())
        assert (code, err) == (0, b"")
        assert b"240 finished requests" in out

    def test_a_bad_page_from_there_is_called_standard_input(self, explain: Explain) -> None:
        arguments = [*explain.arguments({}, None), "--metrics", explain.file("before.txt", GOOD), "--metrics", "-"]
        assert piped(arguments, b"") == (2, b"", b"specloop: standard input: line 1: the page is empty\n")

    @pytest.mark.parametrize("other", ["--metrics", "pod"])
    def test_two_pages_cannot(self, explain: Explain, other: str) -> None:
        names = ["-", "-"] if other == "--metrics" else ["a=-", "a=-"]
        arguments = explain.arguments({}, None)
        for name in names:
            arguments += ["--metrics", name]
        assert explain.refusal(*arguments).startswith("-: standard input can be read only once")

    def test_nor_can_a_page_and_the_policy(self, explain: Explain) -> None:
        arguments = explain.arguments({}, None)
        arguments[1] = "-"
        arguments += ["--metrics", explain.file("before.txt", GOOD), "--metrics", "-"]
        assert explain.refusal(*arguments).startswith("-: standard input can be read only once")
