"""The engine model: continuous batching of requests with speculative decoding, on a clock of its own.

What a step is.  At the start of each step requests that have arrived are admitted in order, while there are places
(`max_num_seqs`) and KV cache.  A step takes on prompt tokens up to a limit, first come first served (chunked
prefill); the step that completes a prompt yields its first token.  Every other running request decodes: it drafts, a
random prefix of the drafts is accepted, and it yields that and one token more.  The time of a step follows from all
that is in it (`StepTimer`).

How it is computed.  A request's course through its decode steps depends on its own luck alone (course.py), so it is
laid into the timeline when the request is admitted, and whole runs of steps are then timed at once.  The result is
that of the loop over steps, whatever the slices in which `advance` is called.

Prefix caching, where asked for, saves a share of each prompt.  The share grows from nothing to its full size while
the engine takes in as many prompt tokens as its KV cache holds: a cache that was just filled once is warm.

What is left out.  Preemption: a request is admitted once the KV cache has room for it to its end beside all that
runs, which a real engine cannot foresee.  The few tokens of KV that drafts take.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Protocol

import numpy as np

from specloop_engine.sample import Dialect, Sample
from specloop_policy.ladder import DISABLED, LOOKUP_METHODS, Level
from specloop_sim.counters import Counters
from specloop_sim.course import Course, Drafting, course_of, courses_of
from specloop_sim.courses import Courses
from specloop_sim.profile import Profile
from specloop_sim.request import Finish, Finished, Request
from specloop_sim.timeline import Array, Timeline

LONGEST_RUN = 1024
"""Steps timed at once, at most."""
BATCH = 64
"""Courses worked out at once, at most; their numbers, some 10,000, still fit into a core's nearest cache."""


class Refused(ValueError):
    """The engine does not take this request, and will not the next time."""


class TooLong(Refused):
    """Prompt and answer are longer than the engine's longest."""


class Draining(Refused):
    """The engine is shutting down."""


class Watcher(Protocol):
    """Sees what a metrics page counts beyond `Sample`."""

    def first_token(self, request: Request, seconds: float) -> None:
        """A prompt is computed; its first token came `seconds` after the request."""

    def finished(self, finished: Finished) -> None:
        """A request is over."""

    def steps(self, seconds: Array, tokens: Array, decoding: Array) -> None:
        """Steps are over: how long each took, tokens of answers and completed prompts, requests decoded."""


@dataclass(slots=True, eq=False)
class _Running:
    """A request in the batch: the steps that it takes part in, and how far it has been counted."""

    request: Request
    place: int
    """Number of its admission."""
    admitted: float
    prefill_start: int
    decode_start: int
    """The first step of `course`."""
    end: int
    """The step after its last one."""
    chunks: list[int]
    """Prompt tokens in each of the steps from `prefill_start` on."""
    course: Course
    first_token: float | None = None
    earlier: int = 0
    """Decode steps before those of `course`: K was another one then."""
    counted: int = 0
    """Steps of `course` whose drafts and tokens are in the counters."""
    over: bool = False

    def decoded(self, step: int) -> int:
        """Steps of `course` that are over when `step` is next."""
        return min(max(0, step - self.decode_start), len(self.course))


class EngineModel:
    """One engine process with one level; it begins at `now`, ready, and computes only when told to `advance`.

    `seed` and a request's id decide that request's luck.  `clustering` False gives all requests the same acceptance.
    `prefix_share` (0 to 1) is the share of a prompt that a warm prefix cache holds.  Engines that are given the same
    `courses` work each of them out once.  `speed` 0.5 makes every step twice as long; `acceptance_factor` is on every
    draft's chance to be accepted.
    """

    def __init__(
        self,
        profile: Profile,
        level: Level = DISABLED,
        *,
        seed: int = 0,
        now: float = 0.0,
        clustering: bool = True,
        probabilistic: bool = False,
        max_num_seqs: int | None = None,
        max_model_len: int | None = None,
        prefix_share: float = 0.0,
        speed: float = 1.0,
        acceptance_factor: float = 1.0,
        watcher: Watcher | None = None,
        courses: Courses | None = None,
    ) -> None:
        self.profile = profile
        self.level = level
        """What it was started with; `tokens` is the K in use."""
        self.started = now
        self.counters = Counters(level.tokens)
        self.kv_tokens = profile.kv_tokens(level)
        self.max_num_seqs = max_num_seqs or profile.max_num_seqs
        self.max_model_len = min(max_model_len or profile.max_model_len, self.kv_tokens)
        self._drafting = Drafting(level, seed, clustering, probabilistic, acceptance_factor)
        self._courses = courses
        self._courses_of = self._source()
        self._per_step = _per_step(level.tokens)
        self._timer = profile.timer(level)
        self._slowness = 1.0 / speed
        self._watcher = watcher
        self._clock = now
        """End of the last step; the start of the one in progress when anything runs."""
        self._step = 0
        """Steps that are over."""
        self._timeline = Timeline()
        self._prefill = (0, 0)
        """The step up to which prompts have been laid out, and the prompt tokens already in it."""
        self._queue: list[tuple[float, int, Request]] = []
        self._unseen: list[tuple[float, int, Request]] = []
        """Of the queue: those whose arrival no metrics page has counted."""
        self._ids: set[str] = set()
        """Of the requests that wait or run."""
        self._submitted = 0
        self._admitted = 0
        self._ready: dict[str, Course] = {}
        """Courses of requests that wait, worked out for many at once."""
        self._running: dict[str, _Running] = {}
        self._lookup = level.drafter is not None and level.drafter.method in LOOKUP_METHODS
        self._pace = 1.0
        """Seconds of the last step."""
        self._promised = 0
        """Tokens that the running requests will hold at their ends."""
        self._planned = 0
        """The step after the last one that has anything in it."""
        self._firsts: list[tuple[int, int, _Running]] = []
        """Steps in which first tokens come out."""
        self._lasts: list[tuple[int, int, _Running]] = []
        """Steps in which requests end."""
        self._finished: deque[Finished] = deque()
        self._draining = False
        self._prefix_share = prefix_share
        self._prompts = 0
        """Prompt tokens taken in."""
        self._generation: int | None = None
        """Changes of K so far; None: there was none."""

    @property
    def tokens(self) -> int:
        """K in use."""
        return self._drafting.level.tokens

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self._running and not self._queue

    def submit(self, request: Request) -> None:
        """Take a request, which joins the queue at its arrival; raises Refused."""
        if self._draining:
            raise Draining("the engine is shutting down")
        if request.total_tokens > self.max_model_len:
            raise TooLong(
                f"the request needs {request.total_tokens} tokens ({request.prompt_tokens} in the prompt), "
                f"and the longest that this engine takes is {self.max_model_len}"
            )
        if request.output_tokens < 1 or request.prompt_tokens < 0:
            raise Refused(f"{request.prompt_tokens} tokens in and {request.output_tokens} out are no request")
        if request.id in self._ids:
            raise Refused(f"a request with the id {request.id} is under way already")
        self._ids.add(request.id)
        self._submitted += 1
        entry = (request.arrival, self._submitted, request)
        heappush(self._queue, entry)
        heappush(self._unseen, entry)

    def advance(self, until: float) -> None:
        """Run every step that ends by `until`."""
        self._admit()  # what has been submitted late
        while self._turn(until):
            pass

    def finished(self) -> list[Finished]:
        """Requests that have ended since this was last asked, in order."""
        drained = list(self._finished)
        self._finished.clear()
        return drained

    def emitted(self, request_id: str) -> int:
        """Tokens of a running request that are out; 0 while it waits and when it is over."""
        running = self._running.get(request_id)
        if running is None or running.first_token is None:
            return 0
        return int(running.course.emitted[running.decoded(self._step)])

    def drain(self) -> None:
        """Take no more requests; those that are here run to their end as `advance` is called."""
        self._draining = True

    def stop(self) -> list[Finished]:
        """End at once: everything here is lost, and returned as aborted."""
        self._draining = True
        for running in list(self._running.values()):
            self._abort(running)
        for _, _, request in sorted(self._queue):
            self._close(self._never_ran(request))
        self._queue.clear()
        self._unseen.clear()
        self._ready.clear()
        return self.finished()

    def set_tokens(self, tokens: int) -> None:
        """Draft `tokens` at a time from the step in progress on, without a restart; at most the level's own K.

        With K = 0 the drafter stays, with its memory and one pass of it a step (vLLM 0.32.0 runs it for nothing).
        Raises ValueError for a K that the engine was not started for.
        """
        if not (self.level.speculates and 0 <= tokens <= self.level.tokens):
            raise ValueError(f"K = {tokens} is not within what the engine was started with, {self.level.tokens}")
        self._generation = (self._generation or 0) + 1
        for running in self._running.values():
            self._count(running, self._step)
            self._add_decoding(running, max(self._step, running.decode_start), -1)
        self.counters.change_tokens(tokens)
        self._drafting = replace(self._drafting, level=replace(self.level, tokens=tokens))
        self._courses_of = self._source()
        self._per_step = _per_step(tokens)
        self._timer = self.profile.timer(self._drafting.level)
        self._ready.clear()
        for running in self._running.values():
            self._continue(running)
        self._planned = max((running.end for running in self._running.values()), default=self._step)
        self._lasts = [(running.end - 1, running.place, running) for running in self._running.values()]
        heapify(self._lasts)

    def cancel(self, request_id: str) -> None:
        """End one request, as when its client has gone; unknown ones are ignored."""
        running = self._running.get(request_id)
        if running is not None:
            self._abort(running)
            return
        for entry in [entry for entry in self._queue if entry[2].id == request_id]:
            self._queue.remove(entry)
            heapify(self._queue)
            self._unseen = [one for one in self._unseen if one != entry]
            heapify(self._unseen)
            self._ready.pop(request_id, None)
            self._close(self._never_ran(entry[2]))

    def running(self) -> int:
        """Requests in the batch."""
        return len(self._running)

    def waiting(self, at: float) -> int:
        """Requests that have arrived by `at` and are not in the batch."""
        while self._unseen and self._unseen[0][0] <= max(at, self._clock):
            self.counters.count_arrival(heappop(self._unseen)[2])
        return len(self._queue) - len(self._unseen)

    def kv_used(self) -> float:
        """Share of the KV cache in use, 0 to 1."""
        if not self._running:
            return 0.0
        return float(self._timeline.context(self._step, self._step + 1)[0]) / self.kv_tokens

    def sample(self, at: float) -> Sample:
        """What its metrics page says at `at`, up to which it is run."""
        self.advance(at)
        waiting = self.waiting(at)
        for running in self._running.values():
            self._count(running, self._step)
        counters = self.counters
        return Sample(
            at=at,
            dialect=Dialect.VLLM_V1,
            process_start=self.started,
            drafting=counters.drafting() if self.level.speculates else None,
            tokens=self.tokens,
            generation=self._generation,
            generation_tokens=float(counters.generation_tokens),
            prompt_tokens=float(counters.prompt_tokens),
            finished_requests=float(counters.finished[Finish.STOP] + counters.finished[Finish.LENGTH]),
            one_token_requests=float(counters.one_token_requests),
            length_requests=float(counters.finished[Finish.LENGTH]),
            first_tokens=float(counters.first_tokens),
            engine_steps=float(counters.steps),
            running=float(len(self._running)),
            waiting=float(waiting),
            kv_cache_percent=100.0 * self.kv_used(),
            temperatures=counters.temperatures(),
        )

    def _admit(self) -> None:
        while self._queue and self._queue[0][0] <= self._clock and len(self._running) < self.max_num_seqs:
            if not self._lay_out(self._queue[0][2]):
                return
            del self._ready[heappop(self._queue)[2].id]

    def _lay_out(self, request: Request) -> bool:
        """Lay a request into the timeline from the next step on; False when the KV cache has no room for it."""
        course = self._course(request)
        start, chunks = self._prompt_steps(request.prompt_tokens - self._cached(request))
        decode_start = start + len(chunks)
        end = decode_start + len(course)
        running = _Running(request, self._admitted + 1, self._clock, start, decode_start, end, chunks, course)
        self._timeline.make_room(self._step, running.end)
        if self._promised + request.total_tokens > self.kv_tokens and not self._fits(running):
            return False
        self._add_prompt(running, start, 1)
        self._add_decoding(running, decode_start, 1)
        self._note_prompt(decode_start - 1, chunks[-1])
        self._enter(running)
        return True

    def _fits(self, running: _Running) -> bool:
        """Whether the KV cache holds a request beside all that runs, in every step to its end."""
        held = self._timeline.context(running.prefill_start, running.end) + running.request.prompt_tokens
        held[running.decode_start - running.prefill_start :] += running.course.emitted[:-1]
        return bool(held.max() <= self.kv_tokens)

    def _source(self) -> Callable[[Sequence[Request]], list[Course]]:
        """Where courses from the first token on come from."""
        if self._courses is not None:
            return self._courses.of(self._drafting)
        return partial(courses_of, drafting=self._drafting)

    def _course(self, request: Request) -> Course:
        """The course of the request at the head of the queue; those behind it are worked out with it."""
        if request.id not in self._ready:
            waiting = [one for _, _, one in self._queue[:BATCH] if one.id not in self._ready]
            courses = self._courses_of(waiting)
            self._ready.update((one.id, course) for one, course in zip(waiting, courses, strict=True))
        return self._ready[request.id]

    def _continue(self, running: _Running) -> None:
        """Lay the rest of a running request's course into the timeline anew, after a change of K."""
        done = running.decoded(self._step)
        running.earlier += done
        running.course = course_of(
            running.request, self._drafting, start=int(running.course.emitted[done]), step=running.earlier
        )
        running.counted = 0
        running.decode_start = max(self._step, running.decode_start)
        running.end = running.decode_start + len(running.course)
        self._timeline.make_room(self._step, running.end)
        self._add_decoding(running, running.decode_start, 1)

    def _cached(self, request: Request) -> int:
        """Prompt tokens that the prefix cache holds; the last token is computed always, for it yields the first one."""
        if self._prefix_share <= 0.0:
            return 0
        warm = min(1.0, self._prompts / self.kv_tokens)
        return max(0, min(request.prompt_tokens - 1, int(self._prefix_share * warm * request.prompt_tokens)))

    def _prompt_steps(self, prompt_tokens: int) -> tuple[int, list[int]]:
        """The first step with room for prompt tokens, and how many the prompt takes of each step from there."""
        room = self.profile.prefill_tokens_per_step
        start, used = self._prefill if self._prefill[0] >= self._step else (self._step, 0)
        if used == room:
            start, used = start + 1, 0
        if prompt_tokens <= room - used:
            return start, [prompt_tokens]
        whole, rest = divmod(prompt_tokens - (room - used), room)
        return start, [room - used, *[room] * whole, *([rest] if rest else [])]

    def _note_prompt(self, step: int, tokens: int) -> None:
        used = self._prefill[1] if self._prefill[0] == step else 0
        self._prefill = (step, used + tokens)

    def _enter(self, running: _Running) -> None:
        self._admitted += 1
        self._prompts += running.request.prompt_tokens
        self._running[running.request.id] = running
        self._promised += running.request.total_tokens
        self._planned = max(self._planned, running.end)
        heappush(self._firsts, (running.decode_start - 1, running.place, running))
        heappush(self._lasts, (running.end - 1, running.place, running))

    def _add_prompt(self, running: _Running, start: int, sign: int) -> None:
        """Add (or with sign -1 take out) the steps of a request's prompt from step `start` on."""
        prompt = running.request.prompt_tokens
        for step, tokens in enumerate(running.chunks[start - running.prefill_start :], start):
            last = step == running.decode_start - 1
            self._timeline.add_prompt(step, sign * prompt, sign * tokens, sign * (prompt + 1) if last else 0)

    def _add_decoding(self, running: _Running, start: int, sign: int) -> None:
        """Add (or with sign -1 take out) a request's decode steps from step `start` on."""
        rows = self._timeline.rows(start, running.end)
        done = start - running.decode_start
        add = np.add if sign > 0 else np.subtract
        add(rows[0], running.course.emitted[done:-1] + running.request.prompt_tokens, out=rows[0])
        if self._lookup and running.course.rejected is not None:
            add(rows[1], 1, out=rows[1])
            drafted = running.course.rejected[done:] <= self.tokens
            add(rows[2], np.where(drafted, 1 + self.tokens, 1), out=rows[2])
        else:
            add(rows[1:3], self._per_step, out=rows[1:3])
        if self._watcher is not None:
            add(rows[3], np.diff(running.course.emitted[done:]), out=rows[3])

    def _lift(self, running: _Running, start: int) -> None:
        """Take a request out of the steps from `start` on."""
        if start < running.decode_start:
            self._add_prompt(running, max(start, running.prefill_start), -1)
        if start < running.end:
            self._add_decoding(running, max(start, running.decode_start), -1)

    def _count(self, running: _Running, step: int) -> None:
        """Bring the counters up to `step` for one request."""
        done = running.decoded(step)
        if done > running.counted:
            self.counters.count_steps(running.course, running.counted, done)
            running.counted = done

    def _turn(self, until: float) -> bool:
        """Run up to the next moment when requests may be admitted, and admit them; False when at `until`."""
        if not self._running:
            if not self._queue or self._queue[0][0] > until:
                return False
            self._clock = max(self._clock, self._queue[0][0])
            more = True
        elif self._queue and self._queue[0][0] <= self._clock:
            # The head of the queue found no room, and only the end of a request makes some.
            more = self._run(self._lasts[0][0] + 1, until, None)
        else:
            more = self._run(self._planned, until, self._queue[0][0] if self._queue else None)
        self._admit()
        return more

    def _run(self, last: int, until: float, arrival: float | None) -> bool:
        """Run steps before step `last` while they end by `until`, up to the first that ends at or after `arrival`.

        False when it knows that the next step ends after `until`.
        """
        first = self._step
        last = min(last, self._planned, first + self._steps_to(until if arrival is None else min(until, arrival)))
        seconds = self._timer.seconds(self._timeline.rows(first, last))
        if self._slowness != 1.0:
            seconds *= self._slowness
        ends = seconds.copy()
        ends[0] += self._clock  # then summed one by one, so that the slices make no difference to the last bit
        np.add.accumulate(ends, out=ends)
        in_time = int(ends.searchsorted(until, side="right"))
        count = in_time if arrival is None else min(in_time, int(ends.searchsorted(arrival)) + 1)
        if count:
            self._pass(seconds[:count], ends[:count])
        return count < in_time or in_time == len(ends)

    def _steps_to(self, moment: float) -> int:
        """A guess, rather too high, at how many steps it is from now to a moment."""
        return int(min(LONGEST_RUN, 4.0 + 1.2 * max(0.0, moment - self._clock) / self._pace))

    def _pass(self, seconds: Array, ends: Array) -> None:
        """These steps are over."""
        first, after = self._step, self._step + len(ends)
        start, self._clock, self._step = self._clock, float(ends[-1]), after
        self._pace = float(seconds[-1])
        self.counters.steps += len(ends)
        self.counters.busy_seconds += self._clock - start
        if self._watcher is not None:
            self._watcher.steps(seconds, self._timeline.yielded(first, after), self._timeline.decoding(first, after))
        while self._firsts and self._firsts[0][0] < after:
            step, _, running = heappop(self._firsts)
            if not running.over:
                self._first_token(running, float(ends[step - first]))
        while self._lasts and self._lasts[0][0] < after:
            step, _, running = heappop(self._lasts)
            if not running.over:
                self._finish(running, float(ends[step - first]))

    def _first_token(self, running: _Running, moment: float) -> None:
        running.first_token = moment
        self.counters.count_first_token(running.request)
        if self._watcher is not None:
            self._watcher.first_token(running.request, moment - running.request.arrival)

    def _finish(self, running: _Running, moment: float) -> None:
        request = running.request
        self._count(running, running.end)
        self._leave(running)
        self._close(
            Finished(request, running.admitted, running.first_token, moment, request.output_tokens, request.finish)
        )

    def _abort(self, running: _Running) -> None:
        """Take a request out of all steps after the one in progress."""
        self._count(running, self._step)
        tokens = self.emitted(running.request.id)
        self._leave(running)
        if self._running:
            # The step in progress is as long as it was when it began, and the other prompts stay where they are.
            self._lift(running, self._step + 1)
        else:
            self._lift(running, self._step)
            self._prefill = (0, 0)
        self._planned = max((other.end for other in self._running.values()), default=self._step)
        self._close(Finished(running.request, running.admitted, running.first_token, self._clock, tokens, Finish.ABORT))

    def _never_ran(self, request: Request) -> Finished:
        return Finished(request, None, None, max(self._clock, request.arrival), 0, Finish.ABORT)

    def _leave(self, running: _Running) -> None:
        running.over = True
        self._promised -= running.request.total_tokens
        del self._running[running.request.id]

    def _close(self, finished: Finished) -> None:
        self._ids.remove(finished.request.id)
        self.counters.count_end(finished)
        self._finished.append(finished)
        if self._watcher is not None:
            self._watcher.finished(finished)


def _per_step(tokens: int) -> Array:
    """What a request that drafts at every step adds to one: itself, and the tokens computed for it."""
    return np.array([[1.0], [1.0 + tokens]])
