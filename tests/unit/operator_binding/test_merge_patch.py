"""The merge patch that a status is written with (RFC 7396)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from specloop_operator.cluster import merged

LEAVES = st.integers() | st.text(max_size=3) | st.lists(st.none() | st.integers(), max_size=2)
# In a merge patch a null takes a member away, so that no document that it makes has one outside a list.  Python holds
# True for 1, which a status that the API server has accepted never stands beside.
DOCUMENTS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), LEAVES, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), LEAVES | inner, max_size=3),
    max_leaves=8,
)


def merge_patch(target: Any, patch: Any) -> Any:
    """MergePatch as the pseudocode of RFC 7396, section 2, has it."""
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merge_patch(made.get(name), value)
    return made


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_makes_one_document_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Whatever is in either."""
    assert merge_patch(old, merged(old, new)) == new


@given(DOCUMENTS)
def test_a_patch_of_nothing_new_is_empty(document: dict[str, Any]) -> None:
    """Else it would be a write for nothing."""
    assert merged(document, document) == {}


def test_what_is_gone_is_said_to_be_null() -> None:
    """The example of RFC 7396, section 3, and what this is for: the end of a roll-out."""
    old = {"memory": {"level": "k5", "rollout": {"level": "k3"}}, "decisions": [1]}
    new = {"memory": {"level": "k5"}, "decisions": [1, 2]}
    assert merged(old, new) == {"memory": {"rollout": None}, "decisions": [1, 2]}
