"""A soak: deeds are done to the scene, all is waited for to come to rest, and what happened is judged."""

import signal
import time
from collections import Counter
from pathlib import Path

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.operator import FORBIDDEN, START_SECONDS
from tests.support.soak_checks import excuse, growths, overlaps, swollen, tenures, unlawful, unrest
from tests.support.soak_operators import LeaseBook, Replica, lease_book
from tests.support.soak_plan import TARGETS, Deed
from tests.support.soak_scene import KINDS, Scene, scene

REST_SECONDS = 240.0
"""Within which all must be at rest: of three targets two at a time may roll out, for 60 s at most, and a level that
lost is tried again after 60 s at most."""
STEADY_SECONDS = 5.0
"""For how long it must be so: several ticks."""
EDIT_SECONDS = START_SECONDS + 15.0
"""Within which an edit must be heard of in quiet times: all operators may be starting, and the last leader's Lease be
yet to run out, which docs/operator.md says takes 12 s."""
AROUND_SECONDS = 300.0
"""For start and end of everything."""
OUR_MISTAKE = "the tick failed"
"""What the log says of a tick that ended with an exception that nobody expected."""
ENDS = (0, 1, 2, -signal.SIGKILL, -signal.SIGTERM)
"""Exit codes: asked to end; another leads; it could not list everything; and killed, or asked to end before it knew how
to."""


def soak(cluster: Cluster, folder: Path, deeds: list[Deed], *, memory: bool) -> list[str]:
    """What was wrong; `memory`: of operators' memory as well, of which a run of a few minutes says nothing."""
    rows = "\n".join(deed.row for deed in deeds)
    print(f"{len(deeds)} deeds\n     at  lasts  whom        what\n{rows}\n")
    with lease_book(cluster) as book:
        with scene(cluster, folder) as found:
            found.play(deeds)
            problems = [*heard(found), *at_rest(found), *found.forgotten]
            replicas = list(found.replicas.values())
        problems += judged(replicas, book, memory=memory)
    print(f"\nevents: {events(cluster)}")
    return problems


def at_rest(found: Scene) -> list[str]:
    """Wait until all targets are at rest for a while; why those that are not are not."""
    began = time.monotonic()
    since: float | None = None
    while True:
        found.sample()
        now, restless = time.monotonic(), [words for name in TARGETS if (words := restlessness(found, name))]
        since = None if restless else since or now
        if since is not None and now - since >= STEADY_SECONDS:
            print(f"at rest {since - began:.0f} s after the last deed:")
            print("\n".join(f"  {name}: {where(found, name)}" for name in TARGETS))
            return []
        if now - began > REST_SECONDS:
            return restless or ["rest came and went"]
        time.sleep(0.5)


def restlessness(found: Scene, name: str) -> str:
    """Why a target is not at rest; "" where it is."""
    policy, target = found.cluster.get("SpecPolicy", name), found.cluster.get(KINDS[name], name)
    return unrest(policy, target, found.levels(name))


def where(found: Scene, name: str) -> str:
    """At which level a target is at rest, or why not at the one that its policy wants."""
    status = found.cluster.get("SpecPolicy", name)["status"]
    excused = excuse({one["type"]: one for one in status["conditions"]})
    return f"{status.get('desiredLevel')}, pods at {sorted(found.levels(name).values())}{excused and f'; {excused}'}"


def heard(found: Scene) -> list[str]:
    """Edit every policy; those of which no operator takes notice, though all is quiet.

    What a status says before somebody leads again is old.
    """
    for name in TARGETS:
        found.edit(name)
    deadline = time.monotonic() + EDIT_SECONDS
    while unheard := [name for name in TARGETS if not _observed(found.cluster.get("SpecPolicy", name))]:
        if time.monotonic() > deadline:
            return [f"{name}: an edit was not heard of within {EDIT_SECONDS:.0f} s" for name in unheard]
        found.sample()
        time.sleep(0.5)
    return []


def _observed(policy: Object) -> bool:
    return bool(policy["status"].get("observedGeneration") == policy["metadata"]["generation"])


def judged(replicas: list[Replica], book: LeaseBook, *, memory: bool) -> list[str]:
    """What was wrong with operators, by what they left behind; `memory`: also by how much they held."""
    lives = [life for replica in replicas for life in replica.lives()]
    owners = {identity: replica.name for replica in replicas for identity in replica.identities()}
    writes = [write for replica in replicas for write in replica.writes()]
    led = tenures(book.history)
    grown = growths(lives, led, owners) if memory else []
    ends = Counter(life.code for life in lives)
    print(f"{len(lives)} lives, ended with {dict(ends)}; {len(led)} tenures, {len(owners)} that acted")
    print(f"{len(writes)} writes to workloads and pods: {dict(Counter(one.what for one in writes))}")
    print("\n".join(("memory:", *(f"  {one.words}" for one in grown))))
    assert led, "nobody ever led"
    assert not memory or (writes and grown), "too little happened to judge anything by"
    return [
        *overlaps(led),
        *unlawful(writes, led, lives, owners),
        *swollen(grown),
        *(words for replica in replicas for words in (*replica.stuck, *said(replica))),
        *(f"{one.operator} ended with {one.code}" for one in lives if one.code is not None and one.code not in ENDS),
    ]


def said(replica: Replica) -> list[str]:
    """What its log says and should not, each with what stands around it."""
    text = replica.log_file.read_text()
    places = ((one, text.find(one)) for one in (*FORBIDDEN, OUR_MISTAKE))
    return [
        f"{one!r} in the log of {replica.name}: {text[max(at - 500, 0) : at + 3000]}" for one, at in places if at >= 0
    ]


def events(cluster: Cluster) -> dict[str, int]:
    """How often each was said about policies and targets."""
    found: Counter[str] = Counter()
    for event in cluster.objects("Event"):
        if event["involvedObject"]["kind"] != "Pod" and event["involvedObject"]["name"] in TARGETS:
            found[event["reason"]] += (event.get("series") or {}).get("count", 1)
    return dict(found.most_common())
