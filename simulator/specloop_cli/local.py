"""`specloop local`: the loop round one engine on this machine, told on stderr line by line."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specloop_cli.errors import InputError
from specloop_cli.output import Format, print_document
from specloop_cli.policy_file import load_policy
from specloop_control.local import LocalError, prepare, run_local
from specloop_control.process import Output
from specloop_policy.decision import ActionName, Decision
from specloop_policy.model import SpecPolicySpec, TargetRef
from specloop_policy.observation import Outcome
from specloop_policy.policy import PolicyError


def run(
    policy_file: str | None,
    command: Sequence[str],
    *,
    recommend: bool,
    drain_seconds: float,
    start_seconds: float,
    output: Format,
) -> int:
    """Run the engine under the policy; its exit code."""
    name, spec = _policy(policy_file)
    try:
        setup = prepare(name, spec, list(command), os.environ, recommend=recommend)
    except (LocalError, PolicyError) as error:
        raise InputError(str(error)) from error
    if shutil.which(command[0]) is None:
        raise InputError(f"{command[0]}: there is no such program, or it may not be run: install it, or give its path")
    teller = _Teller(recommend)
    teller.say(f"ladder {', '.join(setup.policy.ladder.names())}; running {setup.level.name}; watching {setup.url}")
    if setup.cut_from is not None:
        does = "would be cut" if recommend else "is cut"
        teller.say(f"K = {setup.cut_from} {does} to {setup.level.tokens}, the largest that a ladder has")
    for one in setup.refused:
        teller.say(f"level {one.level} is left out: {one.reason}")
    try:
        engine_output = Output.STDERR if output is Format.JSON else Output.SAME
        code = asyncio.run(
            run_local(setup, teller, drain_seconds=drain_seconds, start_seconds=start_seconds, output=engine_output)
        )
    except LocalError as error:
        raise InputError(str(error)) from error
    if output is Format.JSON:
        print_document({"exitCode": code, "decisions": teller.changes})
    return code


def _policy(policy_file: str | None) -> tuple[str, SpecPolicySpec]:
    if policy_file is not None:
        document = load_policy(policy_file)
        return document.metadata.name, document.spec
    target = TargetRef(api_version="v1", kind="Process", name="local")
    return "default", SpecPolicySpec(target_ref=target)


@dataclass(slots=True)
class _Teller:
    """Prints a line for every change, and for every new reason to hold."""

    recommend: bool
    started: float = field(default_factory=time.time)
    changes: list[dict[str, Any]] = field(default_factory=list)
    told: tuple[object, ...] = ()

    def decided(self, now: float, decision: Decision, before: str | None) -> None:
        """Tell what is new."""
        outcome = decision.reason.partition(":")[0]
        topic = outcome if outcome in set(Outcome) else None
        news = (decision.action, decision.level, decision.rule, topic)
        if news == self.told and (self.recommend or not decision.changes_level):
            return  # the same with other figures is no news
        self.told = news
        if not decision.changes_level:
            self.say(f"{decision.action} {decision.level or ''}: {decision.reason}")
            return
        would = "would " if self.recommend else ""
        self.say(f"{would}{decision.action} {before} → {decision.level}: {decision.reason}")
        self.changes.append(
            {
                "seconds": round(now - self.started, 1),
                "from": before,
                "to": decision.level,
                "action": ActionName(decision.action),
                "rule": decision.rule,
                "reason": decision.reason,
            }
        )

    def reached(self, words: str) -> None:
        """Tell how a level is reached."""
        self.say(words)

    def ended(self, why: str) -> None:
        """Tell that the engine is gone."""
        self.say(why)

    def say(self, text: str) -> None:
        """One line on stderr, where the engine's own log is not mistaken for it."""
        sys.stderr.write(f"specloop {time.strftime('%H:%M:%S')} {text}\n")
        sys.stderr.flush()
