"""Saved prompts: finding those that a person may use, and how many one may have."""

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from chatapp.models import Member, SavedPrompt
from chatapp.models.conversations.search_text import match_all, match_any
from chatapp.models.presets.saved_prompt import PROMPTS_PER_PERSON
from chatapp.people.refused import Refused

MAX_WORDS = 8
SUGGESTED_PROMPTS = 5


def find_prompts(person: Member, query: str) -> "QuerySet[SavedPrompt]":
    """Return the prompts that this person may use, with all these words in titles or texts."""
    words = query.split()[:MAX_WORDS]
    return SavedPrompt.filter_usable(person).filter(match_all(["title", "text"], words))


def suggest_prompts(person: Member, beginning: str) -> list[SavedPrompt]:
    """Return some prompts with this in their titles, for a message that begins with a slash."""
    usable = SavedPrompt.filter_usable(person)
    found = usable.filter(match_any("title", [beginning])) if beginning else usable
    return list(found[:SUGGESTED_PROMPTS])


def check_exists(prompt: SavedPrompt) -> None:
    """Raise Refused if the prompt was deleted meanwhile. Locks it until the commit."""
    if not SavedPrompt.objects.select_for_update().filter(pk=prompt.pk).exists():
        raise Refused(_("The prompt was deleted meanwhile."), 409)


def check_number(person: Member) -> None:
    """Raise Refused if this person has as many prompts as they may have. Locks the person until
    the commit, so that concurrent requests do not exceed the limit."""
    Member.objects.select_for_update(no_key=True).get(pk=person.pk)
    if SavedPrompt.objects.filter(owner=person).count() >= PROMPTS_PER_PERSON:
        sentence = _("You have %(count)d saved prompts, which is the limit. Delete one first.")
        raise Refused(sentence % {"count": PROMPTS_PER_PERSON}, 409)
