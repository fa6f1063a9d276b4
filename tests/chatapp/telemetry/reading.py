"""Reads the metrics as Prometheus does."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client.parser import text_string_to_metric_families

from chatapp.telemetry import metrics

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read_samples(text: str = "") -> Samples:
    text = text or metrics.render([]).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


class Increase:
    """By how much samples rise inside the block. Metrics are global, so other tests count too."""

    def __init__(self) -> None:
        self._before = read_samples()

    def of(self, name: str, **labels: str) -> float:
        key = (f"countersign_{name}", frozenset(labels.items()))
        return read_samples().get(key, 0.0) - self._before.get(key, 0.0)


@contextmanager
def counting() -> Iterator[Increase]:
    yield Increase()
