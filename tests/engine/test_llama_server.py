"""What SpecLoop believes about llama.cpp, asked of a real llama-server (build 11434) on two tiny models."""

import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from .conftest import (
    LlamaServer,
    StartServer,
    Traffic,
    draft_flags,
    ngram_flags,
    repetitive_prompt,
    request_body,
    varied_prompt,
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(60)]

DRAFTED = "spec_decode_num_draft_tokens_total"
ACCEPTED = "spec_decode_num_accepted_tokens_total"
DRAFTS = "spec_decode_num_drafts_total"
ACCEPTED_AT = "spec_decode_num_accepted_tokens_per_pos_total"
PREDICTED = "tokens_predicted_total"
RUNNING = "requests_processing"
ALWAYS_THERE = {
    *(DRAFTED, ACCEPTED, DRAFTS, PREDICTED, RUNNING),
    *("tokens_predicted_seconds_total", "prompt_tokens_total", "prompt_seconds_total"),
    *("requests_deferred", "n_busy_slots_per_decode"),
}


def accepted_by_position(page: dict[str, float]) -> list[float]:
    """Accepted tokens by draft position; empty where the page has no such series."""
    positions = sum(series.startswith(ACCEPTED_AT) for series in page)
    return [page[f'{ACCEPTED_AT}{{position="{position}"}}'] for position in range(positions)]


def survival(page: dict[str, float]) -> list[float]:
    """Share of drafts that were accepted up to and including each position."""
    return [accepted / page[DRAFTS] for accepted in accepted_by_position(page)]


def acceptance(page: dict[str, float]) -> float:
    """Accepted tokens per draft token."""
    return page[ACCEPTED] / page[DRAFTED]


def after_traffic(
    server: LlamaServer,
    temperature: float,
    requests: int = 40,
    prompt: Callable[[int, int], str] = varied_prompt,
) -> dict[str, float]:
    """The page once `requests` have been answered."""
    with Traffic(server.url, temperature, prompt=prompt) as traffic:
        traffic.wait_for(requests)
    return server.metrics()


def in_background(server: LlamaServer, tokens: int, failures: list[Exception]) -> threading.Thread:
    """A request that is under way; how it fails goes to `failures`."""

    def send() -> None:
        try:
            httpx.post(f"{server.url}/completion", json=request_body("On and on", tokens, 0.8), timeout=20)
        except httpx.HTTPError as error:
            failures.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def wait_until_busy(server: LlamaServer) -> dict[str, float]:
    """The first page that shows a running request."""
    for _ in range(1000):
        if (page := server.metrics())[RUNNING] > 0:
            return page
    pytest.fail("no request came to run")


def test_a_drafting_server_has_every_family_and_a_series_for_each_position(start_server: StartServer) -> None:
    page = after_traffic(start_server(*draft_flags(4)), temperature=0, requests=10)
    accepted = accepted_by_position(page)
    assert page.keys() >= ALWAYS_THERE
    assert len(accepted) == 4
    assert accepted == sorted(accepted, reverse=True)
    assert sum(accepted) == page[ACCEPTED]


def test_before_the_first_draft_totals_are_zero_and_positions_absent(start_server: StartServer) -> None:
    page = start_server(*draft_flags(4)).metrics()
    assert page.keys() >= ALWAYS_THERE
    assert (page[DRAFTED], page[ACCEPTED], page[DRAFTS]) == (0, 0, 0)
    assert accepted_by_position(page) == []


def test_with_speculation_off_totals_stay_at_zero_and_positions_absent(start_server: StartServer) -> None:
    page = after_traffic(start_server(), temperature=0, requests=5)
    assert page.keys() >= ALWAYS_THERE
    assert page[PREDICTED] >= 500
    assert (page[DRAFTED], page[ACCEPTED], page[DRAFTS]) == (0, 0, 0)
    assert accepted_by_position(page) == []


def test_a_draft_model_without_a_type_is_loaded_and_never_asked(start_server: StartServer) -> None:
    model_only = draft_flags(4)[:2]
    page = after_traffic(start_server(*model_only), temperature=0, requests=5)
    assert page[DRAFTED] == 0


def test_a_draft_length_of_zero_is_not_off_but_one_token_a_step(start_server: StartServer) -> None:
    server = start_server(*draft_flags(0))
    server.complete(
        "Once upon a time", tokens=100
    )  # two at a time would end this server: it reserved no room for drafts
    page = server.metrics()
    assert page[DRAFTED] == page[DRAFTS] > 0
    assert accepted_by_position(page) == []


def test_hot_traffic_alone_ends_acceptance(start_server: StartServer) -> None:
    server = start_server(*draft_flags(4))
    cool = after_traffic(server, temperature=0)
    hot = {name: value - cool[name] for name, value in after_traffic(server, temperature=1).items() if name in cool}
    assert acceptance(cool) > 0.65
    assert acceptance(hot) < 0.2


def test_probabilistic_drafts_hold_out_in_hot_traffic(start_server: StartServer) -> None:
    server = start_server(*draft_flags(4), "--spec-draft-sampling", "probabilistic")
    assert acceptance(after_traffic(server, temperature=1)) > 0.2


def test_forced_rates_are_the_survival_at_any_temperature(start_server: StartServer, tmp_path: Path) -> None:
    rates = tmp_path / "rates"
    rates.write_text("0.7, 0.5, 0.3, 0.2\n")
    page = after_traffic(start_server(*draft_flags(4), forced_rates=rates), temperature=1)
    assert survival(page) == pytest.approx([0.7, 0.5, 0.3, 0.2], abs=0.06)


def test_forced_rates_fit_any_drafter_and_are_read_at_each_start(start_server: StartServer, tmp_path: Path) -> None:
    rates = tmp_path / "rates"
    rates.write_text("0.9, 0.8, 0.7, 0.6")
    assert len(survival(after_traffic(start_server(*draft_flags(2), forced_rates=rates), 0, requests=5))) == 2
    rates.write_text("0 0 0 0")
    drafting = after_traffic(start_server(*ngram_flags(2, 6), forced_rates=rates), 0, requests=20)
    assert survival(drafting) == [0, 0, 0, 0, 0, 0]
    assert after_traffic(start_server(forced_rates=rates), 0, requests=5)[DRAFTED] == 0


def test_lookup_drafts_as_many_tokens_as_asked_where_text_repeats(start_server: StartServer) -> None:
    server = start_server(*ngram_flags(lookup=2, tokens=4))
    page = after_traffic(server, temperature=0, prompt=repetitive_prompt)
    assert len(accepted_by_position(page)) == 4
    assert page[DRAFTS] > 0.1 * page[PREDICTED]
    assert acceptance(page) > 0.6


def test_lookup_of_more_tokens_than_it_may_draft_never_drafts(start_server: StartServer) -> None:
    page = after_traffic(start_server(*ngram_flags(lookup=5, tokens=4)), temperature=0, prompt=repetitive_prompt)
    assert page[PREDICTED] > 0
    assert page[DRAFTED] == 0


def test_the_draft_length_of_a_draft_model_says_nothing_to_lookup(start_server: StartServer) -> None:
    server = start_server("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "2", "--spec-draft-n-max", "4")
    assert len(accepted_by_position(after_traffic(server, temperature=0, prompt=repetitive_prompt))) == 48


def test_counters_move_when_a_request_ends_not_while_it_runs(start_server: StartServer) -> None:
    server = start_server(*draft_flags(4))
    request = in_background(server, tokens=1000, failures=[])
    busy = wait_until_busy(server)
    request.join()
    assert (busy[RUNNING], busy[PREDICTED], busy[DRAFTS]) == (1, 0, 0)
    idle = server.metrics()
    assert (idle[RUNNING], idle[PREDICTED]) == (0, 1000)
    assert idle[DRAFTS] > 0


def test_an_answer_says_how_many_of_its_tokens_were_drafted_and_accepted(start_server: StartServer) -> None:
    server = start_server(*draft_flags(4))
    timings = server.complete("Once upon a time", tokens=100)["timings"]
    page = server.metrics()
    assert (timings["draft_n"], timings["draft_n_accepted"]) == (page[DRAFTED], page[ACCEPTED])


@pytest.mark.parametrize("flag", ["--draft-max", "--draft-min"])
def test_a_removed_flag_ends_the_server_with_a_hint(start_server: StartServer, flag: str) -> None:
    server = start_server(*draft_flags(4), flag, "6", ready=False)
    assert server.exit_code() == 1
    assert flag.replace("--draft", "--spec-draft-n") in server.output()


def test_a_number_of_rates_other_than_the_draft_length_ends_the_server(start_server: StartServer) -> None:
    server = start_server(*draft_flags(4), "--spec-synth-rates", "0.7,0.5", ready=False)
    assert server.exit_code() == 1
    assert "must contain 4 values" in server.output()


def test_an_idle_server_is_healthy_and_ends_at_once_on_sigterm(start_server: StartServer) -> None:
    server = start_server(*draft_flags(4))
    assert server.health() == 200
    server.terminate()
    assert server.exit_code() == 0


def test_one_sigterm_does_not_end_a_server_with_a_request_in_flight_and_a_second_cuts_it(
    start_server: StartServer,
) -> None:
    server = start_server(*draft_flags(4))
    failures: list[Exception] = []
    request = in_background(server, tokens=1900, failures=failures)
    wait_until_busy(server)
    server.terminate()
    request.join(1)
    assert request.is_alive()
    assert server.process.poll() is None
    server.terminate()
    assert server.exit_code() == 1
    request.join()
    assert isinstance(failures[0], httpx.RemoteProtocolError | httpx.ReadError)
