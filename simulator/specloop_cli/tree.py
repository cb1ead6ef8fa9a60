"""Plain data as a tree: values looked up and replaced by their path."""

import copy
from typing import Any

from specloop_cli.yaml_file import Where


class Absent:
    """Stands for a field that is not there."""


ABSENT = Absent()


def get(data: Any, where: Where) -> Any:
    """The value at a path; ABSENT where there is none."""
    for key in where:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return data


def has_parent(data: Any, where: Where) -> bool:
    """Whether a value can be put there: a list must be long enough."""
    parent = get(data, where[:-1])
    if isinstance(parent, list):
        return isinstance(where[-1], int) and where[-1] < len(parent)
    return not where or isinstance(parent, dict)


def put(data: Any, where: Where, value: Any) -> Any:
    """The data with one value replaced; in place, but for the root."""
    if not where:
        return copy.deepcopy(value)
    parent = get(data, where[:-1])
    if isinstance(value, Absent):
        parent.pop(where[-1], None)
    else:
        parent[where[-1]] = copy.deepcopy(value)
    return data
