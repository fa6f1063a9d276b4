"""docs/performance.md and its charts are those of docs/performance.json, and a reader of the relay
benchmark notices what is missing."""

import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks import charts
from benchmarks.fast_model import make_chunk, make_word
from benchmarks.tabs import Reading

KEPT = charts.read_kept()
AGAIN = "Run: python -m benchmarks.charts"
CHUNKS = 80
END = "the end"


def test_the_tables_of_the_page_are_the_file() -> None:
    page = charts.PAGE.read_text()
    assert charts.fill_page(page, KEPT) == page, AGAIN


@pytest.mark.parametrize("name", charts.draw_all(KEPT))
def test_a_chart_is_drawn_from_the_file(name: str) -> None:
    drawn = charts.draw_all(KEPT)[name]
    assert (charts.PICTURES / name).read_text() == drawn, AGAIN
    root = ElementTree.fromstring(drawn)  # noqa: S314 - our own file
    assert len(root.findall("{*}text")) > 3
    assert f"pictures/{name}" in charts.PAGE.read_text()


def test_every_target_of_the_file_has_a_column() -> None:
    [header, *_] = charts.render_section(KEPT["figures"][charts.COSTS]).splitlines()
    assert charts.NAMES["ours"] in header
    assert charts.NAMES["bare"] in header


@pytest.mark.parametrize("lost", [None, 0, CHUNKS // 2, CHUNKS - 1])
@pytest.mark.parametrize("size", [1, 7, CHUNKS])
def test_a_reading_is_whole_only_if_every_chunk_came(lost: int | None, size: int) -> None:
    reading = Reading(key="", chunks=CHUNKS)
    texts = [make_chunk(number) for number in range(CHUNKS) if number != lost]
    for start in range(0, len(texts), size):
        reading.take("".join(texts[start : start + size]), END)
    assert not reading.is_whole
    reading.take(END, END)
    assert reading.is_whole == (lost is None)


def test_a_reading_counts_the_frames_that_bring_new_words() -> None:
    reading = Reading(key="", chunks=3)
    for words in ([0], [0], [0, 1], [], [0, 1, 2]):
        reading.take(" ".join(make_word(word) for word in words), END)
    assert len(reading.arrivals) == 3


def test_an_earlier_end_does_not_end_a_reading() -> None:
    reading = Reading(key="", chunks=1)
    reading.take(END, END)
    assert not reading.is_over.is_set()
