"""Two languages made by code, in which layouts and forgotten sentences show: `en-xa` is longer and
has accents, `ar-xb` has Hebrew letters and runs from right to left.

`python -m translations.pseudo_locales` writes them to `var/pseudo_locales`, where a server with
`PSEUDO_LOCALES=1` finds them.
"""

import argparse
import re
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

from babel.messages.catalog import Catalog

from .catalogs import LanguageCatalog, compile_catalog
from .faults import PLACEHOLDER, TAG, list_forms
from .sources import ROOT, extract_messages

FOLDER = ROOT / "var" / "pseudo_locales"
LONGER_BY = 0.4
# What is no text: it is kept.
MARK = re.compile(rf"({PLACEHOLDER.pattern}|&#?\w+;)")
HAS_WORDS = re.compile(r"[^\W\d_]")
ACCENTS = str.maketrans(
    "AaCcDdEeGgIiLlNnOoRrSsTtUuYyZz",
    "ÅåÇçĎďÉéĞğÎîĽľÑñÖöŘřŠšŤťÜüÝýŽž",
)
LATIN = "abcdefghijklmnopqrstuvwxyz"
HEBREW = "אבגדהוזחטיכלמנסעפצקרשתאבגד"
LETTERS = str.maketrans(LATIN + LATIN.upper(), HEBREW * 2)
FILLING = "ñöčħ ľöñğéř ťéẋť ášťéř "
# A shorter text is one word, which cannot break.
WORD_CHARACTERS = 12


def lengthen(text: str) -> str:
    """Return the text with accents, 40 % longer, between brackets."""
    return _change(text, _lengthen_part)


def turn_round(text: str) -> str:
    """Return the text in letters that run from right to left, between brackets."""
    return _change(text, lambda part: f"[{_change_words(part, LETTERS)}]")


def _lengthen_part(part: str) -> str:
    missing = max(1, round(len(part) * LONGER_BY) - len("[]"))
    words = FILLING.replace(" ", "") if len(part) < WORD_CHARACTERS else f" {FILLING}"
    filling = "".join(letter for letter, _place in zip(cycle(words), range(missing), strict=False))
    return f"[{_change_words(part, ACCENTS)}{filling}]"


def _change(text: str, change: Callable[[str], str]) -> str:
    """Change each stretch between two tags that has words, without the space at its ends."""
    return "".join(
        part
        if place % 2 or not HAS_WORDS.search(MARK.sub("", part))
        else _change_inner(part, change)
        for place, part in enumerate(re.split(f"({TAG.pattern})", text))
    )


def _change_inner(text: str, change: Callable[[str], str]) -> str:
    inner = text.strip()
    start = text.index(inner)
    return f"{text[:start]}{change(inner)}{text[start + len(inner) :]}"


def _change_words(text: str, letters: dict[int, int]) -> str:
    """Change the letters, and keep placeholders and entities."""
    parts = MARK.split(text)
    return "".join(
        part if place % 2 else part.translate(letters) for place, part in enumerate(parts)
    )


LANGUAGES: dict[str, Callable[[str], str]] = {"en_XA": lengthen, "ar_XB": turn_round}


def build_catalog(extracted: Catalog, change: Callable[[str], str]) -> LanguageCatalog:
    """Return a catalog in which each message is changed. It has the plural forms of English."""
    catalog = LanguageCatalog("en", fuzzy=False)
    for message in extracted:
        if not message.id:
            continue
        forms = [change(form) for form in list_forms(message.id)]
        string = tuple(forms) if message.pluralizable else forms[0]
        catalog.add(message.id, string, context=message.context)
    return catalog


def write_pseudo_locales(folder: Path) -> None:
    """Write the compiled catalogs of both languages."""
    extracted = extract_messages()
    for language, change in LANGUAGES.items():
        path = folder / language / "LC_MESSAGES" / "django.mo"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compile_catalog(build_catalog(extracted, change)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    write_pseudo_locales(parser.parse_args().folder)


if __name__ == "__main__":
    main()
