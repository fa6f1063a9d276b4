"""Stored reasons as an admin reads them. Some of them address the member."""

from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _lazy

from chatapp.permissions import reasons

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

_ABOUT_MEMBER: "dict[str, StrOrPromise]" = {
    reasons.ALLOWED_IN_ADVANCE: _lazy("Runs because %(person)s allowed this tool in advance."),
    reasons.USED_ONCE_TODAY: _lazy(
        "Needs approval because %(person)s had used this tool once that day (UTC). Daily limit: "
        "%(limit)s."
    ),
    reasons.USED_TODAY: _lazy(
        "Needs approval because %(person)s had used this tool %(times)s times that day (UTC). "
        "Daily limit: %(limit)s."
    ),
    reasons.TAINTED_DESPITE_CONSENT: _lazy(
        "Needs approval although %(person)s allowed this tool in advance. Before this call, the "
        "answer read untrusted content from “%(service)s”."
    ),
}


def translate_for_admin(reason: str, person: str) -> str:
    """Return a stored reason about this person in the admin's language."""
    template, values = reasons.split_reason(reason)
    if sentence := _ABOUT_MEMBER.get(template):
        return str(sentence) % {**values, "person": person}
    return reasons.translate_reason(reason)
