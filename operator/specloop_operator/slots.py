"""Roll-outs under way in the whole cluster, and whether one more may begin."""

from collections.abc import Iterable

Name = tuple[str, str]


class Slots:
    """As many places as roll-outs may be under way at a time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: set[Name] = set()

    @property
    def taken(self) -> int:
        """How many roll-outs are under way."""
        return len(self._taken)

    def free(self, policy: Name) -> bool:
        """Whether a policy may begin one."""
        return policy in self._taken or len(self._taken) < self._limit

    def note(self, policy: Name, *, under_way: bool) -> None:
        """Whether a policy has a roll-out under way; one that began under another operator counts too."""
        if under_way:
            self._taken.add(policy)
        else:
            self._taken.discard(policy)

    def fill(self, policies: Iterable[Name]) -> None:
        """Take note of all that are under way at the start."""
        self._taken.update(policies)
