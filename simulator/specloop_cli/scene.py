"""What a policy is tried on: traffic, hardware and seed, from the options that `simulate` and `sweep` share."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from specloop_cli.errors import InputError, cannot
from specloop_cli.named_files import opened, read_profile, text_of
from specloop_cli.policy_file import load_policies, title
from specloop_policy.decision import Inputs
from specloop_policy.ladder import DISABLED, Drafter, Ladder, Level
from specloop_policy.model import SpecPolicy
from specloop_policy.policy import PolicyError, resolve
from specloop_sim.contest import Entrant
from specloop_sim.courses import Courses
from specloop_sim.fleet import Difference, Hardware, Traffic
from specloop_sim.profile import Profile, UnknownProfile
from specloop_sim.request import Request
from specloop_sim.simulate import Setup
from specloop_sim.text import UnknownText, survival
from specloop_sim.traces.columns import ColumnsError, parse_columns
from specloop_sim.traces.trace import Trace, TraceError, read_trace
from specloop_sim.traffic import ConcurrentClients, OpenLoop, requests_of, stages_of, synthetic_trace
from specloop_sim.workload import Workload, WorkloadError, load_workload, shipped_workloads, workload_named

DEFAULT_PROFILE = "4xh100-llama-3.3-70b"
DEFAULT_WORKLOAD = "steady"
RUNNING_TOKENS = 5
"""K of the fleet before a policy without levels: the largest that the field report found useful on prose or structured
output alike."""
LIVE_SECONDS = 1.0
"""From a decision to another K in the engine where no restart is needed: vLLM 0.32.0 took 1 to
53 ms, and the message has to be sent."""
LATEST_YEAR = 2100
"""As for traces: later times are in another unit."""
WITHOUT_DATES = datetime(2024, 1, 1, tzinfo=UTC)
"""When traffic without dates begins, for schedules: midnight of a Monday."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for; None is the default."""

    trace: str | None = None
    columns: str | None = None
    workload: str | None = None
    profile: str | None = None
    replicas: int = 1
    seed: int = 1
    concurrency: int | None = None
    seconds: float | None = None
    start: datetime | None = None
    live: bool = False
    blind: bool = False

    def files(self) -> tuple[str | None, ...]:
        """What is read."""
        return self.trace, self.workload, self.profile


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that contestants meet alike."""

    trace: Trace
    synthetic: bool
    workload: Workload
    profile: Profile
    setup: Setup
    known: Inputs
    concurrency: int | None
    requests: Sequence[Request]
    dated: bool
    """Whether the traffic says when it was."""

    @property
    def title(self) -> str:
        """The traffic's name for people."""
        return Path(self.trace.name).name

    @property
    def closed_loop(self) -> bool:
        """Whether clients wait for answers before they ask again."""
        return self.concurrency is not None

    def traffic(self) -> Traffic:
        """The same traffic, anew."""
        if self.concurrency is None:
            return OpenLoop(self.requests)
        return ConcurrentClients(self.trace, self.workload, self.concurrency, self.setup.seed, self.setup.seconds)


def set_scene(options: Options) -> Scene:
    """Read what the options name; raises InputError."""
    workload = _workload(options.workload)
    if options.trace is None and options.columns is not None:
        raise InputError("--columns: there is no trace to read columns from; name one with --trace")
    try:
        trace = _trace(options, workload)
        requests = requests_of(trace, workload, options.seed) if options.concurrency is None else ()
    except (TraceError, ColumnsError, WorkloadError) as error:
        raise InputError(str(error)) from error
    if len(workload.replicas) > options.replicas:
        raise InputError(
            f"workload {workload.name} says how {len(workload.replicas)} replicas differ, and --replicas is "
            f"{options.replicas}: give as many"
        )
    profile = read_profile(DEFAULT_PROFILE if options.profile is None else options.profile)
    started = options.start.timestamp() if options.start is not None else trace.start
    hardware = _hardware(options, workload, profile)
    setup = Setup(
        hardware,
        Ladder((DISABLED,)),
        DISABLED,
        options.replicas,
        options.seed,
        trace.seconds if options.concurrency is None else options.seconds or trace.seconds,
        epoch=WITHOUT_DATES.timestamp() if started is None else started,
        courses=Courses(),
    )
    known = Inputs(
        step_times=None if options.blind else profile.times,
        restart_seconds=hardware.away_seconds(0),
    )
    return Scene(
        trace,
        options.trace is None,
        workload,
        profile,
        setup,
        known,
        options.concurrency,
        requests,
        dated=started is not None,
    )


def _hardware(options: Options, workload: Workload, profile: Profile) -> Hardware:
    """Replicas of the profile, with what the workload says of their caches and differences."""
    return Hardware(
        profile,
        live_seconds=LIVE_SECONDS if options.live else None,
        prefix_share=workload.prefix_cache_percent / 100.0,
        differences=tuple(
            Difference(one.speed_percent / 100.0, one.acceptance_percent / 100.0, one.startup_seconds)
            for one in workload.replicas
        ),
    )


def start_of(text: str | None) -> datetime | None:
    """When traffic begins, as `--start` says it; a time without a zone is UTC.  Raises InputError."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--start {text}: give a time such as 2026-01-05T22:00:00Z") from None
    if not 1970 <= found.year <= LATEST_YEAR:
        raise InputError(f"--start {text}: give a year from 1970 to {LATEST_YEAR}")
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def entrants(policies: Sequence[tuple[str, SpecPolicy]], scene: Scene) -> list[Entrant]:
    """Policies made ready for this scene, each with the file that it came from; they act, whatever their mode.

    Raises InputError for a policy that does not fit, or a drafter that cannot be simulated.
    """
    return [_entrant(path, policy, scene) for path, policy in policies]


def load_all(paths: Sequence[str]) -> list[tuple[str, SpecPolicy]]:
    """Every policy of these files with the file's name; raises InputError."""
    return [(path, policy) for path in paths for policy in load_policies(path)]


def _entrant(path: str, document: SpecPolicy, scene: Scene) -> Entrant:
    name = document.metadata.name
    drafter = Drafter("drafter", scene.profile.methods()[0])  # what runs, where the policy does not say
    try:
        policy = resolve(name, document.spec, drafter, RUNNING_TOKENS, enforce=True)
        for level in policy.ladder.levels:
            _check(level, scene)
    except (PolicyError, UnknownProfile, UnknownText) as error:
        raise InputError(f"{title(path)}: {name}: {error}") from error
    return Entrant(policy, policy.ladder.levels[0], document.spec.schedules)


def _check(level: Level, scene: Scene) -> None:
    """Raise where the engine model has no figures for a level."""
    if level.by_batch:
        raise InputError(
            f"level {level.name}: the simulator drafts one K whatever the batch: remove tokensByBatch here"
        )
    scene.profile.timer(level)
    if level.drafter is not None:
        for stage in stages_of(scene.workload, scene.setup.seconds):
            for kind in stage.kinds:
                survival(kind, level.drafter.method, 0.0, level.tokens, profile=stage.profile)


def _workload(name: str | None) -> Workload:
    wanted = DEFAULT_WORKLOAD if name is None else name
    try:
        if wanted in shipped_workloads():
            return workload_named(wanted)
        if wanted != "-" and not Path(wanted).exists():
            known = ", ".join(shipped_workloads())
            raise InputError(f"--workload: there is no file {wanted}, nor a workload of that name: {known}")
        return load_workload(text_of(wanted), title(wanted))
    except WorkloadError as error:
        raise InputError(str(error)) from error


def _trace(options: Options, workload: Workload) -> Trace:
    """The trace asked for, or one that the workload makes up; only its first seconds where so asked.

    Clients who wait go through the whole of it, as far as they come in that time.
    """
    trace = synthetic_trace(workload, options.seed) if options.trace is None else _read(options.trace, options.columns)
    return trace if options.seconds is None or options.concurrency is not None else trace.cut(options.seconds)


def _read(path: str, named: str | None) -> Trace:
    try:
        columns = parse_columns(named) if named is not None else None
    except ColumnsError as error:
        raise InputError(f"--columns: {error}") from error
    with opened(path) as stream:
        try:
            return read_trace(stream, title(path), columns)
        except OSError as error:
            raise cannot("read", path, error) from error
