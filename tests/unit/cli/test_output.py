"""Documents are camelCase JSON; files are written whole or not at all."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from specloop_cli.errors import InputError
from specloop_cli.output import Format, document, print_document, write_file


@dataclass(frozen=True, slots=True)
class Answer:
    elapsed_seconds: float
    share_above: dict[str, float]
    form: Format = Format.TEXT
    items: tuple["Answer", ...] = ()


def test_fields_are_camel_case_and_names_that_users_gave_stay() -> None:
    answer = Answer(1.5, {"my_pod": 0.5}, items=(Answer(math.nan, {}),))
    assert document(answer) == {
        "elapsedSeconds": 1.5,
        "shareAbove": {"my_pod": 0.5},
        "form": "text",
        "items": [{"elapsedSeconds": None, "shareAbove": {}, "form": "text", "items": []}],
    }


def test_a_document_is_one_json_value(capsys: pytest.CaptureFixture[str]) -> None:
    print_document({"name": "größer"})
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": "größer"}
    assert "größer" in out


def test_what_has_no_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        document(object())


def test_a_new_file_is_written(tmp_path: Path) -> None:
    write_file(tmp_path / "report.html", "größer")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "größer"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    write_file(tmp_path / "ours", b"")
    (tmp_path / "theirs").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


def test_an_existing_file_stays_without_force(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    with pytest.raises(InputError, match="exists already; use --force"):
        write_file(path, "after")
    assert path.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_force_replaces_the_content_and_keeps_the_permissions(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    path.chmod(0o640)
    write_file(path, "after", force=True)
    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", "after", force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"


@pytest.mark.parametrize("name", ["", "missing/file", "file/below"])
def test_where_nothing_can_be_written_is_an_input_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write"):
        write_file(tmp_path / name, "text", force=True)


def test_a_device_is_written_to_as_it_is() -> None:
    write_file(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()
