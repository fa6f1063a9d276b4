"""The figures of the documents are those of docs/figures.json, and its counts are the project's."""

import json
from pathlib import Path

import pytest

from benchmarks import figures
from benchmarks.report import Figure

ROOT = Path(__file__).resolve().parent.parent
KEPT: figures.Kept = json.loads((ROOT / "docs/figures.json").read_text())


def compare(made: list[Figure], section: str) -> None:
    kept = {what: number for what, (number, _) in KEPT[section].items()}
    counted = {what: number for what, number, _ in made}
    shown = {what: kept.get(what) for what in counted}
    assert counted == shown, "Run: python -m benchmarks.figures"


@pytest.mark.parametrize("section", figures.QUICK)
def test_what_can_be_counted_quickly_is_as_the_file_says(section: str) -> None:
    compare(figures.QUICK[section](), section)


@pytest.mark.gate
def test_there_are_as_many_tests_as_the_file_says() -> None:
    counted = figures.count_tests(figures.collect_tests(figures.COLLECTED))
    for section, made in counted.items():
        assert all(number > 0 for _, number, _ in made)
        compare(made, section)


@pytest.mark.parametrize("page", figures.PAGES)
def test_the_table_of_a_page_is_the_file(page: str) -> None:
    table = figures.render_table(page, KEPT)
    assert table.count("\n") > 2
    shown = f"{figures.BEGIN}{table}{figures.END}" in figures.read(page)
    assert shown, "Run: python -m benchmarks.figures"


def test_each_figure_is_on_one_page() -> None:
    shown = [name for page in figures.PAGES for name in figures.choose_sections(page, KEPT)]
    assert sorted(shown) == sorted(KEPT)


def test_no_attack_succeeded_in_the_last_run() -> None:
    attacks = KEPT["attacks"]
    assert attacks["attacks that ran"] == attacks["attacks on approvals"]
    assert attacks["attacks that succeeded"][0] == 0
    assert KEPT["risk"]["tools of high risk called low"][0] == 0


def test_the_texts_that_name_figures_name_those_of_the_file() -> None:
    number = int(KEPT["attacks"]["attacks on approvals"][0])
    assert f"\n{number} of {number} attacks" in (ROOT / "docs/reliability.md").read_text()
    tools = int(KEPT["risk"]["labelled tools"][0])
    assert f"The test set has {tools:,} tools" in (ROOT / "docs/risk.md").read_text()
