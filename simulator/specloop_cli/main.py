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
from specloop_policy.ladder import Method

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
Policies = Annotated[
    list[str], typer.Option("--policy", "-p", metavar="NAME|FILE", help="A SpecPolicy; may be given several times.")
]
Report = Annotated[str | None, typer.Option("--report", metavar="OUT.html", help="Write a page to look at.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist already.")]
Columns = Annotated[
    str | None, typer.Option("--columns", metavar="NAMES", help="time=NAME,input=NAME,output=NAME,unit=s|ms|us.")
]
Workload = Annotated[
    str | None, typer.Option("--workload", metavar="NAME|FILE", help="What a trace does not say; by default steady.")
]
Profile = Annotated[str | None, typer.Option("--profile", metavar="NAME|FILE", help="Model and hardware to simulate.")]
Replicas = Annotated[int, typer.Option("--replicas", metavar="N", min=1, max=1000)]
Seconds = Annotated[
    float | None, typer.Option("--seconds", metavar="S", min=1, help="Only the first seconds of the traffic.")
]
Start = Annotated[
    str | None, typer.Option("--start", metavar="TIME", help="When it begins, for schedules: 2026-01-05T22:00:00Z.")
]
Live = Annotated[bool, typer.Option("--live", help="K changes without a restart within a drafter.")]
Blind = Annotated[
    bool, typer.Option("--without-step-times", help="As a fleet that nobody has calibrated: the gain is unknown.")
]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same bytes.")]
Kubeconfig = Annotated[
    str | None, typer.Option("--kubeconfig", metavar="FILE", help="By default KUBECONFIG, or ~/.kube/config.")
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="By default the context's namespace.")
]
TARGET = "POLICY|KIND/NAME"
Target = Annotated[str, typer.Argument(metavar=TARGET, help="A policy, or its workload, such as deployment/llama-70b.")]


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
def simulate(
    policy: Policies,
    trace: Annotated[
        str | None, typer.Option("--trace", metavar="FILE", help="Requests, CSV or JSON lines; - is standard input.")
    ] = None,
    columns: Columns = None,
    workload: Workload = None,
    profile: Profile = None,
    replicas: Replicas = 1,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", metavar="N", min=1, max=100_000, help="So many clients that wait for answers."),
    ] = None,
    seconds: Seconds = None,
    start: Start = None,
    live: Live = False,
    blind: Blind = False,
    report: Report = None,
    force: Force = False,
    seed: Seed = 1,
    output: Output = Format.TEXT,
) -> int:
    """Say what policies would have done on this traffic, beside every level that stays."""
    from specloop_cli import scene, simulate

    options = scene.Options(
        trace, columns, workload, profile, replicas, seed, concurrency, seconds, scene.start_of(start), live, blind
    )
    return simulate.run(policy, options, report, force, output)


@app.command()
def sweep(
    policy: Policies,
    trace: Annotated[
        list[str] | None,
        typer.Option("--trace", metavar="FILE", help="Requests, CSV or JSON lines; may be given several times."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="PATH=VALUES", help="A field with LOW..HIGH[:STEP] or A,B,C; may be repeated."),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option("--trials", metavar="N", min=1, max=1_000_000, help="Candidates to try; 100 by default."),
    ] = None,
    grid: Annotated[bool, typer.Option("--grid", help="All combinations; with --trials some of them, by lot.")] = False,
    hold_out: Annotated[
        bool, typer.Option("--hold-out", help="Fit to all traces but the last, and judge the best one there.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, max=256, help="Processes; by default one a core.")
    ] = None,
    study: Annotated[
        str | None, typer.Option("--study", metavar="FILE", help="Keep what is found out here, and go on from it.")
    ] = None,
    out: Annotated[str | None, typer.Option("--out", metavar="BEST.yaml", help="Write the best policy out.")] = None,
    columns: Columns = None,
    workload: Workload = None,
    profile: Profile = None,
    replicas: Replicas = 1,
    seconds: Seconds = None,
    start: Start = None,
    live: Live = False,
    blind: Blind = False,
    report: Report = None,
    force: Force = False,
    seed: Seed = 1,
    output: Output = Format.TEXT,
) -> int:
    """Find the parameters of a policy that would have done better on this traffic; interrupted, it goes on."""
    from specloop_cli import scene, sweep

    options = scene.Options(
        None, columns, workload, profile, replicas, seed, None, seconds, scene.start_of(start), live, blind
    )
    if len(policy) > 1:
        raise InputError("--policy: a sweep varies one policy; name one")
    asked = sweep.Asked(
        policy[0],
        tuple(trace or ()),
        tuple(vary or ()),
        trials,
        grid,
        hold_out,
        jobs or os.cpu_count() or 1,
        study,
        out,
        report,
        force,
    )
    return sweep.run(asked, options, output)


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
    report: Report = None,
    force: Force = False,
    seed: Seed = 1,
    output: Output = Format.TEXT,
) -> int:
    """Run the whole loop on this machine, round three simulated vLLM servers."""
    from specloop_cli import demo

    return demo.run(policy, phases, seed, output, fast=fast, report=report, force=force)


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


@app.command()
def record(
    prometheus: Annotated[str, typer.Option("--prometheus", metavar="URL", help="Address of the Prometheus.")],
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="The recording.")],
    start: Annotated[
        str | None, typer.Option("--start", metavar="T", help="2026-07-01T12:00:00Z, seconds since 1970, or now-6h.")
    ] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="T", help="The same; now by default.")] = None,
    last: Annotated[
        str | None, typer.Option("--last", metavar="SPAN", help="7d, 6h or 1h30m up to the end; 7d by default.")
    ] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", metavar="N", help="Only pods of this one.")] = None,
    match: Annotated[
        list[str] | None, typer.Option("--match", metavar='LABEL="X"', help="Only series that match; repeatable.")
    ] = None,
    pod_label: Annotated[str, typer.Option("--pod-label", metavar="LABEL", help="Label that names the pod.")] = "pod",
    namespace_label: Annotated[
        str, typer.Option("--namespace-label", metavar="LABEL", help="Label that names its namespace.")
    ] = "namespace",
    prefix: Annotated[str, typer.Option("--prefix", help="What the names of vLLM's series begin with.")] = "vllm:",
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="File with a bearer token.")
    ] = None,
    lag: Annotated[
        float, typer.Option("--lag", metavar="SECONDS", min=0, help="Longest scrape time-out; newer data may lack.")
    ] = 10.0,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", metavar="BYTES", min=1, help="Stop at this size; 2 GB by default.")
    ] = None,
    force: Force = False,
    output: Output = Format.TEXT,
) -> int:
    """Record what a Prometheus has of an engine's pods into one file, for replay; interrupted, it goes on."""
    from specloop_cli import record

    asked = record.Asked(prometheus, namespace, match or [], pod_label, namespace_label, prefix, token_file, lag)
    times = record.Times(start, end, last)
    return record.run(asked, times, out, force=force, max_bytes=max_bytes, output=output)


@app.command()
def replay(
    recording: Annotated[str, typer.Argument(metavar="RECORDING", help="A file that specloop record wrote.")],
    policy: Policies,
    level: Annotated[
        list[str] | None,
        typer.Option("--level", metavar="[TIME=]NAME", help="What ran from then on, where K alone does not say."),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME|FILE", help="Hardware with known step times, for gains.")
    ] = None,
    drafter: Annotated[
        Method, typer.Option("--drafter", metavar="METHOD", help="What drafts where a policy names no levels.")
    ] = Method.DRAFT_MODEL,
    report: Report = None,
    force: Force = False,
    output: Output = Format.TEXT,
) -> int:
    """Say what policies would have decided on a recorded fleet, when and why, and what cannot be known."""
    from specloop_cli import replay

    options = replay.Options(level or (), profile, drafter)
    return replay.run(policy, recording, options, output, report=report, force=force)


@app.command()
def status(
    target: Annotated[
        str | None, typer.Argument(metavar=TARGET, help="Everything about one; by default a line for each.")
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Policies of all namespaces.")] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: Output = Format.TEXT,
) -> int:
    """Show the policies in a cluster: their levels, whether they are ready, and what was decided and why."""
    from specloop_cli import cluster, status

    return status.run(target, cluster.Where(kubeconfig, context, namespace), output, everywhere=everywhere)


@app.command()
def override(
    target: Target,
    level: Annotated[str | None, typer.Argument(metavar="LEVEL", help="A level of the policy's ladder.")] = None,
    lasting: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="90s, 30m, 2h, 1d; by default until taken back.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the override back.")] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: Output = Format.TEXT,
) -> int:
    """Set a policy's level over the heads of its rules, for a time or until it is taken back."""
    from specloop_cli import cluster, override

    return override.run(target, level, lasting, cluster.Where(kubeconfig, context, namespace), output, clear=clear)


@app.command()
def rollback(
    target: Target,
    wait: Annotated[
        float | None, typer.Option("--wait", metavar="SECONDS", min=1, help="Wait at most so long until it is done.")
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: Output = Format.TEXT,
) -> int:
    """Put back the level before the last change, or end a roll-out, and leave that configuration alone from then on."""
    from specloop_cli import cluster, rollback

    return rollback.run(target, wait, cluster.Where(kubeconfig, context, namespace), output)


@app.command()
def inject(
    files: Annotated[
        list[str], typer.Option("--filename", "-f", metavar="FILE", help="A manifest; - is stdin. May be repeated.")
    ],
    uninject: Annotated[bool, typer.Option("--uninject", help="Give back what was there before.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print what changes, and not the manifest.")] = False,
    container: Annotated[
        str | None,
        typer.Option("--container", metavar="NAME", help="The container with vLLM, where that is not seen."),
    ] = None,
    version: Annotated[
        str | None, typer.Option("--vllm-version", metavar="V", help="Its release; by default the image's tag.")
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="SpecLoop's own; by default specloop-plugin:VERSION.")
    ] = None,
    token_secret: Annotated[
        str, typer.Option("--token-secret", metavar="NAME", help="Secret with the token of live control.")
    ] = "specloop-live",
    token_key: Annotated[str, typer.Option("--token-key", metavar="KEY", help="Its key.")] = "token",
    drain: Annotated[
        int, typer.Option("--drain", metavar="SECONDS", min=0, max=86400, help="Longest wait for running requests.")
    ] = 300,
    no_live: Annotated[
        bool, typer.Option("--no-live", help="Neither scheduler nor table nor token: K changes by a restart.")
    ] = False,
    no_annotation: Annotated[
        bool, typer.Option("--no-annotation", help="Leave the speculative setting among the flags.")
    ] = False,
    output: Output = Format.TEXT,
) -> int:
    """Make a manifest of vLLM ready to be governed: the plugin, live control, the annotation, a drain; or undo that."""
    from specloop_cli import inject, inject_additions

    options = inject_additions.Options(
        image, token_secret, token_key, container, version, not no_live, not no_annotation, drain
    )
    return inject.run(files, options, inject.Asked(uninject, diff, output))


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
