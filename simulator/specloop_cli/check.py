"""`specloop check`: every mistake in policy files, with its line and how to mend it."""

from collections.abc import Sequence

from specloop_cli.output import Format, console, print_document
from specloop_cli.policy_file import FileReport, read_files, title
from specloop_cli.yaml_file import Mistake


def run(files: Sequence[str], output: Format) -> int:
    """Check files and say what was found; 1 when one of them has errors."""
    reports = read_files(files)
    if output is Format.JSON:
        print_document({"files": [_document(report) for report in reports]})
    else:
        _print_text(reports)
    return 0 if all(report.valid for report in reports) else 1


def _document(report: FileReport) -> dict[str, object]:
    return {"path": report.path, "valid": report.valid, "errors": report.errors, "warnings": report.warnings}


def _print_text(reports: Sequence[FileReport]) -> None:
    for report in reports:
        for mistake in report.errors:
            _print_mistake(report.path, "error", "bold red", mistake)
        for mistake in report.warnings:
            _print_mistake(report.path, "warning", "yellow", mistake)
        if report.valid:
            names = ", ".join(one.policy.metadata.name for one in report.found if one.policy is not None)
            console().print(f"{title(report.path)}: ok ({names})")


def _print_mistake(path: str, word: str, style: str, mistake: Mistake) -> None:
    from rich.text import Text

    line = Text.assemble(
        (f"{title(path)}:{mistake.line}: ", "bold"),
        (f"{word}: ", style),
        (f"{mistake.field}: " if mistake.field else "", "cyan"),
        mistake.message,
        (f"\n    {mistake.hint}" if mistake.hint else "", "dim"),
    )
    console().print(line)
