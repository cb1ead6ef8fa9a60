"""Nothing that a person, a policy or a pod is called changes what a Prometheus is asked, or whose answer counts."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from specloop_control.prometheus_server import Prometheus, PrometheusError, PrometheusSettings
from specloop_operator.settings import OperatorSettings
from specloop_operator.sources import PodAddress, open_sources
from tests.component.prometheus.servers import LAG_SECONDS, pod, prometheus, until
from tests.component.sources.fakes import NOW, Held, page
from tests.component.sources.fakes import pod as labels
from tests.component.sources.servers import serving
from tests.support.threats import HOSTILE

ENDS_THE_STRING = ['x"} or {__name__=~".+', '"', 'x",pod=~".*', "\\", '\\"', "x\\", "llm\n", "llm\0", "\u202e", "😀"]
A_PATTERN = ["llm|.*", ".*", "ll.", "l[l]m", ""]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusSettings]:
    """A Prometheus that has scraped a pod of namespace `llm`."""
    with (
        serving(page(5)) as engine,
        prometheus(tmp_path_factory.mktemp("prometheus"), [pod(engine.url, "llama-0")]) as settings,
    ):
        until(lambda: count(settings) > 0, "a scrape")
        yield settings


def count(settings: PrometheusSettings) -> int:
    """How many values it has for these settings."""
    now = time.time()
    with closing(Prometheus(settings)) as server:
        return server.values(settings.selector, now - 60.0, now - LAG_SECONDS / 4.0).values


@pytest.mark.parametrize("namespace", [*ENDS_THE_STRING, *A_PATTERN])
@pytest.mark.engine
def test_a_namespace_is_a_string_of_promql_and_no_part_of_a_query(real: PrometheusSettings, namespace: str) -> None:
    """`specloop record --namespace` takes any text: it finds nothing of another namespace, or is refused."""
    assert count(real) > 0
    assert count_or_refused(replace(real, namespace=namespace)) == 0


def count_or_refused(settings: PrometheusSettings) -> int:
    """How many values; none where the server refuses the query as none."""
    try:
        return count(settings)
    except PrometheusError as error:
        if "refused with status 400" not in str(error):
            raise
        return 0


@pytest.mark.parametrize(
    "matcher", ['x="y"} or {z="y"', 'x="y",z="y"', 'x="y"}[1h]', 'x=~"y" or up', 'x="\\"', 'x="y\n"', "", "{}", 'ü="y"']
)
def test_a_matcher_is_one_matcher(matcher: str) -> None:
    """In the administrator's own settings as well: a slip there would ask for the whole server."""
    with pytest.raises(PrometheusError, match="is no matcher"):
        PrometheusSettings("http://prometheus:9090", matchers=(matcher,))


@pytest.mark.parametrize("name", [HOSTILE, *ENDS_THE_STRING, *A_PATTERN])
async def test_names_of_policies_and_pods_are_in_no_query(name: str) -> None:
    """They are looked for among what came; the query is the same for everybody."""
    server = Held()
    server.scrape(labels("llama-0"), NOW - 20.0, page(5))
    settings = OperatorSettings.model_validate(
        {"sources": {"default": {"type": "prometheus", "url": "http://prometheus:9090"}}}
    )
    async with open_sources(settings, back_fill_seconds=60.0, connect=lambda _: server) as opened:
        pods = [PodAddress(name, name, "10.0.0.1", 8000), PodAddress(name, "llama-0", "10.0.0.1", 8000)]
        found = await opened["default"].collect(f"{name}/{name}", pods, NOW, 15.0)
    assert found.query == PrometheusSettings("http://prometheus:9090").selector
    assert found.samples == ()
