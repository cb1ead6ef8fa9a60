"""Events are posted on change only, on the objects they are meant for, and never too many."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_operator.announcer import MAX_OBJECTS, POSTS_A_MINUTE, Announcer, Event, ObjectRef, PostFailed
from specloop_operator.events import Action, EventType, On, Reason
from specloop_operator.kubernetes_events import MAX_NOTE_BYTES, cut

POLICY = ObjectRef("specloop.dev/v1alpha1", "SpecPolicy", "llm", "chat", "uid-1")
WORKLOAD = ObjectRef("apps/v1", "Deployment", "llm", "llama", "uid-2")
BOTH = (POLICY, WORKLOAD)


@dataclass
class Postbox:
    """An event port that keeps what is posted, and fails while it is told to."""

    posted: list[Event] = field(default_factory=list)
    failing: bool = False

    async def post(self, event: Event) -> None:
        """Keep it."""
        if self.failing:
            raise PostFailed("HTTP 500 Internal Server Error")
        self.posted.append(event)

    @property
    def reasons(self) -> list[str]:
        """The reasons of what was posted."""
        return [event.reason.value for event in self.posted]


@dataclass
class Story:
    """An announcer at work: every announcement is a minute after the one before, unless told otherwise."""

    box: Postbox = field(default_factory=Postbox)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.announcer = Announcer(self.box)

    async def tell(
        self, reason: Reason, note: str = "so it is", after: float = 60.0, objects: tuple[ObjectRef, ...] = BOTH
    ) -> None:
        """Announce it."""
        self.now += after
        await self.announcer.announce(reason, note, self.now, objects)


async def test_what_stays_so_is_posted_once() -> None:
    """The figures move at every tick."""
    story = Story()
    for percent in range(30, 40):
        await story.tell(Reason.RECOMMENDED, f"from k5 to k3: acceptance {percent} % is below 40 %")
    assert story.box.reasons == ["Recommended"]
    assert story.box.posted[0].note == "from k5 to k3: acceptance 30 % is below 40 %"


async def test_another_note_is_news() -> None:
    """The recommended level changed."""
    story = Story()
    await story.tell(Reason.RECOMMENDED, "from k5 to k3")
    await story.tell(Reason.RECOMMENDED, "from k5 to ngram")
    assert len(story.box.posted) == 2


async def test_what_happens_again_after_something_else_is_news() -> None:
    """Two probes of the same level, each lost."""
    story = Story()
    for _ in range(2):
        await story.tell(Reason.PROBE_STARTED, "k5 on one replica")
        await story.tell(Reason.PROBE_LOST, "k5 is lost")
    assert story.box.reasons == ["ProbeStarted", "ProbeLost", "ProbeStarted", "ProbeLost"]


async def test_two_things_that_are_so_at_once_do_not_make_each_other_news() -> None:
    """They belong to different actions: metrics are missing while a target drifts."""
    story = Story()
    for _ in range(3):
        await story.tell(Reason.METRICS_UNAVAILABLE)
        await story.tell(Reason.DRIFTED)
    assert story.box.reasons == ["MetricsUnavailable", "Drifted"]


async def test_what_was_settled_is_news_when_it_comes_back() -> None:
    """A spec that was mended, and broken again in the same way; other actions keep what they said."""
    story = Story()
    await story.tell(Reason.DRIFTED)
    await story.tell(Reason.INVALID_SPEC)
    story.announcer.settled(POLICY, Action.READ_POLICY)
    await story.tell(Reason.DRIFTED)
    await story.tell(Reason.INVALID_SPEC)
    assert story.box.reasons == ["Drifted", "InvalidSpec", "InvalidSpec"]


async def test_the_caller_may_say_what_of_a_note_is_news() -> None:
    """Levels may be called by bare numbers."""
    story = Story()
    for level in ("5", "3"):
        await story.announcer.announce(Reason.LEVEL_CHANGED, f"to {level}", 0.0, BOTH, gist=level)
    assert len(story.box.posted) == 2


async def test_a_roll_out_is_told_on_the_workload_too() -> None:
    """Whoever describes a Deployment that restarts learns who restarts it."""
    story = Story()
    await story.tell(Reason.ROLLOUT_STARTED)
    assert [event.regarding for event in story.box.posted] == [POLICY, WORKLOAD]


async def test_other_news_are_told_on_the_policy_alone_and_a_workload_without_one_by_itself() -> None:
    """The table says which."""
    story = Story()
    await story.tell(Reason.METRICS_UNAVAILABLE)
    await story.tell(Reason.LEFT_PAUSED)
    assert [event.regarding for event in story.box.posted] == [POLICY, WORKLOAD]


async def test_an_object_gets_only_so_many_events_a_minute() -> None:
    """The minute is counted from the oldest of them; other objects are not held up."""
    story = Story()
    for number in range(2 * POSTS_A_MINUTE):
        await story.tell(Reason.LEVEL_CHANGED, f"to k{number}", after=1.0)
    assert len(story.box.posted) == POSTS_A_MINUTE
    await story.tell(Reason.LEVEL_CHANGED, objects=(replace(POLICY, name="code", uid="uid-3"),), after=0.0)
    assert len(story.box.posted) == POSTS_A_MINUTE + 1


async def test_what_was_over_the_limit_is_told_later_if_it_is_still_so() -> None:
    """It does not count as said."""
    story = Story()
    for number in range(POSTS_A_MINUTE):
        await story.tell(Reason.LEVEL_CHANGED, f"to k{number}", after=0.0)
    await story.tell(Reason.METRICS_UNAVAILABLE, after=30.0)
    assert len(story.box.posted) == POSTS_A_MINUTE
    await story.tell(Reason.METRICS_UNAVAILABLE, after=30.0)
    assert story.box.reasons[-1] == "MetricsUnavailable"


async def test_a_clock_that_is_set_back_holds_nothing_up() -> None:
    """An hour back, right after the limit was reached."""
    story = Story(now=7200.0)
    for number in range(POSTS_A_MINUTE):
        await story.tell(Reason.LEVEL_CHANGED, f"to k{number}", after=0.0)
    await story.tell(Reason.METRICS_UNAVAILABLE, after=-3600.0)
    assert story.box.reasons[-1] == "MetricsUnavailable"


async def test_an_event_that_was_not_posted_is_posted_when_it_is_announced_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Telling must never fail a tick; the log says that it did not work."""
    story = Story(Postbox(failing=True))
    await story.tell(Reason.CONFLICTED)
    assert "Conflicted was not posted: HTTP 500" in caplog.text
    story.box.failing = False
    await story.tell(Reason.CONFLICTED)
    assert story.box.reasons == ["Conflicted"]


async def test_an_object_that_is_gone_is_forgotten() -> None:
    """Also one that was never heard of."""
    story = Story()
    await story.tell(Reason.CONFLICTED)
    story.announcer.forget(POLICY)
    story.announcer.forget(WORKLOAD)
    await story.tell(Reason.CONFLICTED)
    assert len(story.box.posted) == 2


async def test_an_object_made_anew_is_another() -> None:
    """Same name, another uid."""
    story = Story()
    await story.tell(Reason.CONFLICTED)
    await story.tell(Reason.CONFLICTED, objects=(replace(POLICY, uid="uid-9"),))
    assert len(story.box.posted) == 2


async def test_only_so_many_objects_are_remembered() -> None:
    """The one that was longest unheard of goes, so it is told again; the last one is not."""
    story = Story()
    refs = [replace(POLICY, uid=f"uid-{number}") for number in range(MAX_OBJECTS + 1)]
    for ref in (*refs, refs[-1], refs[0]):
        await story.tell(Reason.CONFLICTED, objects=(ref,))
    assert [event.regarding for event in story.box.posted] == [*refs, refs[0]]


def test_reasons_and_actions_are_single_words_that_the_api_server_takes() -> None:
    """CamelCase, at most 128 characters (k8s.io/api/events/v1, type Event)."""
    for word in (*Reason, *Action):
        assert word.value.isalpha()
        assert word.value[0].isupper()
        assert len(word.value) <= 128


def test_a_reason_carries_its_row() -> None:
    """One that is no good news, told on both objects."""
    reason = Reason.ROLLOUT_ROLLED_BACK
    assert (reason.type, reason.action, reason.on) == (EventType.WARNING, Action.ROLL_OUT, On.BOTH)
    assert reason.meaning.startswith("The old level is put back")


@given(st.text(max_size=3000))
def test_a_note_is_cut_to_what_the_api_server_takes_and_stays_readable(note: str) -> None:
    """Bytes count, letters are kept whole, and what was cut shows it."""
    short = cut(note)
    assert len(short.encode()) <= MAX_NOTE_BYTES
    assert short == note or (note.startswith(short.removesuffix("…")) and short.endswith("…"))
    if len(note.encode()) <= MAX_NOTE_BYTES:
        assert short == note
