"""`specloop sweep`: which parameters of a policy would have done better on this traffic."""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from specloop_cli.errors import InputError, cannot
from specloop_cli.named_files import refuse_reading_twice
from specloop_cli.output import Format, console, print_document, refuse_writing, write_file
from specloop_cli.policy_file import load_found, title
from specloop_cli.scene import Options, Scene, entrants, set_scene
from specloop_cli.sweep_answer import Answer, answer, policy_text, show, sweep_report
from specloop_cli.sweep_trials import Trials
from specloop_policy.model import SpecPolicy
from specloop_sim.sweep.defaults import default_parameters
from specloop_sim.sweep.desk import Desk
from specloop_sim.sweep.fields import VaryError, field_at
from specloop_sim.sweep.front import best
from specloop_sim.sweep.search import Guided, Search, grid_by_lot, whole_grid
from specloop_sim.sweep.space import Space, Values
from specloop_sim.sweep.study import Study, StudyError
from specloop_sim.sweep.sweep import Sweep, Swept, held_out
from specloop_sim.sweep.values import parameter
from specloop_sim.sweep.variants import NoPolicy, read, variant, with_rules
from specloop_sim.sweep.workers import at_work
from specloop_sim.traces.trace import Trace

DEFAULT_TRIALS = 100
"""Candidates where nobody says: ten times those that Optuna draws by lot at its start, and some two minutes for an hour
of traffic."""
MOST_OF_A_GRID = 10_000
"""Combinations of a grid that are tried unasked: hours, for an hour of traffic."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a sweep is to do, beside the scene."""

    policy: str
    traces: tuple[str, ...]
    vary: tuple[str, ...] = ()
    trials: int | None = None
    grid: bool = False
    hold_out: bool = False
    jobs: int = 1
    study: str | None = None
    out: str | None = None
    report: str | None = None
    force: bool = False


def run(asked: Asked, options: Options, output: Format) -> int:
    """Sweep; 0 when it ran to its end."""
    began = time.perf_counter()
    _refuse_early(asked, options)
    data, policy = _policy(asked.policy)
    scenes = _scenes(asked, options)
    (entrant,) = entrants([(asked.policy, policy)], scenes[0])
    data = with_rules(data, entrant.policy.ladder)
    space = _space(asked.vary, data)
    search, trials = _search(asked, space, options.seed)
    documents = Documents(asked.policy, data, space, scenes[0])
    fitted = len(scenes) - asked.hold_out
    with _desk(asked, _header(options, data, space, scenes), scenes, (trials + 1) * fitted) as desk:
        swept = Sweep(space, search, documents, desk, traces=fitted, trials=trials).run()
        _refuse_nothing(swept, documents)
        chosen = best(swept.candidates)
        fresh = held_out(desk, len(scenes) - 1, documents, (swept.candidates[0], chosen)) if asked.hold_out else []
    found = Answer(policy.metadata.name, scenes, space, swept, chosen, tuple(fresh), documents.first_reason)
    _write(asked, options, found, variant(data, space.settings(chosen.values)))
    if output is Format.JSON:
        print_document(answer(found, round(time.perf_counter() - began, 3)))
    else:
        show(found, asked.out)
    return 0


class Documents:
    """A policy's variants as JSON; None for one that contradicts itself, or that cannot be simulated."""

    def __init__(self, path: str, data: dict[str, Any], space: Space, scene: Scene) -> None:
        self._path = path
        self._data = data
        self._space = space
        self._scene = scene
        self.first_reason: str | None = None
        """Why the first one that was skipped is none."""

    def __call__(self, values: Values) -> str | None:
        """The policy with these values."""
        try:
            changed = variant(self._data, self._space.settings(values)) if values != self._space.given else self._data
            entrants([(self._path, read(changed))], self._scene)
        except (NoPolicy, InputError) as error:
            self.first_reason = self.first_reason or str(error)
            return None
        return json.dumps(changed)


def _refuse_early(asked: Asked, options: Options) -> None:
    """Say at once what would else be said after minutes."""
    refuse_reading_twice((asked.policy, *asked.traces, *[options.workload] * max(1, len(asked.traces))))
    if asked.hold_out and len(asked.traces) < 2:
        raise InputError("--hold-out keeps the last trace for the end: name two or more with --trace")
    if len({os.path.realpath(name) for name in asked.traces}) < len(asked.traces):
        raise InputError("--trace: a trace is named twice; what is fitted to it says nothing new of it")
    outputs = {
        "--out": Path(asked.out) if asked.out is not None else None,
        "--report": Path(asked.report) if asked.report is not None else None,
    }
    refuse_writing(outputs, [asked.policy, asked.study, *asked.traces, *options.files()], force=asked.force)


def _policy(path: str) -> tuple[dict[str, Any], SpecPolicy]:
    """The one policy of a file, as data and ready made."""
    found = load_found(path)
    if len(found) > 1:
        names = ", ".join(str(one.document.data["metadata"]["name"]) for one in found)
        raise InputError(f"{title(path)}: one policy is asked for, and here are {len(found)}: {names}")
    (one,) = found
    assert one.policy is not None  # or an error would have been raised
    return {name: value for name, value in one.document.data.items() if name != "status"}, one.policy


def _scenes(asked: Asked, options: Options) -> tuple[Scene, ...]:
    return tuple(set_scene(replace(options, trace=one)) for one in asked.traces or (None,))


def _space(vary: Sequence[str], data: dict[str, Any]) -> Space:
    try:
        if not vary:
            return Space(default_parameters(data["spec"]))
        return Space(tuple(parameter(field_at(data["spec"], path), text) for path, text in map(_split, vary)))
    except VaryError as error:
        raise InputError(f"--vary: {error}") from error


def _split(text: str) -> tuple[str, str]:
    path, sign, values = text.partition("=")
    if not sign or not values:
        raise VaryError(f"{text!r} says no values; write PATH=LOW..HIGH, PATH=LOW..HIGH:STEP or PATH=A,B,C")
    return path.strip(), values.strip()


def _search(asked: Asked, space: Space, seed: int) -> tuple[Search, int]:
    """How candidates are found, and how many at most, the policy as it is among them."""
    if asked.grid and asked.trials is None and space.size > MOST_OF_A_GRID:
        raise InputError(
            f"--grid: there are {space.size:,} combinations; vary less, or say with --trials how many to try of them"
        )
    trials = asked.trials or (space.size + 1 if asked.grid else DEFAULT_TRIALS)
    if space.size <= trials:
        return whole_grid(space), space.size + 1
    return (grid_by_lot(space, seed) if asked.grid else Guided(space, seed)), trials


def _refuse_nothing(swept: Swept, documents: Documents) -> None:
    if len(swept.candidates) == 1 and swept.skipped:
        raise InputError(f"--vary: none of {swept.skipped:,} combinations is a policy: {documents.first_reason}")


@contextmanager
def _desk(asked: Asked, header: dict[str, Any], scenes: Sequence[Scene], runs: int) -> Iterator[Desk]:
    """Workers and what they find, kept whatever ends the sweep; so many runs are expected."""
    study = _study(asked, header)
    try:
        with at_work(min(asked.jobs, runs), Trials(asked.policy, scenes)) as workers, _progress(runs) as finished:
            desk = Desk(study, workers, finished)
            try:
                yield desk
            except BaseException:
                desk.keep_what_ended()
                raise
    except KeyboardInterrupt:
        sys.stderr.write(f"specloop: interrupted; {_kept(asked, study)}\n")
        raise
    except BrokenProcessPool as error:
        raise InputError(
            f"--jobs {asked.jobs}: a process was ended, perhaps for lack of memory; use fewer. {_kept(asked, study)}"
        ) from error
    finally:
        study.close()


def _kept(asked: Asked, study: Study) -> str:
    if asked.study is None:
        return "nothing was kept: with --study FILE the same command would go on from here"
    return f"{len(study):,} runs are kept in {asked.study}, and the same command goes on from there"


def _study(asked: Asked, header: dict[str, Any]) -> Study:
    if asked.study is None:
        return Study()
    try:
        return Study.open(Path(asked.study), header, anew=asked.force)
    except StudyError as error:
        raise InputError(f"--study: {error}") from error
    except OSError as error:
        raise cannot("write", asked.study, error) from error


def _header(options: Options, data: dict[str, Any], space: Space, scenes: Sequence[Scene]) -> dict[str, Any]:
    """Everything that a candidate's figures depend on beside its values."""
    scene = scenes[0]
    return {
        "specloop": version("specloop"),
        "numpy": version("numpy"),
        "policy": data,
        "vary": {one.field.path: one.asked for one in space.parameters},
        "traces": [sha256(one.trace) for one in scenes],
        "workload": _digest(repr(scene.workload)),
        "profile": _digest(repr(scene.profile)),
        "replicas": options.replicas,
        "seed": options.seed,
        "seconds": options.seconds,
        "start": [one.setup.epoch for one in scenes],
        "live": options.live,
        "withoutStepTimes": options.blind,
    }


def sha256(trace: Trace) -> str:
    """Of a trace's requests, however their file is written."""
    digest = hashlib.sha256()
    for column in (trace.arrivals, trace.prompt_tokens, trace.output_tokens):
        digest.update(column.tobytes())
    return digest.hexdigest()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _progress(runs: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    err = console(stderr=True)
    if not err.is_terminal:
        yield lambda count: None
        return
    columns = ("trying candidates", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        bar = progress.add_task("", total=runs)
        yield lambda count: progress.update(bar, completed=count)


def _write(asked: Asked, options: Options, found: Answer, chosen: dict[str, Any]) -> None:
    if asked.out is not None:
        write_file(Path(asked.out), policy_text(found, chosen, command(asked, options)), force=asked.force)
    if asked.report is not None:
        from specloop_sim.report.page import render

        write_file(Path(asked.report), render(sweep_report(found)), force=asked.force)


def command(asked: Asked, options: Options) -> str:
    """The command line whose answer this is, but for what does not change the answer."""
    import shlex

    words = ["specloop", "sweep", "--policy", asked.policy]
    pairs: list[tuple[str, object]] = [
        *(("--trace", one) for one in asked.traces),
        ("--columns", options.columns),
        ("--workload", options.workload),
        ("--profile", options.profile),
        ("--replicas", options.replicas if options.replicas != 1 else None),
        ("--seconds", None if options.seconds is None else f"{options.seconds:g}"),
        ("--start", None if options.start is None else options.start.isoformat()),
        *(("--vary", one) for one in asked.vary),
        ("--trials", asked.trials),
        ("--seed", options.seed),
    ]
    flags = (
        ("--live", options.live),
        ("--without-step-times", options.blind),
        ("--grid", asked.grid),
        ("--hold-out", asked.hold_out),
    )
    words += [word for name, value in pairs if value is not None for word in (name, str(value))]
    return shlex.join([*words, *(name for name, given in flags if given)])
