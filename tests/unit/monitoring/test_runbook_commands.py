"""What a runbook has somebody type at night acts where it should, and shows all there is."""

import re
from pathlib import Path

RUNBOOKS = sorted((Path(__file__).parents[3] / "docs" / "runbooks").glob("*.md"))


def commands(pattern: str) -> list[tuple[str, str]]:
    """Whatever begins like this, in a block or in the text, up to its end, after the name of its page."""
    whole = rf"({pattern}[^`\n#|]*)"
    return [(page.stem, found) for page in RUNBOOKS for found in re.findall(whole, page.read_text(encoding="utf-8"))]


def test_a_command_names_the_namespace_of_the_policy() -> None:
    """Without it is the kubeconfig's, where whoever is woken happens to be; one without an object is not for typing."""
    found = [one for one in commands(r"\bspecloop (?:status|override|rollback)\b") if one[1].split()[2:]]
    assert len(found) >= 8
    assert [one for one in found if not re.search(r" -n llm\b", one[1])] == []


def test_logs_are_those_of_all_replicas() -> None:
    """Of a Deployment kubectl reads one pod, which may be another one; by a selector, ten lines unless it is told."""
    found = commands(r"kubectl [^`\n]*\blogs\b")
    assert [one for one in found if re.search(r" (?:deploy|deployment|sts|statefulset)/", one[1])] == []
    selecting = [one for one in found if " -l " in one[1]]
    assert len(selecting) >= 3
    assert [one for one in selecting if not {"--prefix", "--tail=-1"} <= set(one[1].split())] == []
