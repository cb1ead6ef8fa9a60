"""What goes into a decision beside the observation, what comes out, and what is remembered between two of them."""

from dataclasses import dataclass, field
from enum import StrEnum

from specloop_policy.cost import StepTimes
from specloop_policy.model import AlertActionType


class ActionName(StrEnum):
    """What a decision does."""

    HOLD = "Hold"
    STEP_DOWN = "StepDown"
    STEP_UP = "StepUp"
    SWITCH_TO = "SwitchTo"
    DISABLE = "Disable"
    PROBE = "Probe"
    ALERT = "Alert"


KEEPS_LEVEL = frozenset({ActionName.HOLD, ActionName.ALERT})


@dataclass(frozen=True, slots=True)
class Override:
    """A person's wish: this level until `until` (seconds since the epoch; None: until it is taken back)."""

    level: str
    until: float | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class ScheduledLevel:
    """A schedule that is in force now."""

    schedule: str
    level: str


@dataclass(frozen=True, slots=True)
class FiringAlert:
    """An alert that matched a binding of the policy and still fires."""

    name: str
    action: AlertActionType
    level: str | None = None


@dataclass(frozen=True, slots=True)
class FailedChange:
    """A level that did not come up, or did harm; `key` stands for its configuration and image together."""

    level: str
    key: str
    reason: str
    back_to: str | None = None
    """The level to go back to where the one that failed still runs; None: what runs is that level already."""
    until: float | None = None
    """When it may be tried again, seconds since the epoch; None: when its configuration or image changes."""
    rules_only: bool = False
    """Whether only rules and probes are kept from it: a person, a schedule or an alert may ask for it all the same."""
    untried: bool = False
    """Whether it is refused as it stands, and was never tried."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything beside the observation that a decision may depend on."""

    step_times: StepTimes | None = None
    """Step times of this hardware; None when nobody measured them."""
    restart_seconds: float | None = None
    """How long one replica is away when its level changes; None when unknown, 0 when changes are live."""
    live: frozenset[str] = frozenset()
    """Levels that are reached without a restart, whatever others take."""
    override: Override | None = None
    scheduled: ScheduledLevel | None = None
    alerts: tuple[FiringAlert, ...] = ()
    failed: FailedChange | None = None
    """The last change, when it failed and was taken back."""
    keys: tuple[tuple[str, str], ...] = ()
    """Level names with the key of their present configuration and image: a quarantine ends when it changes."""

    def away_seconds(self, level: str) -> float | None:
        """How long one replica is away when it goes to a level; None when unknown."""
        return 0.0 if level in self.live else self.restart_seconds


@dataclass(frozen=True, slots=True)
class Probe:
    """A level that is being tried on one replica."""

    level: str
    started_at: float


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a level that was entered from below: how often in a row it was lost, and when."""

    level: str
    losses: int
    lost_at: float


@dataclass(frozen=True, slots=True)
class Forced:
    """What holds the level where rules do not decide, and the level to go back to afterwards."""

    by: str
    back_to: str | None
    alert: bool = False
    """Whether it is an alert, which may end just because of what was done about it."""
    since: float = 0.0
    """When the first of those who held it one after the other began to, seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class PolicyState:
    """The memory of a policy: typed, bounded, and changed only when there is something to remember.

    Times are seconds since the epoch.  The bounds: one entry a rule, a level and a change of the last day.
    """

    level: str | None = None
    """The level that the target is meant to be at; None before the first look."""
    changed_at: float | None = None
    """When the level last changed; evidence begins there."""
    raised_at: float | None = None
    """When the level was last entered from below; None when it was not."""
    changes: tuple[float, ...] = ()
    """Times of changes by rules in the last day."""
    holds_since: tuple[tuple[str, float], ...] = ()
    """Rules whose condition holds, each with the end of the window at which it began to."""
    probe: Probe | None = None
    forced: Forced | None = None
    owed: str | None = None
    """The level to go back to once it may be: left for an alert that had come back, or the way to it was cut short."""
    trials: tuple[Trial, ...] = ()
    quarantine: tuple[FailedChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with the engine rather than with the traffic."""

    name: str
    reason: str
    mend: str
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and why in words."""

    action: ActionName
    level: str | None
    """The level to be at afterwards; for a probe the level that one replica tries; None while unmanaged."""
    reason: str
    rule: str | None = None
    """The rule, schedule or alert behind it; while holding, the first rule whose condition holds."""
    after_seconds: float = 0.0
    """How long the rule's condition must hold, or the gap before a probe."""
    gain_percent: float | None = None
    """Estimated gain in speed of `level` against the level before; None when unknown."""
    faults: tuple[Fault, ...] = field(default=())

    @property
    def changes_level(self) -> bool:
        """Whether anything is to be done to the target."""
        return self.action not in KEEPS_LEVEL
