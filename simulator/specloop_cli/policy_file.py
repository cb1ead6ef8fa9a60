"""Policies out of files: `load_policy` for those who want one, `read_files` for those who want all mistakes."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from specloop_cli import policy_checks
from specloop_cli.errors import InputError, one_line
from specloop_cli.examine import Examined, examine
from specloop_cli.wording import describe
from specloop_cli.yaml_file import BadFile, Document, Mistake, peek, read_nodes, read_text, spell, to_document
from specloop_policy.model import GROUP, KIND, SpecPolicy


@dataclass(frozen=True, slots=True)
class Found:
    """A policy in a file, as data with its lines; `policy` is None where it has mistakes."""

    document: Document
    policy: SpecPolicy | None
    errors: tuple[Mistake, ...] = ()


@dataclass(frozen=True, slots=True)
class FileReport:
    """All that there is to say about a file."""

    path: str
    found: tuple[Found, ...] = ()
    errors: tuple[Mistake, ...] = ()
    warnings: tuple[Mistake, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the file holds a policy and no mistake."""
        return not self.errors


def load_policy(path: str) -> SpecPolicy:
    """The one policy in a file.

    Raises InputError in one line when there is none, when it has mistakes, or when there are several.
    """
    policies = load_policies(path)
    if len(policies) > 1:
        names = ", ".join(policy.metadata.name for policy in policies)
        raise InputError(f"{title(path)}: one policy is asked for, and here are {len(policies)}: {names}")
    return policies[0]


def load_policies(path: str) -> tuple[SpecPolicy, ...]:
    """Every policy in a file, at least one.  Raises InputError in one line when one of them has mistakes."""
    return tuple(one.policy for one in load_found(path) if one.policy is not None)


def load_found(path: str) -> tuple[Found, ...]:
    """The same with their data, as their author wrote it."""
    report = read_file(_ready_made(path))
    if report.errors:
        more = len(report.errors) - 1
        rest = f" and {more} more; run specloop check {path}" if more else ""
        raise InputError(line_of(path, report.errors[0]) + rest)
    return report.found


def _ready_made(path: str) -> str:
    """The file of a ready-made policy of this name, where there is no file called so."""
    package = Path(__file__).parent
    folders = (package / "library", package.parents[1] / "policies" / "library")  # installed, or in a working copy
    found = [folder / f"{path}.yaml" for folder in folders] if re.fullmatch(r"[a-z-]+", path) else []
    return next((str(one) for one in found if one.is_file()), path) if not Path(path).exists() else path


def line_of(path: str, mistake: Mistake) -> str:
    """A mistake in one line, as compilers write it: file, line, field, message, hint."""
    field = f"{mistake.field}: " if mistake.field else ""
    hint = f" ({mistake.hint})" if mistake.hint else ""
    return f"{title(path)}:{mistake.line}: {field}{mistake.message}{hint}"


def title(path: str) -> str:
    """A file's name for people."""
    return "standard input" if path == "-" else one_line(path)


def read_files(paths: Iterable[str]) -> tuple[FileReport, ...]:
    """Read files and judge their policies, each alone and all together, with warnings.

    Raises InputError for an unreadable file.
    """
    reports = [read_file(path) for path in paths]
    policies = [
        (report.path, one.document, one.policy) for report in reports for one in report.found if one.policy is not None
    ]
    warnings = [(path, one) for path, document, policy in policies for one in policy_checks.warnings(document, policy)]
    warnings += policy_checks.same_target(policies)
    return tuple(
        replace(report, warnings=_sorted([*report.warnings, *(one for path, one in warnings if path == report.path)]))
        for report in reports
    )


def read_file(path: str) -> FileReport:
    """Read a file and judge every policy in it; documents of other kinds are passed over, with a warning."""
    found: list[Found] = []
    others: list[Mistake] = []
    broken: list[Mistake] = []
    try:
        for node in read_nodes(read_text(path)):
            if other := _other_kind(node):
                others.append(other)
            else:
                found.append(_judge(to_document(node)))
    except BadFile as bad:
        broken.append(bad.mistake)
    if not found and not broken:
        broken.append(_no_policy(others))
    errors = [*(one for each in found for one in each.errors), *broken]
    return FileReport(path, tuple(found), _sorted(errors), tuple(others if found else ()))


def _other_kind(node: yaml.Node) -> Mistake | None:
    """A remark on a document that is some other kind of object; None for what is, or tries to be, a policy."""
    kind, version = peek(node, "kind"), peek(node, "apiVersion")
    if not kind or not version or kind == KIND or version.startswith(f"{GROUP}/"):
        return None
    line = node.start_mark.line + 1
    return Mistake("kind", line, f"{kind} of {version} is passed over", "only SpecPolicy documents are checked")


def _no_policy(others: Sequence[Mistake]) -> Mistake:
    if others:
        return replace(others[0], message=f"no {KIND} in this file", hint=f"a policy begins with kind: {KIND}")
    return Mistake("", 1, "the file is empty", f"a policy begins with apiVersion: {GROUP}/v1alpha1")


def _judge(document: Document) -> Found:
    examined = examine(document.data)
    errors = [*document.mistakes, *_described(examined, document)]
    known = {mistake.field for mistake in errors}
    errors += [one for one in policy_checks.errors(document) if one.field not in known]
    return Found(document, None if errors else examined.policy, tuple(errors))


def _described(examined: Examined, document: Document) -> list[Mistake]:
    mistakes = [describe(flaw, document) for flaw in examined.flaws]
    for one in examined.contradictions:
        where = ("spec", *one.field)
        mistakes.append(Mistake(spell(where), document.line(where), one.message, one.hint))
    return mistakes


def _sorted(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    """In the order of lines, each once."""
    return tuple(sorted(dict.fromkeys(mistakes), key=lambda one: one.line))
