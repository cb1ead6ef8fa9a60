"""The simulated engine's K by number of requests: the real plugin's side of the engine core, round the engine model."""

from pathlib import Path

from specloop_engine.configuration import TABLE
from specloop_sim.engine import EngineModel
from specloop_vllm.exchange import Profile
from specloop_vllm.steering import Steering, say_refused
from specloop_vllm.tables import Table, lookup


class LiveTokens:
    """Keeps an engine at the K that its table, or whoever controls it, asks for."""

    def __init__(self, engine: EngineModel, start: tuple[int, ...], steering: Steering | None) -> None:
        """`start` is the lookup that the engine was started with."""
        self._engine = engine
        self._steering = steering
        self._lookup = start
        self._take_wish()

    def between_steps(self) -> None:
        """Take up what is new; called while the engine has work, as a scheduler is."""
        self._take_wish()
        tokens = self._lookup[max(1, self._engine.running())]
        if tokens != self._engine.tokens:
            self._engine.set_tokens(tokens)

    def _take_wish(self) -> None:
        if self._steering is not None and (found := self._steering.look()) is not None:
            self._lookup = tuple(found)


def live_tokens(
    engine: EngineModel, version: str, table: Table, folder: str | None, *, controlled: bool
) -> LiveTokens | None:
    """Of an engine that was started so; None where its K never changes."""
    level, steering = engine.level, None
    start = lookup(table, engine.max_num_seqs + 1, level.tokens).tokens if table else ()
    if controlled and folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        if level.drafter is None:
            say_refused(Path(folder), "the engine was started without speculation")
        elif not table:
            words = f"the engine was started without a table: give {TABLE} in --speculative-config"
            say_refused(Path(folder), words)
        else:
            profile = Profile(version, level.drafter.method, level.drafter.model, level.tokens, engine.max_num_seqs)
            steering = Steering(Path(folder), profile, start, lambda words: None)
    if level.drafter is None or not table:
        return None
    return LiveTokens(engine, start, steering)
