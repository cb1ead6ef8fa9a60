"""The command line `specloop`: one function a command, which says what the command takes.

What a command does is in the module of its name, imported when it is called and not before, so that `--help` is quick.
The module's `run` takes the parsed arguments and returns the exit code: 0 yes, 1 the answer is no.  It raises
InputError where the input is wrong; `main` turns that, Ctrl-C and a closed pipe into exit codes, in one place.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from specloop_cli.errors import InputError, one_line
from specloop_cli.output import Format

USAGE_ERROR = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
"""What a shell shows for a program that SIGPIPE ended."""

app = typer.Typer(
    name="specloop",
    help="Keep speculative decoding paying: watch it, decide by a policy, and say why.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Output = Annotated[Format, typer.Option("--output", "-o", help="Text for people, or one JSON document.")]
PolicyFile = Annotated[str, typer.Option("--policy", "-p", metavar="FILE", help="A SpecPolicy; - is standard input.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist already.")]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same bytes.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"specloop {version('specloop')}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def specloop(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before any command."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="SpecPolicy files; - is standard input.")],
    output: Output = Format.TEXT,
) -> int:
    """Name every mistake in policies, with its line and how to mend it."""
    from specloop_cli import check

    return check.run(files, output)


@app.command()
def crd(output: Output = Format.TEXT) -> int:
    """Print the custom resource definition of SpecPolicy."""
    from specloop_cli import crd

    return crd.run(output)


@app.command()
def explain(
    policy: PolicyFile,
    metrics: Annotated[
        list[str],
        typer.Option("--metrics", metavar="[POD=]FILE", help="A /metrics page: BEFORE, then AFTER; - is stdin."),
    ],
    elapsed: Annotated[float, typer.Option("--elapsed", metavar="SECONDS", help="Time between the two pages.")],
    level: Annotated[
        str | None, typer.Option("--level", metavar="NAME", help="Level that ran; by default what the pages show.")
    ] = None,
    output: Output = Format.TEXT,
) -> int:
    """Say what a policy makes of two metric pages: the decision now and if the evidence lasts, and why."""
    from specloop_cli import explain

    return explain.run(policy, metrics, elapsed, level, output)


@app.command()
def demo(
    policy: Annotated[
        str | None, typer.Option("--policy", "-p", metavar="FILE", help="Another policy than the demo's own.")
    ] = None,
    phases: Annotated[
        str | None,
        typer.Option("--phases", metavar="NAME,...", help="structured, prose, hot, heavy, structured-again."),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="On a virtual clock, in seconds.")] = False,
    seed: Seed = 1,
    output: Output = Format.TEXT,
) -> int:
    """Run the whole loop on this machine, round three simulated vLLM servers."""
    from specloop_cli import demo

    return demo.run(policy, phases, seed, fast, output)


@app.command(context_settings={"allow_interspersed_args": False})
def local(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The engine: vllm serve ..., or llama-server ...")
    ],
    policy: Annotated[
        str | None, typer.Option("--policy", "-p", metavar="FILE", help="A SpecPolicy; without one, the defaults.")
    ] = None,
    recommend: Annotated[bool, typer.Option("--recommend", help="Only say what would be done.")] = False,
    drain: Annotated[
        float, typer.Option("--drain", metavar="SECONDS", min=0, help="Wait at most this long for an idle moment.")
    ] = 30.0,
    start: Annotated[
        float, typer.Option("--start", metavar="SECONDS", min=1, help="An engine that takes longer has failed.")
    ] = 1800.0,
    output: Output = Format.TEXT,
) -> int:
    """Run one engine on this machine under a policy: watch it, restart it at another level, and say why."""
    from specloop_cli import local

    return local.run(policy, command, recommend=recommend, drain_seconds=drain, start_seconds=start, output=output)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; the only place where errors become words and codes."""
    if sys.stderr is None:  # closed, as by a careless cron job
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stdout is None:
        return _fail("standard output is closed: send it to a file, or to /dev/null")
    _print_anything()
    try:
        result = app(
            list(sys.argv[1:] if arguments is None else arguments), prog_name="specloop", standalone_mode=False
        )
        sys.stdout.flush()
    except InputError as error:
        return _fail(str(error))
    except typer.TyperException as error:
        return _fail(_usage(error))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise  # typer exits by itself for no other reason
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:
        return _fail(f"{error.filename or 'standard output'}: {error.strerror or error}")
    return result if isinstance(result, int) else 0


def _fail(message: str) -> int:
    sys.stderr.write(f"specloop: {one_line(message)}\n")
    return USAGE_ERROR


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "specloop"
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    return f"{message} (see {command} --help)"


def _print_anything() -> None:
    """Names come from files and arguments: whatever the terminal cannot show is escaped, never an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Send what is still buffered nowhere, so that the interpreter does not stumble over the pipe at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
