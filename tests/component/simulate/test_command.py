"""`specloop simulate` as a user runs it: its document, its text, its report, and every way to get the input wrong."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from specloop_cli.main import main
from tests.support.programs import run

EXCERPT = Path(__file__).parents[2] / "unit" / "traces" / "data" / "azure-2023-conv-excerpt.csv"
"""Eighty seconds of the Azure conversation trace."""
FIGURES = {
    *("outputTokens", "outputTokensPerSecond", "tpotMillisecondsP50", "tpotMillisecondsP99", "ttftMillisecondsP50"),
    *("ttftMillisecondsP99", "meanRequestSeconds", "busyGpuSeconds", "restarts", "changes"),
}
POLICY = """
apiVersion: specloop.dev/v1alpha1
kind: SpecPolicy
metadata: {name: NAME}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: llama}
  intervalSeconds: 5
  drafters: [{name: small, method: draft_model, model: m}]
  levels: [{name: k5, drafter: small, tokens: 5}, {name: k3, drafter: small, tokens: 3}, {name: disabled}]
  signals: {windowSeconds: 10, maxEvidenceSeconds: 60, settleSeconds: 5, minRequests: 10}
  rules: [{name: low, when: {acceptance: {belowPercent: 60}}, forSeconds: 10, action: {type: StepDown}}]
"""


@pytest.fixture
def policy(tmp_path: Path) -> str:
    """A policy that steps down within a minute: prose at K=5 is accepted at a third, surely below 60 %."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY.replace("NAME", "ours"))
    return str(path)


def answer(*flags: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The document that a call prints."""
    assert main(["simulate", *flags, "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document: dict[str, Any] = json.loads(out)
    return document


def test_the_document_has_what_scripts_rely_on(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer("-p", policy, "--trace", str(EXCERPT), capsys=capsys)
    rows = EXCERPT.read_text().splitlines()[1:]
    assert found["trace"]["requests"] == len(rows)
    assert found["trace"]["seconds"] > 0
    assert (found["seed"], found["comparesBy"]) == (1, "meanRequestSeconds")
    assert list(found["contestants"]) == ["ours", "disabled", "static-k5", "static-k3", "best-in-hindsight"]
    tokens = sum(int(row.split(",")[2]) for row in rows)
    for figures in found["contestants"].values():
        assert set(figures) >= FIGURES
        assert figures["outputTokens"] == tokens
    best = found["contestants"]["best-in-hindsight"]
    statics = [figures for name, figures in found["contestants"].items() if name != "ours"]
    assert best["meanRequestSeconds"] == min(one["meanRequestSeconds"] for one in statics)
    assert found["contestants"][best["contestant"]]["meanRequestSeconds"] == best["meanRequestSeconds"]
    (first, *_) = found["decisions"]
    assert (first["policy"], first["from"], first["to"], first["action"], first["rule"]) == (
        *("ours", "k5", "k3", "StepDown", "low"),
    )
    assert first["time"].startswith("2023-11-16T18:")
    assert "steady" in " ".join(found["simulated"])  # what the trace does not say, and where it comes from


def test_the_same_seed_gives_the_same_bytes(policy: str) -> None:
    arguments = ("simulate", "-p", policy, "--trace", str(EXCERPT), "--replicas", "2", "-o", "json")
    (code, first, _), (_, again, _) = run(*arguments), run(*arguments)
    assert code == 0
    one, two = json.loads(first), json.loads(again)
    assert one.pop("wallSeconds") > 0
    two.pop("wallSeconds")
    assert json.dumps(one) == json.dumps(two)
    _, other, _ = run(*arguments, "--seed", "2")
    assert json.loads(other)["contestants"]["static-k5"] != one["contestants"]["static-k5"]


def test_several_policies_stand_side_by_side(policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = tmp_path / "both.yaml"
    both.write_text(POLICY.replace("NAME", "first") + "---" + POLICY.replace("NAME", "second"))
    found = answer("-p", policy, "-p", str(both), "--trace", str(EXCERPT), capsys=capsys)
    assert list(found["contestants"])[:3] == ["ours", "first", "second"]
    assert {one["policy"] for one in found["decisions"]} == {"ours", "first", "second"}


def test_other_columns_are_named_and_a_file_without_a_header_is_read_by_position(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named, bare, packed = tmp_path / "named.csv", tmp_path / "bare.csv", tmp_path / "packed.csv.gz"
    rows = [(100 * place, 300, 20 + place % 7) for place in range(50)]
    named.write_text("at,in,out\n" + "".join(f"{at},{a},{b}\n" for at, a, b in rows))
    bare.write_text("".join(f"{at},{a},{b}\n" for at, a, b in rows))
    packed.write_bytes(gzip.compress(named.read_bytes()))
    calls = (
        (str(named), "time=at,input=in,output=out,unit=ms"),
        (str(bare), "time=0,input=1,output=2,unit=ms"),
        (str(packed), "time=at,input=in,output=out,unit=ms"),
    )
    found = [answer("-p", policy, "--trace", path, "--columns", named, capsys=capsys) for path, named in calls]
    assert [one["trace"]["seconds"] for one in found] == [4.9, 4.9, 4.9]
    assert found[0]["contestants"] == found[1]["contestants"] == found[2]["contestants"]


def test_clients_who_wait_are_compared_by_tokens(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("-p", policy, "--trace", str(EXCERPT), "--concurrency", "4", "--seconds", "30")
    found = answer(*flags, capsys=capsys)
    assert found["comparesBy"] == "outputTokensPerSecond"
    statics = [one for name, one in found["contestants"].items() if name not in ("ours", "best-in-hindsight")]
    best = found["contestants"]["best-in-hindsight"]["outputTokensPerSecond"]
    assert best == max(one["outputTokensPerSecond"] for one in statics)


def test_a_workload_with_traffic_needs_no_trace_and_live_changes_restart_nothing(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer("-p", policy, "--workload", "prose", "--seconds", "120", "--live", capsys=capsys)
    assert found["contestants"]["ours"]["changes"] >= 1
    assert found["contestants"]["ours"]["restarts"] == 0
    assert found["decisions"][0]["to"] == "k3"
    assert found["trace"]["seconds"] <= 120


def test_a_schedule_without_dates_begins_at_a_time_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every midnight for an hour: in force when the traffic begins at 00:00, and not when it begins at 03:00."""
    file = tmp_path / "scheduled.yaml"
    file.write_text(
        POLICY.replace("NAME", "ours")
        + "  schedules: [{name: nightly, cron: '0 0 * * *', timeZone: UTC, durationSeconds: 3600, level: disabled}]\n"
    )
    traffic = ("-p", str(file), "--workload", "structured", "--seconds", "60")
    found = answer(*traffic, capsys=capsys)
    assert (found["decisions"][0]["to"], found["decisions"][0]["rule"]) == ("disabled", "nightly")
    assert "begins on Monday, 2024-01-01, 00:00 UTC" in " ".join(found["simulated"])
    later = answer(*traffic, "--start", "2026-01-05T03:00:00Z", capsys=capsys)
    assert later["decisions"] == []
    assert "begins on" not in " ".join(later["simulated"])


def test_the_text_says_what_was_simulated_what_was_decided_and_what_compares(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "-p", policy, "--trace", str(EXCERPT)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for words in ("Engines are simulated", "azure-2023-conv-excerpt.csv", "StepDown", "k5 → k3", "open loop"):
        assert words in out
    assert "…" not in out  # no figure is cut off
    assert "ours would have changed the level" in out
    table = out.splitlines()[out.splitlines().index("") + 1 :]
    assert max(len(line) for line in table if line.startswith(("contestant", "ours  ", "static", "disabled"))) <= 80


def test_the_report_is_one_page_that_stands_alone(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    arguments = ["simulate", "-p", policy, "--trace", str(EXCERPT), "--report", str(page)]
    assert main(arguments) == 0
    first = page.read_text()
    assert "<svg" in first
    assert "ours" in first
    capsys.readouterr()
    assert main(arguments) == 2  # before anything is simulated
    assert "exists already; use --force" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0
    assert page.read_text() == first


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--trace", "none.csv"], "cannot read none.csv: No such file or directory"),
        (["--trace", "."], "cannot read .: Is a directory"),
        (["--trace", str(EXCERPT), "--columns", "time=when"], "--columns"),
        (["--trace", str(EXCERPT), "--columns", "time=when,input=ContextTokens,output=GeneratedTokens"], "when"),
        (["--columns", "time=a,input=b,output=c"], "--columns: there is no trace"),
        (["--workload", "none"], "--workload: there is no file none, nor a workload of that name: busy-hours"),
        (["--profile", "none"], "--profile: there is no file none, nor a profile of that name: h100"),
        (["--profile", "h100-llama-3.1-8b"], "no figures for drafts by draft_model; it has for eagle"),
        (["--replicas", "0"], "--replicas"),
        (["--trace", str(EXCERPT), "--report", "/nowhere/r.html"], "there is no folder /nowhere"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    policy: str, flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "-p", policy, *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert words in err


def test_two_policies_of_one_name_are_told_apart_by_their_user(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "-p", policy, "-p", policy, "--trace", str(EXCERPT)]) == 2
    assert "two contestants are called ours: give the policies other names" in capsys.readouterr().err
