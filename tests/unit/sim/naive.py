"""The engine as a plain loop over steps: slow, and simple enough to be seen to be right."""

from collections.abc import Iterable
from dataclasses import dataclass

from specloop_policy.cost import LineStepTimes
from specloop_policy.ladder import Level
from specloop_sim.course import Course, Drafting, course_of
from specloop_sim.profile import Profile
from specloop_sim.request import Request


@dataclass
class Job:
    """A running request."""

    request: Request
    course: Course
    order: int
    prompt_left: int
    emitted: int = 0
    steps: int = 0
    first_token: float = 0.0

    @property
    def decoding(self) -> bool:
        return self.emitted > 0

    def tokens(self, level: Level) -> int:
        drafted = self.course.rejected is not None and self.course.rejected[self.steps] <= level.tokens
        return 1 + (level.tokens if drafted else 0)


@dataclass(frozen=True)
class Outcome:
    first_token: float
    end: float


def run(profile: Profile, drafting: Drafting, requests: Iterable[Request], max_num_seqs: int) -> dict[str, Outcome]:
    """First and last token of every request; the KV cache is taken to be large enough."""
    waiting = sorted(requests, key=lambda request: request.arrival)
    clock, jobs, outcomes = 0.0, list[Job](), dict[str, Outcome]()
    while waiting or jobs:
        if not jobs:
            clock = max(clock, waiting[0].arrival)
        while waiting and waiting[0].arrival <= clock and len(jobs) < max_num_seqs:
            request = waiting.pop(0)
            jobs.append(Job(request, course_of(request, drafting), len(jobs), request.prompt_tokens))
        clock += step(profile, drafting.level, jobs)
        for job in [job for job in jobs if job.emitted >= job.request.output_tokens]:
            job.first_token = job.first_token or clock
            outcomes[job.request.id] = Outcome(job.first_token, clock)
            jobs.remove(job)
        for job in jobs:
            if job.emitted and not job.first_token:
                job.first_token = clock
    return outcomes


def step(profile: Profile, level: Level, jobs: list[Job]) -> float:
    """Move every job on by one step; its seconds."""
    context = tokens = decoding = 0
    room = profile.prefill_tokens_per_step
    for job in jobs:
        if job.decoding:
            context += job.request.prompt_tokens + job.emitted
            tokens += job.tokens(level)
            decoding += 1
            job.steps += 1
            job.emitted = int(job.course.emitted[job.steps])
        elif room:
            context += job.request.prompt_tokens
            taken = min(room, job.prompt_left)
            room -= taken
            tokens += taken
            job.prompt_left -= taken
            job.emitted = 0 if job.prompt_left else 1
    return seconds(profile, level, context, decoding, tokens)


def seconds(profile: Profile, level: Level, context: float, decoding: float, tokens: float) -> float:
    """A step by the lines of the profile, written out."""
    times = profile.times
    assert isinstance(times, LineStepTimes)
    verify = times.target.seconds(context, tokens)
    if level.drafter is None:
        return verify + times.overhead_seconds
    if level.drafter.method == "ngram":
        return verify * (1.0 + times.lookup_share) + times.overhead_seconds
    line = dict(times.drafts)[level.drafter.method]
    if times.draft_passes:
        draft = level.tokens * line.seconds(context, decoding)
    else:
        draft = line.seconds(context, decoding * level.tokens)
    return verify + draft + times.overhead_seconds
