"""What an import leaves out or changes, in words."""

from collections.abc import Callable, Mapping

from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.translation import ngettext

# By the values of `imports.values.Loss`, in the order in which pages say them.
_SENTENCES: dict[str, Callable[[int], str]] = {
    "calls": lambda count: ngettext(
        "%(count)s tool call becomes text and cannot run again",
        "%(count)s tool calls become text and cannot run again",
        count,
    ),
    "pictures": lambda count: ngettext(
        "%(count)s picture is left out", "%(count)s pictures are left out", count
    ),
    "voice": lambda count: ngettext(
        "%(count)s voice recording is left out", "%(count)s voice recordings are left out", count
    ),
    "files": lambda count: ngettext(
        "%(count)s file is left out", "%(count)s files are left out", count
    ),
    "instructions": lambda count: ngettext(
        "%(count)s instruction to the model is left out",
        "%(count)s instructions to the model are left out",
        count,
    ),
    "unknown": lambda count: ngettext(
        "%(count)s part of an unknown kind is left out or becomes text",
        "%(count)s parts of an unknown kind are left out or become text",
        count,
    ),
    "dates": lambda count: ngettext(
        "%(count)s message without a usable date gets the date of the message before it",
        "%(count)s messages without a usable date get the date of the message before them",
        count,
    ),
    "links": lambda count: ngettext(
        "%(count)s message whose place in the chat is unclear becomes another version",
        "%(count)s messages whose place in the chat is unclear become other versions",
        count,
    ),
    "cut": lambda count: ngettext(
        "%(count)s text of more than 500,000 characters is cut",
        "%(count)s texts of more than 500,000 characters are cut",
        count,
    ),
}


def describe_losses(losses: Mapping[str, int]) -> list[str]:
    return [
        sentence(count) % {"count": intcomma(count)}
        for loss, sentence in _SENTENCES.items()
        if (count := losses.get(loss, 0))
    ]
