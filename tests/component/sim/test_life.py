"""The life of a simulated server: start-up, failures at start, its own time, drain, end."""

import json
import signal
import threading
import time

import httpx
import pytest

from tests.component.sim.servers import (
    DRAFT_K5,
    MIDDLEWARE,
    Server,
    outcome,
    serving,
    start,
    wait_until_ready,
)

LONG = {"prompt": "Write a story", "max_tokens": 3000, "ignore_eos": True}
"""At K=5 and batch 1 some 25 model seconds."""


def test_the_port_opens_when_the_simulated_start_up_is_over_in_the_time_of_epoch_and_speed() -> None:
    epoch, began = time.time(), time.monotonic()
    server = start(speed=20, startup_seconds=60, epoch=epoch)
    try:
        wait_until_ready(server)
        assert time.monotonic() - began >= 3.0
        started = server.sample().process_start
        assert started is not None
        assert epoch < started < epoch + 20 * (time.time() - epoch) - 60
    finally:
        server.process.kill()
        server.process.communicate()


def test_durations_on_the_page_are_the_models_whatever_the_wall_does() -> None:
    sums = []
    for speed in (50, 1000):
        with serving(*DRAFT_K5, speed=speed) as server:
            server.complete(**LONG, request_id="same")
            page = server.page()
        names = ("vllm:e2e_request_latency_seconds_sum", "vllm:time_to_first_token_seconds_sum")
        sums.append([float(line.rsplit(" ", 1)[1]) for name in names for line in page.splitlines() if name in line])
    assert sums[0] == pytest.approx(sums[1], rel=1e-6)
    assert sums[0][0] > 10.0


def test_what_keeps_vllm_from_starting_ends_it_with_code_1_and_the_reason() -> None:
    setting = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 5, "prompt_lookup_max": 2}
    code, errors = outcome("--speculative-config", json.dumps(setting))
    assert code == 1
    assert "prompt_lookup_min" in errors
    assert "Traceback" not in errors


def test_flags_that_vllm_does_not_know_are_unrecognized_arguments() -> None:
    code, errors = outcome("--no-such-flag", "3")
    assert code == 2
    assert "unrecognized arguments: --no-such-flag 3" in errors


def test_a_setting_that_means_nothing_ends_it_with_one_line() -> None:
    code, errors = outcome(speed=0)
    assert (code, errors) == (2, "SPECLOOP_SIM_SPEED is '0'; give it a positive number\n")


def test_a_port_in_use_ends_it_with_code_1() -> None:
    with serving() as server:
        code, errors = outcome("--port", server.url.rsplit(":", 1)[1])
    assert code == 1
    assert "in use" in errors


def test_a_crash_ends_it_in_the_middle_with_code_1_and_its_message_last() -> None:
    faults = {"disabled": {"crashAfterSeconds": 30, "crashMessage": "RuntimeError: out of memory"}}
    with serving(speed=20, faults=json.dumps(faults)) as server:
        client = Client(server)
        _, errors = server.process.communicate(timeout=60)
        client.join()
    assert (server.process.returncode, client.status) == (1, None)
    assert errors.splitlines()[-1] == "RuntimeError: out of memory"


def test_a_crash_may_come_instead_of_the_open_port() -> None:
    code, errors = outcome(faults='{"*": {"neverReady": true, "crashAfterSeconds": 0}}')
    assert code == 1
    assert errors == "RuntimeError: CUDA error: an illegal memory access was encountered\n"


def test_one_that_never_gets_ready_keeps_its_port_closed_and_ends_when_told() -> None:
    """The second server, started later and ready, shows that the first has had its time."""
    server = start(faults='{"*": {"neverReady": true}}')
    try:
        with serving():
            with pytest.raises(httpx.TransportError):
                httpx.get(f"{server.url}/health")
            assert server.process.poll() is None
        server.process.terminate()
        assert server.process.wait(20) == -signal.SIGTERM
    finally:
        server.process.kill()
        server.process.communicate()


class Client(threading.Thread):
    """Asks for a long answer beside the test."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self.status: int | None = None
        self.start()

    def run(self) -> None:
        try:
            self.status = self._server.post(LONG).status_code
        except httpx.TransportError:
            self.status = None


def wait_until_running(server: Server) -> None:
    while server.sample().running != 1.0:
        pass


def test_a_drain_ends_what_runs_refuses_what_comes_and_stays_healthy() -> None:
    with serving(*DRAFT_K5, *MIDDLEWARE, "--shutdown-timeout", "300", speed=8) as server:
        client = Client(server)
        wait_until_running(server)
        server.process.send_signal(signal.SIGTERM)
        while (refused := server.post({"prompt": "Hi", "max_tokens": 1}).status_code) == 200:
            pass
        assert refused == 503
        assert httpx.get(f"{server.url}/health").status_code == 200
        client.join()
        assert client.status == 200
        assert server.process.wait(20) == 0


def test_a_drain_that_takes_too_long_cuts_off() -> None:
    with serving(*DRAFT_K5, "--shutdown-timeout", "2", speed=2) as server:
        client = Client(server)
        wait_until_running(server)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
        client.join()
        assert client.status != 200


def test_without_a_timeout_requests_under_way_are_cut_off_at_once() -> None:
    with serving(*DRAFT_K5, speed=2) as server:
        client = Client(server)
        wait_until_running(server)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
        client.join()
        assert client.status != 200
