"""Cases of the alerts on policies and on the operator, which Prometheus scrapes with `honor_labels`."""

from tests.component.rules.engine_cases import engine, lacking, llamacpp, old_vllm, steady
from tests.component.rules.promtool import Case

POLICY = {"namespace": "llm", "policy": "chat"}
SHOWN = 'namespace="llm",policy="chat",job="specloop",instance="1"'
SYSTEM = {"namespace": "specloop"}


def condition(**values: str) -> dict[str, str]:
    """Conditions of the policy: 1 for True, 0 for False, -1 for Unknown."""
    return {f'specloop_condition{{{SHOWN},type="{one}"}}': value for one, value in values.items()}


def level(name: str, kind: str = "observed") -> dict[str, str]:
    """A level of the policy."""
    return {f'specloop_level_info{{{SHOWN},kind="{kind}",level="{name}"}}': steady(1)}


def target(name: str, kind: str = "Deployment", policy: str = "chat", runs: str = "k5") -> dict[str, str]:
    """A policy's target, and the level that runs."""
    own = f'namespace="llm",policy="{policy}",job="specloop",instance="1"'
    return {
        f'specloop_target_info{{{own},kind="{kind}",name="{name}"}}': steady(1),
        f'specloop_level_info{{{own},kind="observed",level="{runs}"}}': steady(1),
    }


def leaders(*values: str, job: str = "specloop") -> dict[str, str]:
    """Replicas of the operator, and whether they lead."""
    return {f'specloop_leader{{namespace="specloop",pod="{n}",job="{job}"}}': one for n, one in enumerate(values)}


def build(values: str, namespace: str = "specloop") -> dict[str, str]:
    """One replica of the operator."""
    own = f'namespace="{namespace}",pod="0",job="specloop"'
    return {f'specloop_build_info{{{own},version="1",python_version="3"}}': values}


STARTED = f"specloop_rollout_started_timestamp_seconds{{{SHOWN}}}"


def not_scraped(policy: str = "chat") -> str:
    """The words of SpecLoopTargetNotScraped."""
    return (
        f"The target of policy {policy} in namespace llm speculates, and this Prometheus has no counters of drafts "
        "from its pods: the alerts on engines are blind to it. First: see whether Prometheus scrapes the pods, and "
        "what their series are called."
    )


LLAMA = "llama-5d4f8c7b9-x2k4p"
"""As Kubernetes names a pod of the Deployment `llama`."""
TARGET = target("llama")
LONG = "a" * 47

TARGET_NOT_SCRAPED = (
    Case("no counters at all", "SpecLoopTargetNotScraped", TARGET, [POLICY], not_scraped()),
    Case(
        "those of another namespace",
        "SpecLoopTargetNotScraped",
        TARGET | engine(LLAMA, namespace="other"),
        [POLICY],
        not_scraped(),
    ),
    Case(
        "its counters of drafts are called otherwise",
        "SpecLoopTargetNotScraped",
        TARGET | lacking(engine(LLAMA), "spec_decode"),
        [POLICY],
        not_scraped(),
    ),
    Case(
        "those of a Deployment whose name begins like its own",
        "SpecLoopTargetNotScraped",
        TARGET | target("llama-70b", policy="large") | engine("llama-70b-5d4f8c7b9-x2k4p"),
        [POLICY],
        not_scraped(),
    ),
    Case(
        "those of a Deployment with which its name begins",
        "SpecLoopTargetNotScraped",
        TARGET | target("llama-70b", policy="large") | engine(LLAMA),
        [{**POLICY, "policy": "large"}],
        not_scraped("large"),
    ),
    Case(
        "those of a StatefulSet whose name begins like its own",
        "SpecLoopTargetNotScraped",
        TARGET | engine("llama-70b-0") | engine("llama-70b-10"),
        [POLICY],
        not_scraped(),
    ),
    Case("pods of vLLM", "SpecLoopTargetNotScraped", TARGET | engine(LLAMA)),
    Case("pods of vLLM, with an underscore", "SpecLoopTargetNotScraped", TARGET | engine(LLAMA, colon="_")),
    Case("pods of an old vLLM", "SpecLoopTargetNotScraped", TARGET | old_vllm(steady(0.5), pod=LLAMA)),
    Case("pods of llama.cpp", "SpecLoopTargetNotScraped", TARGET | llamacpp(LLAMA)),
    Case(
        "pods of a StatefulSet",
        "SpecLoopTargetNotScraped",
        target("llama-70b", "StatefulSet") | engine("llama-70b-0") | engine("llama-70b-10"),
    ),
    Case(
        "two targets, both scraped",
        "SpecLoopTargetNotScraped",
        TARGET | target("llama-70b", policy="large") | engine(LLAMA) | engine("llama-70b-5d4f8c7b9-x2k4p"),
    ),
    # Kubernetes cuts what it generates a name from at 58 letters: name, dash, up to 10 letters of a hash, dash.
    Case(
        "pods whose names are cut",
        "SpecLoopTargetNotScraped",
        target(LONG) | engine(f"{LONG}-5d4f8c7b9xx2k4p"),
    ),
    Case("it is disabled", "SpecLoopTargetNotScraped", target("llama", runs="disabled") | level("k5", "desired")),
    Case("it runs no level of the ladder", "SpecLoopTargetNotScraped", target("llama", runs="Unmanaged")),
    Case("it has no pods", "SpecLoopTargetNotScraped", TARGET | condition(MetricsAvailable=steady(-1))),
    Case("the pods are new", "SpecLoopTargetNotScraped", TARGET, at="14m", pending=True),
)

METRICS_UNAVAILABLE = (
    Case(
        "no pod is heard from",
        "SpecLoopMetricsUnavailable",
        condition(MetricsAvailable=steady(0)),
        [POLICY],
        "Policy chat in namespace llm hears from no pod of its target, and keeps the level as it is. First: kubectl -n "
        "llm describe specpolicy chat shows what is wrong in the condition MetricsAvailable.",
    ),
    Case("heard", "SpecLoopMetricsUnavailable", condition(MetricsAvailable=steady(1))),
    Case("the target is scaled to no pods", "SpecLoopMetricsUnavailable", condition(MetricsAvailable=steady(-1))),
    Case(
        "it was scaled to no pods before an hour of silence was over",
        "SpecLoopMetricsUnavailable",
        condition(MetricsAvailable="0x20 -1x100"),
    ),
    Case("for 14 minutes", "SpecLoopMetricsUnavailable", condition(MetricsAvailable=steady(0)), at="14m", pending=True),
    Case("no policy", "SpecLoopMetricsUnavailable", {}),
)

DEGRADED = (
    Case(
        "true",
        "SpecLoopPolicyDegraded",
        condition(Degraded=steady(1)),
        [POLICY],
        "Policy chat in namespace llm is degraded: the engine is at fault, or a way back was not done in time. First: "
        "kubectl -n llm describe specpolicy chat shows which, with the likely mend.",
    ),
    Case("false", "SpecLoopPolicyDegraded", condition(Degraded=steady(0))),
    Case("not known yet", "SpecLoopPolicyDegraded", condition(Degraded=steady(-1))),
    Case("for 4 minutes", "SpecLoopPolicyDegraded", condition(Degraded=steady(1)), at="4m", pending=True),
    Case("no policy", "SpecLoopPolicyDegraded", {}),
)


NOT_READY_WORDS = (
    "Policy chat in namespace llm neither governs its target nor recommends for it. First: kubectl -n llm describe "
    "specpolicy chat says why in its conditions."
)

NOT_READY = (
    Case(
        "false",
        "SpecLoopPolicyNotReady",
        condition(Ready=steady(0), MetricsAvailable=steady(1)),
        [POLICY],
        NOT_READY_WORDS,
    ),
    Case("never known", "SpecLoopPolicyNotReady", condition(Ready=steady(-1)), [POLICY], NOT_READY_WORDS),
    Case("true", "SpecLoopPolicyNotReady", condition(Ready=steady(1))),
    Case(
        "the target is scaled to no pods",
        "SpecLoopPolicyNotReady",
        condition(Ready=steady(1), MetricsAvailable=steady(-1)),
    ),
    Case("suspended on purpose", "SpecLoopPolicyNotReady", condition(Ready=steady(0), Suspended=steady(1))),
    Case("it hears nothing", "SpecLoopPolicyNotReady", condition(Ready=steady(0), MetricsAvailable=steady(0))),
    Case("for 14 minutes", "SpecLoopPolicyNotReady", condition(Ready=steady(0)), at="14m", pending=True),
    Case("no policy", "SpecLoopPolicyNotReady", {}),
)

ROLLOUT_STUCK = (
    Case(
        "since two hours and a half",
        "SpecLoopRolloutStuck",
        {STARTED: steady(60)},
        [POLICY],
        "The roll-out of policy chat in namespace llm began 2h 29m 0s ago, and others may wait for its slot. First: "
        "specloop status chat -n llm says what it waits for.",
        at="150m",
    ),
    Case("since two hours", "SpecLoopRolloutStuck", {STARTED: steady(60)}, at="121m"),
    Case("since two hours and ten minutes", "SpecLoopRolloutStuck", {STARTED: steady(60)}, at="131m", pending=True),
    Case("it came to its end", "SpecLoopRolloutStuck", {STARTED: "60x130 stale"}, at="150m"),
    Case("another one began", "SpecLoopRolloutStuck", {STARTED: "60x100 6000x100"}, at="150m"),
    Case("none", "SpecLoopRolloutStuck", {}, at="150m"),
)


def down(where: str) -> str:
    """The words of SpecLoopOperatorDown."""
    return (
        f"No SpecLoop operator{where} is heard from: levels stay as they are, and nobody watches them. First: kubectl "
        "get pods -A -l app.kubernetes.io/name=specloop, then their log."
    )


OPERATOR_DOWN = (
    Case("it is gone", "SpecLoopOperatorDown", build("1x20 stale"), [SYSTEM], down(" in namespace specloop")),
    Case("it was never there", "SpecLoopOperatorDown", {}, [{}], down("")),
    Case(
        "it is gone over a long weekend",
        "SpecLoopOperatorDown",
        build("1x2 stale"),
        [SYSTEM],
        down(" in namespace specloop"),
        at="96h",
        every="30m",
    ),
    Case(
        "one of two releases is gone over a long weekend",
        "SpecLoopOperatorDown",
        build("1x2 stale") | build("1x400", "other"),
        [SYSTEM],
        down(" in namespace specloop"),
        at="96h",
        every="30m",
    ),
    Case(
        "it is gone for more than a week",
        "SpecLoopOperatorDown",
        build("1x2 stale"),
        [{}],
        down(""),
        at="170h",
        every="30m",
    ),
    Case("it is up", "SpecLoopOperatorDown", build(steady(1))),
    Case("for 4 minutes", "SpecLoopOperatorDown", build("1x26 stale"), pending=True),
    Case("it came back", "SpecLoopOperatorDown", build("1x20 stale _x5 1x100")),
)

NO_LEADER = (
    Case(
        "two replicas wait",
        "SpecLoopNoLeader",
        leaders(steady(0), steady(0)),
        [SYSTEM],
        "No replica of the operator in namespace specloop holds the lease: nothing is decided or rolled out. First: "
        "kubectl -n specloop get lease, then the replicas' logs.",
    ),
    Case(
        "two jobs scrape them",
        "SpecLoopNoLeader",
        leaders(steady(0), steady(0)) | leaders(steady(0), steady(0), job="again"),
        [SYSTEM],
        "No replica of the operator in namespace specloop holds the lease: nothing is decided or rolled out. First: "
        "kubectl -n specloop get lease, then the replicas' logs.",
    ),
    Case("one leads", "SpecLoopNoLeader", leaders(steady(1), steady(0))),
    Case("the lease is taken over", "SpecLoopNoLeader", leaders("1x29 0x99", steady(0)), pending=True),
    Case("no operator", "SpecLoopNoLeader", {}),
)

TWO_LEADERS = (
    Case(
        "both lead",
        "SpecLoopTwoLeaders",
        leaders(steady(1), steady(1)),
        [SYSTEM],
        "2 replicas of the operator in namespace specloop say that they lead: they may undo each other's work. First: "
        "kubectl -n specloop scale deployment specloop --replicas 1.",
    ),
    Case("one leads", "SpecLoopTwoLeaders", leaders(steady(1), steady(0))),
    Case(
        "one leads, and two jobs scrape it",
        "SpecLoopTwoLeaders",
        leaders(steady(1), steady(0)) | leaders(steady(1), steady(0), job="again"),
    ),
    Case(
        "each of two releases has its leader",
        "SpecLoopTwoLeaders",
        leaders(steady(1)) | {'specloop_leader{namespace="other",pod="0",job="specloop"}': steady(1)},
    ),
    Case("the lease was taken over", "SpecLoopTwoLeaders", leaders("1x28 stale", "0x26 1x99")),
    Case("for 4 minutes", "SpecLoopTwoLeaders", leaders(steady(1), "0x26 1x99"), pending=True),
    Case("no operator", "SpecLoopTwoLeaders", {}),
)

CASES = (
    *TARGET_NOT_SCRAPED,
    *METRICS_UNAVAILABLE,
    *DEGRADED,
    *NOT_READY,
    *ROLLOUT_STUCK,
    *OPERATOR_DOWN,
    *NO_LEADER,
    *TWO_LEADERS,
)
