"""What would become of the services in a file: what is imported passes the form that an admin fills
in."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.forms import model_to_dict

from mcpconfig.import_formats import BLANK, Entry
from mcpconfig.masking import MASK, unseen
from mcpconfig.models import Service

from .service_form import ServiceForm

Authentication = Service.Authentication
# Stands for a value that nobody has entered yet, while the rest is checked.
_NOT_YET = "x"
VALUE_CHARACTERS = 2_000
# What is shown of a header's value, and of what follows a URL's path: blanks, and which part is
# which. A secret may stand anywhere else, and its end is a part of it, too.
_SHOWN_OF_HEADER = re.compile(r"^(?:Bearer|Basic) |\$\{[^{}]+\}", re.IGNORECASE)
_SHOWN_OF_QUERY = re.compile(r"(?:^[?#]|&)(?:[\w.~-]+=(?=[^=&#]))?|\$\{[^{}]+\}")
_URL = re.compile(r"(https?://)([^/?#]*@)?([^?#]*)(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What would become of an entry. `problems` say why it cannot be saved so."""

    entry: Entry
    name: str
    form: ServiceForm
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return shown_url(self.entry.url)

    @property
    def sign_in(self) -> str:
        """How one signs in, in words, without any part of a secret."""
        chosen = Authentication(self.form.data["authentication"])
        way = "no sign-in" if chosen == Authentication.NONE else str(chosen.label)
        return ": ".join(filter(None, [way, ", ".join(_shown_headers(self.entry.headers))]))


def shown_url(url: str) -> str:
    """The URL with its host and path, and the names of what its query says."""
    found = _URL.fullmatch(_without_defaults(url))
    if found is None:
        return MASK
    scheme, user, path, rest = found.groups()
    return f"{scheme}{f'{MASK}@' if user else ''}{path}{unseen(rest, _SHOWN_OF_QUERY)}"


def _without_defaults(text: str) -> str:
    """A blank may carry a default, which may be a secret."""
    return BLANK.sub(lambda found: f"${{{found[1].partition(':-')[0]}}}", text)


def name_for(label: str) -> str:
    """A name that a service can have, as near to this one as may be."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", label).strip("-")[:60]


def planned(
    entry: Entry,
    *,
    name: str | None = None,
    values: Mapping[str, str] | None = None,
    allows_private: bool = False,
    taken: Iterable[str] = (),
) -> Planned:
    """The entry as a service. `values` are what was entered for its blanks, None before anybody was
    asked; nothing else fills them, the environment least of all. `taken` are names of others that
    are imported with it."""
    name = name_for(entry.label) if name is None else name
    given = {blank.key: (values or {}).get(blank.key, "").strip() for blank in entry.blanks}
    problems = [] if values is None else _missing(entry, given)
    if values is None:
        given = dict.fromkeys(given, _NOT_YET)
    form = ServiceForm(_fields(entry, name, given, allows_private), instance=Service())
    problems += [str(said) for errors in form.errors.values() for said in errors]
    if name in taken:
        problems.append(f"Another one of this file is to be called “{name}”.")
    return Planned(
        entry=entry, name=name, form=form, problems=tuple(problems), notes=tuple(_notes(entry))
    )


@transaction.atomic
def add_all(plans: Iterable[Planned]) -> list[Service]:
    """All of them or none."""
    added = []
    for plan in plans:
        added.append(plan.form.save())
        plan.form.store_secrets()
    return added


def _missing(entry: Entry, given: Mapping[str, str]) -> list[str]:
    said = [
        f"Enter a value for “{blank.name}”."
        for blank in entry.blanks
        if blank.is_required and not given[blank.key]
    ]
    values = [(blank.name, given[blank.key]) for blank in entry.blanks]
    said += [f"The value for “{name}” is too long." for name, text in values if _is_long(text)]
    odd = [name for name, text in values if not text.isprintable()]
    return said + [f"The value for “{name}” may have only one line." for name in odd]


def _is_long(value: str) -> bool:
    return len(value) > VALUE_CHARACTERS


def _fields(
    entry: Entry, name: str, given: Mapping[str, str], allows_private: bool
) -> dict[str, Any]:
    def fill(text: str) -> str:
        return BLANK.sub(lambda found: " ".join(given[found[1]].splitlines()), text)

    headers = {key: fill(text) for key, text in entry.headers.items()}
    known = model_to_dict(Service(), fields=ServiceForm.Meta.fields)
    return known | {
        "groups": [],
        "name": name,
        "title": entry.title[:100] or ("" if name == entry.label else entry.label[:100]),
        "description": entry.description[:1_000],
        "is_open": True,
        "url": fill(entry.url),
        "transport": entry.transport,
        "is_enabled": entry.is_enabled,
        "allows_private_addresses": allows_private,
        **_way_in(entry, {key: text for key, text in headers.items() if text}),
    }


def _way_in(entry: Entry, headers: Mapping[str, str]) -> dict[str, Any]:
    if entry.has_oauth:
        return {"authentication": Authentication.OAUTH_USER, "client_id": entry.client_id}
    if not headers:
        return {"authentication": Authentication.NONE}
    if bearer := _bearer(headers):
        return {"authentication": Authentication.BEARER, "bearer": bearer}
    lines = "\n".join(f"{name}: {text}" for name, text in headers.items())
    return {"authentication": Authentication.HEADERS, "headers": lines}


def _bearer(headers: Mapping[str, str]) -> str:
    """The token, where that is all there is."""
    [(name, text), *more] = headers.items()
    scheme, _, token = text.partition(" ")
    is_alone = not more and name.lower() == "authorization" and scheme.lower() == "bearer"
    return token.strip() if is_alone else ""


def _shown_headers(headers: Mapping[str, str]) -> list[str]:
    """The headers for a page: blanks as they are, and nothing else of a value."""
    return [
        f"{name} {unseen(_without_defaults(text), _SHOWN_OF_HEADER)}"
        for name, text in headers.items()
    ]


def _notes(entry: Entry) -> list[str]:
    there = Service.objects.filter(url=entry.url).first()
    notes = [f"There is a service at this address already: {there.name}."] if there else []
    return notes if entry.is_enabled else [*notes, "It is switched off, as it was there."]
