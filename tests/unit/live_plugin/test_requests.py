"""What requests ask for, and its metrics."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from specloop_vllm.requests import Asked, RequestMetrics, Served, read_asked, served_by


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        (b'{"temperature": 0.7, "max_tokens": 5, "stream": true}', Asked(0.7, 5, stream=True)),
        (b'{"temperature": 0}', Asked(0.0)),
        (b'{"temperature": null, "max_completion_tokens": 9, "max_tokens": 7}', Asked(max_tokens=9)),
        (b'{"max_output_tokens": 3}', Asked(max_tokens=3)),
        (b'{"temperature": "hot", "max_tokens": 1.5, "stream": 1}', Asked()),
        (b'{"temperature": true, "max_tokens": -1}', Asked()),
        (b'{"temperature": -1}', Asked()),
        (b'{"temperature": Infinity}', Asked()),
        (b'{"temperature": NaN}', Asked()),
        (b'{"messages": [{"content": "\\"temperature\\": 2"}], "tools": [{"temperature": 1.5}]}', Asked()),
        (b"{}", Asked()),
    ],
)
def test_a_body_is_read(body: bytes, asked: Asked) -> None:
    assert read_asked(body) == asked


@given(st.binary(max_size=200))
def test_no_body_whatever_raises(body: bytes) -> None:
    read_asked(body)


@pytest.mark.parametrize("body", [b"", b"--form", b"[1]", b"\xff", b"[" * 100_000, b"9" * 50_000])
def test_what_is_no_json_object_is_unreadable(body: bytes) -> None:
    assert not read_asked(body).readable


class Model:
    """vLLM's model configuration, as far as it is asked."""

    def __init__(self, name: object, defaults: Mapping[str, Any]) -> None:
        self.served_model_name = name
        self._defaults = defaults

    def get_diff_sampling_param(self) -> Mapping[str, Any]:
        return self._defaults


@pytest.mark.parametrize(
    ("name", "defaults", "served"),
    [
        ("llama", {}, Served("llama")),
        (["llama", "chat"], {"temperature": 0.6}, Served("llama", 0.6, "generation_config")),
        (None, {"temperature": None}, Served("")),
    ],
)
def test_name_and_default_come_from_vllm(name: object, defaults: Mapping[str, Any], served: Served) -> None:
    state = SimpleNamespace(vllm_config=SimpleNamespace(model_config=Model(name, defaults)))
    assert served_by(SimpleNamespace(state=state)) == served


@pytest.mark.parametrize("application", [None, SimpleNamespace(), SimpleNamespace(state=SimpleNamespace())])
def test_an_application_that_shows_nothing_has_vllms_own_default(application: object) -> None:
    assert served_by(application) == Served("", 1.0, "vllm")


def metrics() -> tuple[RequestMetrics, CollectorRegistry]:
    """Fresh ones."""
    registry = CollectorRegistry()
    return RequestMetrics(registry), registry


def test_a_request_without_a_temperature_counts_with_the_default() -> None:
    """0.6 of the generation config falls between 0.5 and 0.6; both edges are exact."""
    found, registry = metrics()
    served = Served("llama", 0.6, "generation_config")
    found.introduce(served)
    found.count(served, Asked(), 200)
    found.count(served, Asked(0.0), 200)
    at = {
        edge: registry.get_sample_value("specloop_request_temperature_bucket", {"model_name": "llama", "le": edge})
        for edge in ("0.0", "0.5", "0.6", "2.0")
    }
    assert at == {"0.0": 1, "0.5": 1, "0.6": 2, "2.0": 2}
    labels = {"model_name": "llama", "origin": "generation_config"}
    assert registry.get_sample_value("specloop_default_temperature", labels) == 0.6


def test_what_is_refused_counts_by_its_status_alone() -> None:
    found, registry = metrics()
    found.count(Served("llama"), Asked(1.5, 10, stream=True), 429)
    labels = {"model_name": "llama", "status": "4xx", "stream": "true"}
    assert registry.get_sample_value("specloop_requests_total", labels) == 1
    assert registry.get_sample_value("specloop_request_temperature_count", {"model_name": "llama"}) is None


def test_what_cannot_be_read_is_counted_apart() -> None:
    found, registry = metrics()
    found.count(Served("llama"), read_asked(b"no"), 200)
    assert registry.get_sample_value("specloop_unread_requests_total", {"model_name": "llama"}) == 1
    assert registry.get_sample_value("specloop_request_temperature_count", {"model_name": "llama"}) is None
