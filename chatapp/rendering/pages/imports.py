"""What an import brings along, leaves out or changes, in words."""

from collections.abc import Callable, Iterator, Mapping

from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.rendering.sizes import format_size

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


# Pictures and files that come along, and those that do not, by `imports.values.name_count`.
_BROUGHT: dict[str, Callable[[int], str]] = {
    "pictures": lambda count: ngettext("%(count)s picture", "%(count)s pictures", count),
    "files": lambda count: ngettext("%(count)s file", "%(count)s files", count),
}
_LEFT_OUT: dict[str, Callable[[int], str]] = {
    "pictures": lambda count: ngettext(
        "%(count)s picture is left out: %(reason)s",
        "%(count)s pictures are left out: %(reason)s",
        count,
    ),
    "files": lambda count: ngettext(
        "%(count)s file is left out: %(reason)s", "%(count)s files are left out: %(reason)s", count
    ),
}
# By `imports.values.Reason`, without the one that only the import itself finds out.
_REASONS: dict[str, Callable[[], str]] = {
    "missing": lambda: _("not in the export"),
    "kind": lambda: _("of a kind that cannot be attached"),
    "large": lambda: (
        _("over the limit of %(most)s") % {"most": format_size(settings.FILE_MAX_BYTES)}
    ),
    "damaged": lambda: _("damaged"),
    "message": lambda: (
        _("over the limit of a message, %(count)s files or %(most)s")
        % {"count": settings.MESSAGE_MAX_FILES, "most": format_size(settings.MESSAGE_MAX_BYTES)}
    ),
    "many": lambda: _("over the limit of an import, 10,000 files or 500 MB"),
}


def describe_brought(counts: Mapping[str, int]) -> list[str]:
    """Return the numbers of pictures and files that come along."""
    return [
        sentence(count) % {"count": intcomma(count)}
        for what, sentence in _BROUGHT.items()
        if (count := counts.get(f"{what}_brought", 0))
    ]


def describe_losses(losses: Mapping[str, int]) -> list[str]:
    return [*_describe_left_out(losses), *_describe_others(losses)]


def _describe_left_out(losses: Mapping[str, int]) -> Iterator[str]:
    for what, sentence in _LEFT_OUT.items():
        for reason, explain in _REASONS.items():
            if count := losses.get(f"{what}_{reason}", 0):
                yield sentence(count) % {"count": intcomma(count), "reason": explain()}


def _describe_others(losses: Mapping[str, int]) -> Iterator[str]:
    for loss, sentence in _SENTENCES.items():
        if count := losses.get(loss, 0):
            yield sentence(count) % {"count": intcomma(count)}
