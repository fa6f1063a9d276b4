"""Questions that ask a person for a secret: a password, an API key or the number of a card.

The names of such fields are known words, in English and a few other languages. A service that wants
a secret at all costs can describe it in other words, so the card also says that nobody should type
one.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy

NEVER = gettext_lazy("Forms must not ask for passwords, API keys or card numbers.")

_WORDS = (
    r"(?:password|passphrase|\bpass (?:word|phrase)\b|passwd|passcode|\bpwd\b|passwort|kennwort"
    r"|mot de passe|contraseña|\bsenha\b|wachtwoord"
    r"|\b(?:api|access|secret|private|client|auth|bearer|refresh) ?(?:key|token|secret)s?\b"
    r"|\bcard ?(?:number|no|nr)\b|\b(?:credit|debit) ?cards?\b|\bkreditkarte"
    r"|\bcv[vc]2?\b|\bcard verification\b)"
)
_NAMED = re.compile(_WORDS)
# In a sentence a secret may be mentioned without being asked for.
_ASKED_FOR = re.compile(
    r"\b(?:enter|type|provide|give|send|share|tell|paste|submit|confirm|your|what is)\b"
    rf".{{0,60}}?{_WORDS}"
)
_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN_WORDS = re.compile(r"[\W_]+")


def names_secret(label: str) -> bool:
    """Whether the name or the label of a field names a secret."""
    return _NAMED.search(_fold(label)) is not None


def asks_for_secret(sentence: str) -> bool:
    """Whether a sentence asks for a secret."""
    return _ASKED_FOR.search(_fold(sentence)) is not None


def find_secret_field(properties: Mapping[str, Any], message: str) -> str:
    """Return the title of the first field of a parsed form that asks for a secret, or an empty
    string. Only fields in which a person types count; the message is the label of all of them."""
    for name, field in properties.items():
        if "oneOf" in field or field["type"] in ("array", "boolean"):
            continue
        is_named = names_secret(name) or names_secret(field["title"])
        if is_named or asks_for_secret(field.get("description", "")) or asks_for_secret(message):
            return str(field["title"])
    return ""


def _fold(text: str) -> str:
    """Return the words in lower case, without invisible characters, for `apiKey` and `API-KEY`."""
    plain = unicodedata.normalize("NFKC", text)
    shown = "".join(each for each in plain if unicodedata.category(each) != "Cf")
    return _BETWEEN_WORDS.sub(" ", _CASE_CHANGE.sub(" ", shown)).casefold()
