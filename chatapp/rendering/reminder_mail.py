"""The words of a mail about what waits: service, tool and risk, never a value of a call."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.template.loader import render_to_string

from chatapp.models import Member

from .inbox import WISHES, Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that waits, and the link that opens it."""

    waiting: Waiting
    link: str

    @property
    def wish(self) -> str:
        return WISHES[self.waiting.kind].heading

    @property
    def service(self) -> str:
        """As an admin named it. The words of the service itself stay out of mails, since they could
        lead people anywhere; a tool's id has letters, digits and three signs."""
        return str(self.waiting.call.service or "none")


def letter_of(person: Member, items: Sequence[Item], home: str) -> tuple[str, str]:
    """Subject and text."""
    count = len(items)
    subject = f"{count} thing{' waits' if count == 1 else 's wait'} for you in Countersign"
    context = {"person": person, "items": items, "home": home}
    return subject, render_to_string("mail/reminder.txt", context)
