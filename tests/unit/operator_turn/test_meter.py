"""What the metrics say of a policy's pods: the canary beside the others, before and after, and a watched level."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from specloop_engine.sample import Sample
from specloop_operator.meter import Meter
from specloop_operator.turn import Measured
from specloop_policy.canary import Kind, Phase, Plan, Rollout, Step, begin, plan
from specloop_policy.gate import Result
from specloop_policy.watch import Watch
from tests.unit.operator_turn.scenes import LOOK_SECONDS, NOW, PodOf, Scene
from tests.unit.rollout_workload.samples import Engine


@dataclass
class Served:
    """A scene whose pods serve requests, looked at every quarter of a minute."""

    scene: Scene = field(default_factory=Scene)
    engines: dict[str, Engine] = field(default_factory=dict)
    rollout: Rollout | None = None
    watch: Watch | None = None
    now: float = NOW

    def __post_init__(self) -> None:
        """A meter that has seen nothing yet."""
        self.meter = Meter(self.scene.sight().spec.signals)

    def begin(self, kind: Kind = Kind.RULE) -> None:
        """k3 is rolled out, and its canary soaks from now on."""
        sight = self.scene.sight()
        one = begin("k3", "k5", kind, sight.keys["k3"], sight.rest, self.now)
        self.rollout = replace(one, phase=Phase.SOAKING, since=self.now, written=True)

    def look(
        self, looks: int = 1, *, requests: float = 10.0, seconds: float = 0.010, failing: float = 0.0, late: float = 0.0
    ) -> Measured:
        """Pods answer so many requests each a look; those at k3 take `seconds` a token, others 10 ms; some fail."""
        for _ in range(looks):
            self.now += LOOK_SECONDS
            samples = [(pod.name, self._serve(pod, requests, seconds, failing)) for pod in self.scene.pods]
            now = self.now + late
            self.meter.look(self.scene.sight(), self.rollout, self.watch, samples, self.now, now)
        return self.meter.measured(self.scene.sight(), self.rollout)

    def _serve(self, pod: PodOf, requests: float, seconds: float, failing: float) -> Sample:
        engine = self.engines.setdefault(pod.name, Engine())
        engine.serve(requests, seconds=seconds if pod.level == "k3" else 0.010)
        engine.failed += failing
        return engine.sample(self.now)


def beside(kind: Kind = Kind.RULE, **rollout: int) -> Served:
    """A canary that soaks beside three others; a minute warms it up, five minutes are its soak."""
    served = Served(Scene(spec={"rollout": rollout}))
    served.scene.canary("k3")
    served.look(4)
    served.begin(kind)
    return served


def test_a_canary_has_no_verdict_while_it_warms_up() -> None:
    """What it does in its first minute is left out; the first look after that is where counting begins."""
    served = beside()
    assert served.look(3, seconds=9.9).verdict is None
    verdict = served.look(1, seconds=9.9).verdict
    assert verdict is not None
    assert verdict.result is Result.INCONCLUSIVE
    assert served.look(30).verdict is not None
    verdict = served.look(1).verdict
    assert verdict is not None
    assert verdict.result is Result.PASS


def test_it_passes_when_its_soak_is_over() -> None:
    """Four looks of warm-up and twenty of soak."""
    served = beside()
    before, after = served.look(23).verdict, served.look(1).verdict
    assert before is not None
    assert after is not None
    assert (before.result, after.result) == (Result.INCONCLUSIVE, Result.PASS)
    assert "time per output token 10.00 ms against 10.00 ms" in after.reason


def test_a_canary_that_is_slower_than_the_pods_beside_it_fails() -> None:
    """12 ms against 10 ms, long before its soak is over."""
    verdict = beside().look(14, seconds=0.012).verdict
    assert verdict is not None
    assert verdict.result is Result.FAIL
    assert verdict.reason.startswith("time per output token 12.00 ms against 10.00 ms: +20.0 %")


def test_a_level_that_somebody_asks_for_is_not_judged_by_its_speed() -> None:
    """It passes at the end of its soak, with its figures said."""
    verdict = beside(Kind.FORCED).look(24, seconds=0.012).verdict
    assert verdict is not None
    assert verdict.result is Result.PASS
    assert "time per output token 12.00 ms against 10.00 ms: +20.0 %" in verdict.reason


def test_pods_that_are_not_ready_or_on_their_way_out_are_no_control() -> None:
    """Two pods that are not ready take ages a request, and are not looked at."""
    served = beside()
    for pod in served.scene.pods[:2]:
        pod.ready_since = None
    served.scene.pods[0].level = "k3"
    verdict = served.look(24).verdict
    assert verdict is not None
    assert "240 requests finished on the canary" not in verdict.reason
    assert verdict.result is Result.PASS


def test_requests_that_fail_beside_the_canary_are_known() -> None:
    """10 of 110 on all pods: no fault of the canary's, and what the watch goes by afterwards."""
    measured = beside().look(24, failing=1.0)
    assert measured.failed_share == pytest.approx(1.0 / 11.0)
    assert measured.verdict is not None
    assert measured.verdict.result is Result.PASS


class TestWithoutControl:
    """One pod: it is compared with what was before it."""

    def alone(self, looks_before: int = 30) -> Served:
        """The pod served at k5, and its successor soaks."""
        served = Served(Scene(replicas=1))
        served.look(looks_before)
        served.begin()
        served.scene.pods = [PodOf("llama-k3", "k3", ready_since=NOW)]
        return served

    def test_after_is_compared_with_before(self) -> None:
        """12 ms after, 10 ms before."""
        verdict = self.alone().look(14, seconds=0.012).verdict
        assert verdict is not None
        assert verdict.result is Result.FAIL
        assert "time per output token 12.00 ms against 10.00 ms" in verdict.reason

    def test_that_passes_at_the_end_of_its_soak(self) -> None:
        """Nothing has changed."""
        verdict = self.alone().look(24).verdict
        assert verdict is not None
        assert verdict.result is Result.PASS

    def test_another_load_is_no_comparison(self) -> None:
        """4 requests in the batch before, 8 after."""
        served = self.alone()
        served.engines["llama-k3"] = Engine(running=8.0)
        verdict = served.look(24).verdict
        assert verdict is not None
        assert verdict.result is Result.INCONCLUSIVE
        assert verdict.reason == (
            "the load is another than before the change: 8.0 requests in a pod's batch, 4.0 before"
        )

    def test_before_is_as_long_as_a_soak(self) -> None:
        """What was earlier is another time: an hour ago each token took 1 s."""
        served = Served(Scene(replicas=1))
        for engine in [served.engines.setdefault("llama-0", Engine())]:
            for _ in range(20):
                engine.serve(10.0, seconds=1.0)
                served.now += LOOK_SECONDS
                served.meter.look(
                    served.scene.sight(), None, None, [("llama-0", engine.sample(served.now))], served.now, served.now
                )
        served.look(21)
        served.begin()
        served.scene.pods = [PodOf("llama-k3", "k3", ready_since=NOW)]
        verdict = served.look(24).verdict
        assert verdict is not None
        assert "time per output token 10.00 ms against 10.00 ms" in verdict.reason

    def test_of_which_nothing_is_known_is_inconclusive(self) -> None:
        """The operator was started in the middle."""
        verdict = self.alone(looks_before=0).look(24).verdict
        assert verdict is not None
        assert verdict.result is Result.INCONCLUSIVE


@pytest.mark.parametrize(("soak", "deadline"), [(300, 1800), (600, 600), (300, 360), (300, 10)])
@pytest.mark.parametrize("late", [(0.0, 0.0), (0.003, 0.0), (0.0, 0.003)], ids=["on time", "late first", "late then"])
def test_a_canary_that_serves_well_passes_before_it_is_overdue(
    soak: int, deadline: int, late: tuple[float, float]
) -> None:
    """However long the soak is against the deadline, and though looks come a few milliseconds late, first or then."""
    served = beside(soakSeconds=soak, progressDeadlineSeconds=deadline)
    assert served.rollout is not None
    served.rollout = replace(served.rollout, since=served.now + 0.002)
    served.scene.level, served.scene.held = "k3", True
    sight = served.scene.sight()
    view = sight.target.view("k3", sight.rest, sight.pods, served.rollout)
    found, looks = Plan(served.rollout, Step.WAIT, ""), 0
    while found.rollout.soaking:
        looks += 1
        delay = late[looks > 10]
        measured = served.look(1, late=delay)
        found = plan(served.rollout, view, sight.limits, served.now + delay, gate=measured.verdict)
    assert found.rollout.phase is Phase.PROMOTING


def test_a_watched_level_is_counted_from_its_promotion_on() -> None:
    """10 looks of 10 requests on each of three pods: the first look is where counting begins."""
    served = Served()
    served.scene.all_at("k3")
    served.look(5, failing=5.0)
    served.watch = Watch("k3", "k5", "key", served.now, served.now + 7200.0)
    measured = served.look(11)
    assert (measured.served.finished_requests, measured.served.failed_requests) == (300.0, 0.0)
    served.watch = None
    assert served.look(1).served.finished_requests is None


def test_windows_have_the_level_that_their_pod_runs() -> None:
    """The canary's its own; a new interval of signals begins anew."""
    served = beside()
    windows: Sequence[tuple[str, str]] = [(one.pod, one.level) for one in served.look(40).windows]
    assert set(windows) == {("llama-k3", "k3"), ("llama-0", "k5"), ("llama-1", "k5"), ("llama-2", "k5")}
    signals = served.scene.sight().spec.signals
    assert served.meter.fits(signals)
    assert not served.meter.fits(signals.model_copy(update={"window_seconds": 60}))


def test_it_is_told_how_many_pods_are_heard_from() -> None:
    """Of four, all; before any look, none."""
    served = beside()
    assert served.meter.heard(served.scene.sight().pods) == 4
    assert Meter(served.scene.sight().spec.signals).heard(served.scene.sight().pods) == 0
