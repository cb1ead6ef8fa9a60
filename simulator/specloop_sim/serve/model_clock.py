"""The model's clock: it shows the wall's time at `epoch` and runs `speed` times as fast from there."""

import time


class ModelClock:
    """Several servers, and the controller that watches them, agree on the time when epoch and speed are the same."""

    __slots__ = ("_epoch", "speed")

    def __init__(self, epoch: float, speed: float) -> None:
        self._epoch = epoch
        self.speed = speed

    def now(self) -> float:
        """Seconds since 1970, the model's."""
        return self.at(time.time())

    def at(self, wall: float) -> float:
        """The model's time at a moment of the wall's."""
        return self._epoch + (wall - self._epoch) * self.speed

    def wall_seconds(self, model_seconds: float) -> float:
        """How long a stretch of the model's time takes."""
        return model_seconds / self.speed
