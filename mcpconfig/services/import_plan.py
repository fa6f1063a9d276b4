"""The plan of an import: the services that would be added, validated with the form of the admin."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.forms import model_to_dict
from django.utils.translation import gettext as _

from mcpconfig.models import Service
from mcpconfig.values.import_formats import PLACEHOLDER, Entry
from mcpconfig.values.masking import MASK, mask_all_except

from .service_form import ServiceForm

Authentication = Service.Authentication
# Replaces values that are not entered yet, so that the rest of the form can be validated.
_DUMMY_VALUE = "x"
MAX_VALUE_CHARACTERS = 2_000
# The parts of a header and of a query that are not masked: placeholders, authentication schemes and
# parameter names. Everything else may be a part of a secret.
_VISIBLE_IN_HEADER = re.compile(r"^(?:Bearer|Basic) |\$\{[^{}]+\}", re.IGNORECASE)
_VISIBLE_IN_QUERY = re.compile(r"(?:^[?#]|&)(?:[\w.~-]+=(?=[^=&#]))?|\$\{[^{}]+\}")
_URL = re.compile(r"(https?://)([^/?#]*@)?([^?#]*)(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may use the services of an import: only admins, unless somebody chose more."""

    visibility: str = Service.Visibility.PRIVATE
    groups: Sequence[str | int] = ()


ONLY_ADMINS = Access()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """An entry with the service that it would become. With `problems` it cannot be saved."""

    entry: Entry
    name: str
    form: ServiceForm
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return mask_url(self.entry.url)

    @property
    def sign_in(self) -> str:
        """The authentication method and the masked headers, as text without any secret."""
        method = Authentication(self.form.data["authentication"])
        label = _("no sign-in") if method == Authentication.NONE else str(method.label)
        return ": ".join(filter(None, [label, ", ".join(_mask_headers(self.entry.headers))]))


def mask_url(url: str) -> str:
    """Return the URL with its host, path and parameter names. Everything else is masked."""
    matched = _URL.fullmatch(_drop_defaults(url))
    if matched is None:
        return MASK
    scheme, user, path, rest = matched.groups()
    return f"{scheme}{f'{MASK}@' if user else ''}{path}{mask_all_except(rest, _VISIBLE_IN_QUERY)}"


def _drop_defaults(text: str) -> str:
    """Remove the default values of placeholders, which may be secrets."""
    return PLACEHOLDER.sub(lambda matched: f"${{{matched[1].partition(':-')[0]}}}", text)


def suggest_name(label: str) -> str:
    """Return a valid name for a service that is similar to `label`."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", label).strip("-")[:60]


def plan_service(
    entry: Entry,
    *,
    name: str | None = None,
    values: Mapping[str, str] | None = None,
    allows_private: bool = False,
    access: Access = ONLY_ADMINS,
    taken: Iterable[str] = (),
) -> ImportPlan:
    """Return the plan for an entry.

    `values` are the entered values of its placeholders, or None before the preview was shown.
    Placeholders are never filled from the environment. `taken` are the names of other services
    in the same import.
    """
    name = suggest_name(entry.label) if name is None else name
    values_by_key = {
        blank.key: (values or {}).get(blank.key, "").strip() for blank in entry.placeholders
    }
    problems = [] if values is None else _find_value_problems(entry, values_by_key)
    if values is None:
        values_by_key = dict.fromkeys(values_by_key, _DUMMY_VALUE)
    form = ServiceForm(
        _build_fields(entry, name, values_by_key, allows_private, access), instance=Service()
    )
    problems += [str(error) for errors in form.errors.values() for error in errors]
    if name in taken:
        problems.append(_("Another service in this file has the name “%(name)s”.") % {"name": name})
    return ImportPlan(
        entry=entry, name=name, form=form, problems=tuple(problems), notes=tuple(_list_notes(entry))
    )


@transaction.atomic
def add_planned(plans: Iterable[ImportPlan]) -> list[Service]:
    """Add the services of these plans, all of them or none."""
    added = []
    for plan in plans:
        added.append(plan.form.save())
        plan.form.store_secrets()
    return added


def _find_value_problems(entry: Entry, values_by_key: Mapping[str, str]) -> list[str]:
    problems = [
        _("Enter a value for “%(name)s”.") % {"name": blank.name}
        for blank in entry.placeholders
        if blank.is_required and not values_by_key[blank.key]
    ]
    values = [(blank.name, values_by_key[blank.key]) for blank in entry.placeholders]
    problems += [
        _("The value for “%(name)s” is too long.") % {"name": name}
        for name, text in values
        if _is_too_long(text)
    ]
    unprintable = [name for name, text in values if not text.isprintable()]
    return problems + [
        _("The value for “%(name)s” must be on one line.") % {"name": name} for name in unprintable
    ]


def _is_too_long(value: str) -> bool:
    return len(value) > MAX_VALUE_CHARACTERS


def _build_fields(
    entry: Entry,
    name: str,
    values_by_key: Mapping[str, str],
    allows_private: bool,
    access: Access,
) -> dict[str, Any]:
    def fill(text: str) -> str:
        return PLACEHOLDER.sub(
            lambda matched: " ".join(values_by_key[matched[1]].splitlines()), text
        )

    headers = {key: fill(text) for key, text in entry.headers.items()}
    defaults = model_to_dict(Service(), fields=ServiceForm.Meta.fields)
    return defaults | {
        "visibility": access.visibility,
        "groups": list(access.groups),
        "name": name,
        "title": entry.title[:100] or ("" if name == entry.label else entry.label[:100]),
        "description": entry.description[:1_000],
        "is_open": True,
        "url": fill(entry.url),
        "transport": entry.transport,
        "is_enabled": entry.is_enabled,
        "allows_private_addresses": allows_private,
        **_build_sign_in_fields(entry, {key: text for key, text in headers.items() if text}),
    }


def _build_sign_in_fields(entry: Entry, headers: Mapping[str, str]) -> dict[str, Any]:
    if entry.has_oauth:
        return {"authentication": Authentication.OAUTH_USER, "client_id": entry.client_id}
    if not headers:
        return {"authentication": Authentication.NONE}
    if bearer := _find_bearer_token(headers):
        return {"authentication": Authentication.BEARER, "bearer": bearer}
    lines = "\n".join(f"{name}: {text}" for name, text in headers.items())
    return {"authentication": Authentication.HEADERS, "headers": lines}


def _find_bearer_token(headers: Mapping[str, str]) -> str:
    """Return the bearer token if `Authorization` is the only header, or an empty string."""
    [(name, text), *more] = headers.items()
    scheme, _space, token = text.partition(" ")
    is_alone = not more and name.lower() == "authorization" and scheme.lower() == "bearer"
    return token.strip() if is_alone else ""


def _mask_headers(headers: Mapping[str, str]) -> list[str]:
    """Return the headers with everything masked except placeholders and the scheme."""
    return [
        f"{name} {mask_all_except(_drop_defaults(text), _VISIBLE_IN_HEADER)}"
        for name, text in headers.items()
    ]


def _list_notes(entry: Entry) -> list[str]:
    existing = Service.objects.filter(url=entry.url).first()
    notes = []
    if existing:
        notes.append(
            _("There is already a service at this address: %(name)s.") % {"name": existing.name}
        )
    return notes if entry.is_enabled else [*notes, _("It is off, as in the file.")]
