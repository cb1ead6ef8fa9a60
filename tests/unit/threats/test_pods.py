"""What a pod says of itself, and what Kubernetes says of it, whoever made it."""

import pytest

from specloop_operator.binding import bind
from specloop_operator.pods import MESSAGE_CHARACTERS, Pod, read_pod
from tests.support.threats import HOSTILE, steers
from tests.unit.operator_binding.templates import TARGET, Object, container, template


def read(*flags: str, last: str = "", unscheduled: str = "") -> Pod:
    """A pod of these flags whose container ended twice with these words, and that the scheduler says this of."""
    body = template(container(args=[TARGET, *flags]))
    body["metadata"] |= {"name": "llama-1"}
    ended: Object = {"exitCode": 1, "message": last}
    own = {"name": "vllm", "restartCount": 2, "ready": False, "state": {}, "lastState": {"terminated": ended}}
    scheduled = {"type": "PodScheduled", "status": "False", "message": unscheduled}
    body["status"] = {"containerStatuses": [own], "conditions": [scheduled]}
    return read_pod(body, bind(body), "k5")


def test_a_containers_last_words_are_one_short_line_that_steers_nothing() -> None:
    """Their end, where the error stands: the last of a hundred times the same."""
    words = read(last=HOSTILE * 100).broken
    assert words.startswith("its container ended 2 times (exit code 1): … ")
    assert words.endswith('"}]')
    assert steers(words) == []
    assert len(words) <= len("its container ended 2 times (exit code 1): … ") + MESSAGE_CHARACTERS


def test_words_of_the_scheduler_are_one_line_that_steers_nothing() -> None:
    """A scheduler of somebody's own may say anything."""
    assert steers(read(unscheduled=HOSTILE).pending) == []


@pytest.mark.parametrize("port", ["0", "65536", "99999999", "9" * 5000, "٨٠٠٠", "-1", "8000x", ""])
def test_a_port_that_is_none_is_not_asked(port: str) -> None:
    """Anybody who may make a pod may write it: asked, it would end the tick of a policy in an error of the socket's."""
    assert read(f"--port={port}").port == 8000


@pytest.mark.parametrize("port", ["1", "8001", "65535"])
def test_a_port_that_is_one_is_asked(port: str) -> None:
    """As the command says."""
    assert read(f"--port={port}").port == int(port)
