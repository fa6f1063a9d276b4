"""Reasoning as OpenRouter writes it beside its words: sealed by the model's maker, and to be sent
back as it came."""

from collections.abc import Iterable
from typing import Any

from .words import as_list, storable

Detail = dict[str, Any]

FIELD = "reasoning_details"
# What a stream adds to in pieces. What is encrypted comes whole.
GROWING = ("text", "summary")


def details_in(delta: dict[str, Any]) -> list[Detail]:
    return [detail for detail in as_list(delta.get(FIELD)) if isinstance(detail, dict)]


def words_of(details: Iterable[Detail]) -> str:
    return "".join(storable(detail.get(name)) for detail in details for name in GROWING)


def joined(details: Iterable[Detail]) -> list[Detail]:
    """Pieces of a stream as the details that they are pieces of."""
    found: list[Detail] = []
    for detail in details:
        if found and _goes_on(found[-1], detail):
            grown = {
                name: f"{found[-1].get(name) or ''}{detail[name]}"
                for name in GROWING
                if isinstance(detail.get(name), str)
            }
            known = {name: value for name, value in detail.items() if value is not None}
            found[-1] = found[-1] | known | grown
        else:
            found.append(detail)
    return found


def _goes_on(before: Detail, detail: Detail) -> bool:
    """A signature is the end of a detail."""
    same = all(before.get(name) == detail.get(name) for name in ("type", "index"))
    grows = any(isinstance(each.get(name), str) for each in (before, detail) for name in GROWING)
    is_signed = bool(before.get("signature")) and bool(words_of([detail]))
    return same and grows and not is_signed
