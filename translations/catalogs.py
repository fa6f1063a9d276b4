"""The catalog of each language: `locale/LANGUAGE/LC_MESSAGES/django.po` and its compiled `.mo`."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from babel.core import Locale
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import PoFileParser, write_po

from .sources import ROOT

LOCALE_FOLDER = ROOT / "locale"


class LanguageCatalog(Catalog):
    """A catalog whose header has no dates and names nobody, so that a file changes only with its
    messages."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        return [
            ("Language", str(self.locale_identifier)),
            ("Plural-Forms", self.plural_forms),
            ("MIME-Version", "1.0"),
            ("Content-Type", f"text/plain; charset={self.charset}"),
            ("Content-Transfer-Encoding", "8bit\n"),
        ]

    @mime_headers.setter
    def mime_headers(self, headers: Iterable[tuple[str, str]]) -> None:
        self._set_mime_headers(headers)


def list_languages() -> list[str]:
    """Return the languages that have a folder, such as `de` or `pt_BR`."""
    return sorted(path.name for path in LOCALE_FOLDER.iterdir() if path.is_dir())


def get_po_path(language: str) -> Path:
    return LOCALE_FOLDER / language / "LC_MESSAGES" / "django.po"


def read_catalog(language: str) -> LanguageCatalog:
    """Return the catalog of a language; empty if its folder has none yet."""
    name = Locale.parse(language).english_name
    header = f"# {name} messages of Countersign."
    catalog = LanguageCatalog(language, header_comment=header, fuzzy=False)
    path = get_po_path(language)
    if path.exists():
        with path.open("rb") as file:
            PoFileParser(catalog, ignore_obsolete=True, abort_invalid=True).parse(file)
    return catalog


def update_catalog(catalog: LanguageCatalog, extracted: Catalog) -> None:
    """Give a catalog exactly the extracted messages. No translation is guessed from another."""
    catalog.update(extracted, no_fuzzy_matching=True, update_header_comment=False)
    catalog.obsolete.clear()


def is_translated(message: Message) -> bool:
    """Return whether a message has all its forms and a person has confirmed them."""
    forms = message.string if isinstance(message.string, list | tuple) else [message.string]
    return bool(forms) and all(forms) and not message.fuzzy


def format_catalog(catalog: Catalog) -> bytes:
    """Return the content of the `.po` file, in the order of the sources and without line numbers,
    which would change with every edit."""
    content = BytesIO()
    write_po(content, catalog, width=0, sort_by_file=True, include_lineno=False)
    return content.getvalue().rstrip() + b"\n"


def compile_catalog(catalog: Catalog) -> bytes:
    """Return the content of the `.mo` file. A message without a translation stays out: it is shown
    in English."""
    translated = LanguageCatalog(catalog.locale_identifier, fuzzy=False)
    for message in catalog:
        if message.id and is_translated(message):
            translated[message.id] = message
    content = BytesIO()
    write_mo(content, translated)
    return content.getvalue()
