"""Metric families in prometheus_client's shape, for pages whose figures are kept elsewhere."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric

from specloop_sim.serve.tally import Tally

Labels = Mapping[str, str]
Values = Iterable[tuple[Labels, float]]


def gauge(name: str, documentation: str, values: Values) -> Metric:
    """A gauge with a value for each set of labels."""
    metric = Metric(name, documentation, "gauge")
    for labels, value in values:
        metric.add_sample(name, dict(labels), value)
    return metric


def counter(name: str, documentation: str, values: Values, created: float) -> Metric:
    """A counter, named without its `_total`, which began at `created`."""
    metric = Metric(name, documentation, "counter")
    for labels, value in values:
        metric.add_sample(name + "_total", dict(labels), value)
        metric.add_sample(name + "_created", dict(labels), created)
    return metric


def histogram(name: str, documentation: str, tallies: Iterable[tuple[Labels, Tally]], created: float) -> Metric:
    """A histogram with a tally for each set of labels."""
    metric = Metric(name, documentation, "histogram")
    for labels, tally in tallies:
        for edge, count in tally.cumulative():
            metric.add_sample(name + "_bucket", {**labels, "le": edge}, count)
        metric.add_sample(name + "_count", dict(labels), tally.count)
        metric.add_sample(name + "_sum", dict(labels), tally.sum)
        metric.add_sample(name + "_created", dict(labels), created)
    return metric


def summary(name: str, documentation: str, values: Iterable[tuple[Labels, int, float]], created: float) -> Metric:
    """A summary without quantiles: count and sum for each set of labels."""
    metric = Metric(name, documentation, "summary")
    for labels, count, total in values:
        metric.add_sample(name + "_count", dict(labels), count)
        metric.add_sample(name + "_sum", dict(labels), total)
        metric.add_sample(name + "_created", dict(labels), created)
    return metric
