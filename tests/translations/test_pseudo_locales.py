"""The languages that are made by code keep what a translation keeps."""

import pytest

from translations.faults import find_catalog_faults, find_missing
from translations.pseudo_locales import LANGUAGES, build_catalog, lengthen, turn_round
from translations.sources import extract_messages


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_message_has_a_translation_that_fits(language: str) -> None:
    catalog = build_catalog(extract_messages(), LANGUAGES[language])
    assert find_missing(catalog) == []
    assert find_catalog_faults(catalog) == []


def test_a_text_is_forty_percent_longer() -> None:
    text = "These requests are waiting for you in Countersign."
    assert len(lengthen(text)) / len(text) == pytest.approx(1.4, abs=0.05)


def test_a_changed_text_has_accents_and_keeps_its_marks() -> None:
    text = " Ask <b>%(name)s</b> about {count} of 12 %% &amp; more "
    changed = lengthen(text)
    assert changed.startswith(" [Åšk")
    assert "<b>%(name)s</b>" in changed
    assert "{count}" in changed
    assert "%% &amp;" in changed
    assert changed.endswith("] ")


def test_a_short_text_stays_one_word() -> None:
    assert " " not in lengthen("Save")


def test_a_text_from_right_to_left_keeps_its_marks() -> None:
    assert turn_round("Ask %(name)s.") == "[אקכ %(name)s.]"
