"""Every message has a translation that a person confirmed."""

import pytest
from babel.messages.catalog import Message

from translations.catalogs import LanguageCatalog, list_languages, read_catalog
from translations.faults import find_missing


@pytest.mark.parametrize("language", list_languages())
def test_every_message_is_translated(language: str) -> None:
    assert find_missing(read_catalog(language)) == []


@pytest.mark.parametrize(
    "message",
    [
        Message("Send"),
        Message("Send", "Senden", flags=["fuzzy"]),
        Message(("%(n)s day", "%(n)s days"), ("%(n)s Tag", "")),
    ],
)
def test_a_message_without_a_confirmed_translation_is_found(message: Message) -> None:
    catalog = LanguageCatalog("de", fuzzy=False)
    catalog[message.id] = message
    catalog["Stop"] = Message("Stop", "Anhalten")
    assert len(find_missing(catalog)) == 1
