"""Which policy a user means, and what keeps the operator from doing what is asked."""

import re

import pytest

from specloop_cli.errors import InputError
from specloop_cli.live_policy import LivePolicy, find, hindrances, suspended_by
from specloop_policy.annotations import SUSPEND
from tests.support.live_policies import condition, live, rollout, status

CHAT, CODE = live("chat-70b", "Deployment/llama-70b"), live("code", "StatefulSet/coder")


@pytest.mark.parametrize(
    "target",
    [
        "chat-70b",
        "deployment/llama-70b",
        "Deployment/llama-70b",
        "deployments/llama-70b",
        "deploy/llama-70b",
        "deployment.apps/llama-70b",
        "specpolicy/chat-70b",
        "specpol/chat-70b",
        "specpolicies/chat-70b",
        "specpolicy.specloop.dev/chat-70b",
    ],
)
def test_a_policy_is_named_as_kubectl_would(target: str) -> None:
    """By its own name or its workload's, with whatever kubectl takes or prints for the kind."""
    assert find([CODE, CHAT], target, "llm") is CHAT


@pytest.mark.parametrize("target", ["sts/coder", "statefulset/coder", "statefulsets.apps/coder"])
def test_stateful_sets_have_a_short_name_too(target: str) -> None:
    """kubectl api-resources: sts."""
    assert find([CODE, CHAT], target, "llm") is CODE


def test_a_kind_of_any_other_sort_is_compared_as_it_is() -> None:
    """Custom kinds come later, and need nothing here."""
    engine = live("runtime", "VLLMRuntime/llama")
    assert find([engine], "vllmruntime/llama", "llm") is engine


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("chat", "no policy is called chat in namespace llm; there is chat-70b (Deployment/llama-70b), code (Stateful"),
        ("deploy/coder", "no policy governs deploy/coder in namespace llm; there is chat-70b"),
        ("/", "no policy is called  in namespace llm"),
    ],
)
def test_an_unknown_target_is_refused_with_what_there_is(target: str, words: str) -> None:
    """So that the user need not look it up."""
    with pytest.raises(InputError, match=re.escape(" ".join(words.split()))):
        find([CHAT, CODE], target, "llm")


def test_where_there_is_nothing_it_says_so() -> None:
    """An empty list is no help."""
    with pytest.raises(InputError, match=r"in namespace llm; there is none$"):
        find([], "chat-70b", "llm")


def test_many_policies_are_counted() -> None:
    """Ten of twelve are named; two are left."""
    with pytest.raises(InputError, match=r"and 2 more$"):
        find([live(f"p{number}") for number in range(12)], "chat-70b", "llm")


def test_of_two_policies_on_one_target_the_one_that_governs_is_meant() -> None:
    """The other one is Conflicted."""
    loser = live("younger", "Deployment/llama-70b", status(condition("Conflicted", "True")))
    assert find([loser, CHAT], "deploy/llama-70b", "llm") is CHAT
    assert find([loser, CHAT], "younger", "llm") is loser


def test_two_policies_of_which_none_is_known_to_govern_must_be_named() -> None:
    """Before the operator has said which."""
    with pytest.raises(InputError, match="several policies govern it: name one of younger, chat-70b"):
        find([live("younger"), CHAT], "deploy/llama-70b", "llm")


def test_a_policy_that_enforces_and_governs_is_not_hindered() -> None:
    """Nothing to say then."""
    assert hindrances(live(status=status(condition("Conflicted", "False"), condition("Suspended", "False")))) == []


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (live(mode="Recommend"), "its mode is Recommend"),
        (live(suspend=True), "it is suspended by spec.suspend"),
        (live(annotations={SUSPEND: "true"}), "it is suspended by the annotation specloop.dev/suspend"),
        (live(annotations={SUSPEND: "maybe"}), 'suspended by annotation specloop.dev/suspend: "maybe" is neither'),
        (live(status=status(condition("Suspended", "True", message="alert X"))), "it is suspended by alert X"),
        (live(status=status(condition("Conflicted", "True"))), "another policy governs the same target"),
    ],
)
def test_what_hinders_is_named(policy: LivePolicy, words: str) -> None:
    """A user who asks for a level should not wait in vain."""
    found = hindrances(policy)
    assert len(found) == 1
    assert words in found[0]


def test_spec_and_annotation_may_both_suspend() -> None:
    """Taking one back is not enough then."""
    assert len(suspended_by(live(suspend=True, annotations={SUSPEND: "true"}))) == 2


def test_fields_of_a_newer_release_do_no_harm() -> None:
    """Wherever they are."""
    memory = {"rollout": rollout("Soaking", verdicts=[{"metric": "tpot"}]), "novelty": 1}
    found = live(status=status(memory=memory, novelty=2), novelty=3).memory.rollout
    assert found is not None
    assert found.phase == "Soaking"
