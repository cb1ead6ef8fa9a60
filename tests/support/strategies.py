"""Hypothesis strategies: valid policies of every kind, worlds to decide in, and step times."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from specloop_policy.cost import Load
from specloop_policy.ladder import Level
from specloop_policy.policy import Policy
from tests.support.policies import DRAFTERS, policy_of, rule
from tests.support.worlds import World

percents = st.integers(0, 100)
shares = percents.map(lambda percent: percent / 100.0)


@dataclass(frozen=True)
class StepSeconds:
    """Step times that grow with K and the batch: a plain step, a fixed cost of drafting, and a cost a draft token."""

    plain: float
    fixed: float
    per_token: float
    per_request: float

    def seconds(self, level: Level, load: Load) -> float | None:
        """Seconds of one step."""
        verify = self.plain + self.per_request * load.running * (level.tokens + 1)
        return verify + (self.fixed + self.per_token * level.tokens if level.speculates else 0.0)


step_times = st.builds(
    StepSeconds,
    plain=st.floats(0.005, 0.02),
    fixed=st.sampled_from((0.0, 0.002, 0.025)),
    per_token=st.floats(0.0, 0.004),
    per_request=st.floats(0.0, 0.0002),
)


@st.composite
def ladders(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Levels of two drafters in any order that lets K fall within each."""
    small = draw(st.sets(st.integers(1, 8), min_size=1, max_size=3))
    lookup = draw(st.sets(st.integers(1, 8), max_size=2))
    order = draw(st.permutations([*["small"] * len(small), *["lookup"] * len(lookup)]))
    left = {"small": sorted(small), "lookup": sorted(lookup)}
    levels = []
    for drafter in order:
        tokens = left[drafter].pop()
        levels.append({"name": f"{drafter[0]}{tokens}", "drafter": drafter, "tokens": tokens})
    return [*levels, {"name": "disabled"}]


def _sides(below: st.SearchStrategy[int], name: str = "Percent") -> st.SearchStrategy[dict[str, int]]:
    return st.tuples(st.sampled_from((f"below{name}", f"above{name}")), below).map(lambda side: dict([side]))


conditions: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "acceptance": _sides(percents),
    "temperature": st.fixed_dictionaries(
        {"above": st.integers(0, 20).map(lambda tenths: f"{tenths / 10:.1f}"), "sharePercent": percents}
    ),
    "coverage": _sides(percents),
    "gain": _sides(st.integers(-50, 100)),
    "running": _sides(st.integers(0, 100), name=""),
    "kvCache": _sides(percents),
}


@st.composite
def rules(draw: st.DrawFn, levels: list[dict[str, Any]], place: int) -> dict[str, Any]:
    """One rule that the schema allows, on a ladder."""
    named = draw(st.lists(st.sampled_from(sorted(conditions)), min_size=1, max_size=2, unique=True))
    when = {name: draw(conditions[name]) for name in named}
    judged = [when[name] for name in ("acceptance", "gain") if name in when]
    allowed = {"StepDown", "SwitchTo", "Disable", "StepUp", "Alert"}
    if any("belowPercent" in limit for limit in judged):
        allowed -= {"StepUp"}
    if any("abovePercent" in limit for limit in judged):
        allowed &= {"StepUp", "Alert"}
    action: dict[str, Any] = {"type": draw(st.sampled_from(sorted(allowed)))}
    if action["type"] == "SwitchTo":
        action["level"] = draw(st.sampled_from(levels))["name"]
    duration = draw(st.sampled_from((0, 300, 600, 1800)))
    return {"name": f"rule-{place}", "when": when, "forSeconds": duration, "action": action}


@st.composite
def rule_lists(draw: st.DrawFn, levels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One to five rules of any kind, among them more often than not the usual pair about acceptance."""
    found = [draw(rules(levels, place)) for place in range(draw(st.integers(1, 3)))]
    if draw(st.integers(0, 3)):
        duration = draw(st.sampled_from((0, 600)))
        low, high = draw(st.integers(20, 80)), draw(st.integers(20, 80))
        found.append(rule("low", {"acceptance": {"belowPercent": low}}, "StepDown", for_seconds=duration))
        found.append(rule("high", {"acceptance": {"abovePercent": high}}, "StepUp", for_seconds=duration))
    return draw(st.permutations(found))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """A valid policy that enforces."""
    levels = draw(ladders())
    evidence = draw(st.sampled_from((300, 900, 1800, 3600)))
    after = draw(st.sampled_from((300, 1800, 3600)))
    return policy_of(
        drafters=DRAFTERS,
        levels=levels,
        rules=draw(rule_lists(levels)),
        signals={
            "windowSeconds": 300,
            "maxEvidenceSeconds": evidence,
            "settleSeconds": draw(st.sampled_from((0, 60, 400))),
            "minRequests": draw(st.sampled_from((60, 1, 250))),
            "designEffect": draw(st.sampled_from((1, 50, 500))),
        },
        costModel={
            "policy": draw(st.sampled_from(("Veto", "Ignore"))),
            "marginPercent": draw(st.sampled_from((0, 5, 20))),
            "paybackSeconds": draw(st.sampled_from((0, 3600, 86400))),
        },
        guardrails={
            "cooldownSeconds": draw(st.sampled_from((0, 900, 5000))),
            "maxChangesPerDay": draw(st.sampled_from((1, 2, 12, 1000))),
            "probe": {
                "afterSeconds": after,
                "backoffFactor": draw(st.sampled_from((2, 3))),
                "maxSeconds": after * draw(st.sampled_from((1, 8, 30))),
            },
        },
    )


survivals = st.lists(shares, min_size=8, max_size=8).map(lambda chances: tuple(sorted(chances)[::-1]))
"""Any profile whose acceptance never rises with the position."""


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A world that never changes."""
    return World(
        survival={"small": draw(survivals), "lookup": draw(survivals)},
        coverage={"lookup": draw(st.sampled_from((0.0, 0.02, 0.3, 1.0)))},
        hot_share=draw(st.none() | st.sampled_from((0.0, 0.3, 0.5, 1.0)) | shares),
        running=draw(st.sampled_from((1.0, 8.0, 30.0, 64.0))),
        requests=draw(st.sampled_from((100.0, 1000.0, 20.0))),
    )
