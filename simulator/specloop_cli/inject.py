"""`specloop inject`: a manifest made ready to be governed, and the way back."""

import difflib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specloop_cli.errors import InputError, one_line
from specloop_cli.inject_additions import Options
from specloop_cli.inject_manifest import KINDS, Manifest, Workload, injected, restored, text_of
from specloop_cli.named_files import refuse_reading_twice
from specloop_cli.output import Format, console, print_document, say
from specloop_cli.policy_file import title
from specloop_engine.releases import parse_version

NAMED_AT_MOST = 5
"""Objects in a message."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How the answer is given."""

    uninject: bool
    diff: bool
    output: Format


def run(files: Sequence[str], options: Options, asked: Asked) -> int:
    """Print the files injected, or as they were before; nothing at all where one of them is refused."""
    if options.version is not None and parse_version(options.version) is None:
        raise InputError(f"--vllm-version {options.version}: this is no release; give one such as 0.32.0")
    refuse_reading_twice(files)
    manifests = [_one(path, options, asked) for path in files]
    if not asked.uninject:
        _refuse_nothing(manifests)
    if asked.output is Format.JSON:
        workloads = [one for manifest in manifests for one in manifest.workloads]
        said = {"diff": _diff(manifests)} if asked.diff else {"manifest": _joined(manifests)}
        print_document({"workloads": workloads, **said})
        return 0
    sys.stdout.write(_diff(manifests) if asked.diff else _joined(manifests))
    sys.stdout.flush()
    _tell(manifests)
    return 0


def _one(path: str, options: Options, asked: Asked) -> Manifest:
    text = text_of(path)
    return restored(path, text) if asked.uninject else injected(path, text, options)


def _refuse_nothing(manifests: Iterable[Manifest]) -> None:
    """Raise InputError where no file has a workload that runs vLLM, with what there is instead."""
    workloads = [one for manifest in manifests for one in manifest.workloads]
    if any(one.done != "passed" for one in workloads):
        return
    why = [f"{one.kind}/{one.name}: {'; '.join(one.notes) or 'no container of it does'}" for one in workloads]
    why += [f"{other} is not a kind that inject understands" for manifest in manifests for other in manifest.others]
    shown = ", ".join(why[:NAMED_AT_MOST]) or "there is no object in it"
    files = ", ".join(title(manifest.path) for manifest in manifests)
    raise InputError(f"{files}: nothing here runs vLLM ({shown}); give a {KINDS}, or name its container by --container")


def _joined(manifests: Sequence[Manifest]) -> str:
    """The files one after the other, as documents of one."""
    text = ""
    for manifest in manifests:
        if text and not text.endswith("\n"):
            text += "\n"
        if text and manifest.after and not manifest.after.startswith("---"):
            text += "---\n"
        text += manifest.after
    return text


def _diff(manifests: Iterable[Manifest]) -> str:
    lines: list[str] = []
    for manifest in manifests:
        before, after = manifest.before.splitlines(keepends=True), manifest.after.splitlines(keepends=True)
        lines += difflib.unified_diff(before, after, f"{manifest.path} before", f"{manifest.path} after")
    return "".join(one if one.endswith("\n") else f"{one}\n\\ No newline at end of file\n" for one in lines)


def _tell(manifests: Iterable[Manifest]) -> None:
    """Say on stderr what was done to each workload."""
    out = console(stderr=True)
    for one in (one for manifest in manifests for one in manifest.workloads):
        say(out, one_line(f"{one.kind}/{one.name}: {_words(one)}"))
        for note in one.notes if one.done == "injected" else ():
            say(out, one_line(f"note: {note}"), indent=2)


def _words(one: Workload) -> str:
    if one.done == "injected":
        return f"container {one.container}: added {', '.join(one.added)}"
    if one.done == "restored":
        return "is as it was before the injection"
    return "; ".join(one.notes) or "left as it is: no container of it runs vLLM or was injected"
