"""What in an answer was simulated, and from what: said wherever figures are shown."""

from collections.abc import Sequence

from specloop_cli.errors import one_line
from specloop_cli.scene import WITHOUT_DATES, Scene
from specloop_sim.contest import Entrant


def simulated(scene: Scene, entrants: Sequence[Entrant] = ()) -> tuple[str, ...]:
    """What in the answer was simulated, and from what, in sentences."""
    workload, hardware = scene.workload, scene.setup.hardware
    description = one_line(workload.description).rstrip(".")
    traffic = (
        f"Arrivals and lengths are made up by the workload {workload.name}."
        if scene.synthetic
        else f"Arrivals and lengths are those of {scene.title}."
    )
    if scene.closed_loop:
        traffic = f"{scene.concurrency} clients wait for each answer (closed loop); lengths are those of {scene.title}."
    change = f"A restart takes a replica away for {hardware.away_seconds(0):.0f} s and empties its caches"
    if scene.setup.replicas == 1:
        change += ", and with one replica nobody answers meanwhile"
    if hardware.live_seconds is not None:
        change += f"; another K of the same drafter is there after {hardware.live_seconds:.0f} s without a restart"
    knows = "does not know" if scene.known.step_times is None else "knows"
    sentences = (
        f"Engines are simulated: profile {scene.profile.name}, {replicas(scene)}.",
        traffic,
        f"Temperatures and kinds of text are those of workload {workload.name}: {description}.",
        f"{change}.",
        f"Decisions are taken by the code that runs live; the policy {knows} the profile's step times.",
    )
    if scene.dated or not any(one.schedules for one in entrants):
        return sentences
    return (*sentences, f"For schedules it begins on {WITHOUT_DATES:%A, %Y-%m-%d, %H:%M} UTC: --start says otherwise.")


def compares_by(*, closed_loop: bool) -> str:
    """The figure that contestants are compared by."""
    return "outputTokensPerSecond" if closed_loop else "meanRequestSeconds"


def compares_why(*, closed_loop: bool) -> str:
    """Why by this one."""
    if closed_loop:
        return "Clients wait for each answer before they ask again (closed loop), so compare tokens per second."
    return (
        "Requests come when they come (open loop), so tokens per second follow the arrivals: compare request seconds, "
        "TPOT and busy GPU seconds."
    )


def replicas(scene: Scene) -> str:
    """The fleet's size in words."""
    count = scene.setup.replicas
    return "1 replica" if count == 1 else f"{count} replicas"
