"""The committed catalogs: they have the messages of the sources, and translations that fit them."""

import pytest
from babel.messages.catalog import Catalog, Message

from translations.catalogs import (
    LanguageCatalog,
    compile_catalog,
    format_catalog,
    get_po_path,
    list_languages,
    read_catalog,
    update_catalog,
)
from translations.faults import find_catalog_faults
from translations.sources import extract_messages

AGAIN = "Run: make messages"

LANGUAGES = list_languages()


@pytest.fixture(scope="module")
def extracted() -> Catalog:
    return extract_messages()


def make_catalog(*messages: Message) -> LanguageCatalog:
    catalog = LanguageCatalog("de", fuzzy=False)
    for message in messages:
        catalog[message.id] = message
    return catalog


def format_updated(catalog: LanguageCatalog, extracted: Catalog) -> bytes:
    update_catalog(catalog, extracted)
    return format_catalog(catalog)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_catalog_has_the_messages_of_the_sources(language: str, extracted: Catalog) -> None:
    written = get_po_path(language).read_bytes()
    is_current = format_updated(read_catalog(language), extracted) == written
    assert is_current, AGAIN  # the difference of two catalogs takes pytest minutes


def test_a_new_and_a_reworded_message_change_the_catalog() -> None:
    extracted = make_catalog(Message("Send"), Message("Stop"))
    catalog = make_catalog(Message("Send", "Senden"))
    before = format_catalog(catalog)
    after = format_updated(catalog, extracted)
    assert after != before
    assert b'msgid "Stop"\nmsgstr ""' in after
    assert b"Senden" in after
    assert b"fuzzy" not in after
    reworded = format_updated(catalog, make_catalog(Message("Send now"), Message("Stop")))
    assert b"Senden" not in reworded


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_compiled_file_is_made_from_its_catalog(language: str) -> None:
    compiled = get_po_path(language).with_suffix(".mo").read_bytes()
    assert compiled == compile_catalog(read_catalog(language)), AGAIN


def test_a_changed_translation_changes_the_compiled_file() -> None:
    first = compile_catalog(make_catalog(Message("Send", "Senden")))
    assert first == compile_catalog(make_catalog(Message("Send", "Senden")))
    assert first != compile_catalog(make_catalog(Message("Send", "Abschicken")))


def test_unfinished_translations_are_not_compiled() -> None:
    empty = compile_catalog(make_catalog())
    assert compile_catalog(make_catalog(Message(("%(n)s day", "%(n)s days"), ("", "")))) == empty
    assert compile_catalog(make_catalog(Message("Send", "Senden", flags=["fuzzy"]))) == empty


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_keep_placeholders_tags_and_plural_forms(language: str) -> None:
    assert find_catalog_faults(read_catalog(language)) == []


@pytest.mark.parametrize(
    "message",
    [
        Message("Hello %(name)s", "Hallo %(nahme)s"),
        Message("Hello %(name)s", "Hallo"),
        Message("Row %s", "Zeile %d"),
        Message("Hello {name}", "Hallo {nahme}"),
        Message("80%% used", "80% benutzt"),
        Message("See <b>this</b>", "Siehe <b>dies<b>"),
        Message('See <a href="%(url)s">this</a>', "Siehe dies: %(url)s"),
        Message("Send ", "Senden"),
        Message(("%(n)s day", "%(n)s days"), ("%(n)s Tag", "")),
        Message(("%(n)s day", "%(n)s days"), ("%(n)s Tag",)),
        Message(("One day", "%(n)s days"), ("Ein Tag", "Mehrere Tage")),
    ],
)
def test_a_translation_that_lost_something_is_found(message: Message) -> None:
    assert find_catalog_faults(make_catalog(message))


@pytest.mark.parametrize(
    "message",
    [
        Message("Send", ""),
        Message("12 % of %(most)s", "12 % von %(most)s"),
        Message("<b>%(name)s</b> asks", "Es fragt <b>%(name)s</b>"),
        Message(("%(n)s day", "%(n)s days"), ("%(n)s Tag", "%(n)s Tage")),
        Message(("One day", "%(n)s days"), ("%(n)s Tag", "%(n)s Tage")),
    ],
)
def test_a_translation_that_fits_passes(message: Message) -> None:
    assert find_catalog_faults(make_catalog(message)) == []
