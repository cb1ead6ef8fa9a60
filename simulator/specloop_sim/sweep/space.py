"""The combinations of values that a sweep may try."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from specloop_sim.sweep.fields import Value, VaryError, Where
from specloop_sim.sweep.values import Parameter

Choice = tuple[int, ...]
"""For each parameter the place of its value."""
Values = tuple[Value | None, ...]
"""For each parameter its value; None where the policy as it is leaves the field out."""


@dataclass(frozen=True, slots=True)
class Space:
    """Parameters, each field once."""

    parameters: tuple[Parameter, ...]

    def __post_init__(self) -> None:
        """Raise VaryError where a field is named twice, or none at all."""
        if not self.parameters:
            raise VaryError("there is nothing to vary: the policy has no limits or durations; name a field with --vary")
        paths = self.paths
        for path in paths:
            if paths.count(path) > 1:
                raise VaryError(f"{path} is varied twice; write all of its values into one --vary")

    @property
    def paths(self) -> tuple[str, ...]:
        """The parameters' names."""
        return tuple(one.field.path for one in self.parameters)

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return prod(len(one.values) for one in self.parameters)

    @property
    def given(self) -> Values:
        """The policy as it is."""
        return tuple(one.field.given for one in self.parameters)

    def values(self, choice: Choice) -> Values:
        """The values at some places."""
        return tuple(one.values[place] for one, place in zip(self.parameters, choice, strict=True))

    def choice(self, number: int) -> Choice:
        """The combination with this number; the last parameter changes fastest."""
        places: list[int] = []
        for one in reversed(self.parameters):
            number, place = divmod(number, len(one.values))
            places.append(place)
        return tuple(reversed(places))

    def choices(self) -> Iterator[Choice]:
        """All combinations."""
        return map(self.choice, range(self.size))

    def settings(self, values: Values) -> Mapping[Where, Value]:
        """What a combination changes in the policy."""
        pairs = zip(self.parameters, values, strict=True)
        return {one.field.where: value for one, value in pairs if value is not None and value != one.field.given}

    def named(self, values: Values) -> dict[str, Value | None]:
        """Values by the paths of their fields."""
        return dict(zip(self.paths, values, strict=True))

    def departures(self, values: Values) -> int:
        """In how many parameters a combination differs from the policy as it is."""
        return sum(one != given for one, given in zip(values, self.given, strict=True))
