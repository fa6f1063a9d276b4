"""Pictures and documents that a model cannot take: replaced by text before the request, with a
notice for the person."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatapp.journal.journal import UNSEEN, Entry, add_notice
from chatapp.models import Turn
from chatapp.providers.provider import Abilities
from chatapp.providers.request import (
    AssistantMessage,
    AssistantPart,
    HistoryItem,
    Media,
    SaidText,
    UserMessage,
)
from chatapp.rendering.results import count_bytes
from chatapp.rendering.sizes import format_size

MAX_NAMED = 5
TOOLS_REFUSED = gettext_lazy("This model cannot use tools, so it received none.")
FILES_REFUSED = gettext_lazy("The provider refused the files, so the model did not receive them.")


def replace_unsupported(
    abilities: Abilities, items: Iterable[HistoryItem]
) -> tuple[HistoryItem, ...]:
    """Return the history with text in place of what this model cannot take: for a PDF its own
    text, if it has one."""
    return tuple(
        _replace_media(item, unseen) if (unseen := _list_unsupported(abilities, item)) else item
        for item in items
    )


def describe_unsupported(
    turn: Turn, abilities: Abilities, items: Sequence[HistoryItem]
) -> tuple[str, ...]:
    """Return sentences for the notice about media that are new to this model and not sent.

    They cover the question and what followed it; the whole conversation if another model answered
    before; and older files that newer ones leave no room for.
    """
    if not any(_list_media(item) for item in items):
        return ()
    asked = [n for n, item in enumerate(items) if isinstance(item, UserMessage)]
    latest = items[asked[-1] if asked else 0 :]
    unseen = _list_all_unsupported(abilities, latest if _was_told_before(turn) else items)
    if any(_list_media(item) for item in latest):
        unseen += [each for each in _list_all_unsupported(abilities, items) if not each.base64]
    by_reason: dict[str, list[str]] = {}
    for each in unseen:
        by_reason.setdefault(_explain(abilities, each), []).append(_quote_name(each))
    return tuple(_write_sentence(reason, names) for reason, names in by_reason.items())


def _was_told_before(turn: Turn) -> bool:
    """Return whether an earlier notice of this model covers the older messages."""
    shown = Turn.objects.filter(conversation_id=turn.conversation_id, answer__is_shown=True)
    earlier = shown.exclude(pk=turn.pk)
    if not earlier.exists():
        # The older messages of a fork are copies, about which nothing was told.
        return not turn.conversation.has_copies
    return earlier.filter(model=turn.model).exists()


def _list_all_unsupported(abilities: Abilities, items: Iterable[HistoryItem]) -> list[Media]:
    return [each for item in items for each in _list_unsupported(abilities, item)]


def note_unsupported(turn: Turn, unseen: Sequence[str]) -> list[Entry]:
    """Store the notice inside the caller's transaction, and return the entries for the journal."""
    hint = _("Choose another model, then send the message again.")
    return add_notice(turn, UNSEEN, " ".join(unseen), hint)


def _list_media(item: HistoryItem) -> tuple[Media, ...]:
    """Return the files of a message or result, or the pictures that a model made."""
    if isinstance(item, AssistantMessage):
        return tuple(
            part.picture for part in item.parts if isinstance(part, SaidText) and part.picture
        )
    return item.media


def _list_unsupported(abilities: Abilities, item: HistoryItem) -> list[Media]:
    return [
        each
        for each in _list_media(item)
        if not (each.base64 and abilities.takes(each.media_type, count_bytes(each.base64)))
    ]


def _replace_media(item: HistoryItem, unseen: list[Media]) -> HistoryItem:
    if isinstance(item, AssistantMessage):
        return replace(item, parts=tuple(_drop_picture(part, unseen) for part in item.parts))
    told = [item.text]
    for each in unseen:
        why = "this model cannot take it" if each.base64 else "the request has no room for it"
        why = "its storage does not have it" if each.is_missing else why
        told.append(f"[Left out, because {why}: {_quote_name(each)}]")
        told += [each.words] if each.words else []
    kept = tuple(each for each in item.media if each not in unseen)
    return replace(item, text="\n\n".join(filter(None, told)), media=kept)


def _drop_picture(part: AssistantPart, unseen: list[Media]) -> AssistantPart:
    """Return the part without a picture that is not sent: only with the text that names it."""
    if isinstance(part, SaidText) and part.picture in unseen:
        return replace(part, picture=None, opaque=None)
    return part


def _explain(abilities: Abilities, media: Media) -> str:
    most = abilities.most(media.media_type)
    if media.is_missing:
        reason = _("It is missing from the file storage.")
    elif most and not media.base64:
        reason = _("Newer files used the available space.")
    elif most and media.is_picture:
        reason = _("It accepts images of up to %(size)s.") % {"size": format_size(most)}
    elif most:
        reason = _("It accepts PDF files of up to %(size)s.") % {"size": format_size(most)}
    elif media.is_picture and abilities.picture_bytes:
        kind = media.media_type.removeprefix("image/").upper()
        reason = _("It does not accept %(type)s images.") % {"type": kind}
    elif media.is_picture:
        reason = _("It does not accept images.")
    else:
        reason = _("It does not accept PDF files.")
    return f"{reason} {_('It received the text instead.')}" if media.words else reason


def _write_sentence(reason: str, names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    more = len(shown) - MAX_NAMED
    named = {"names": ", ".join(shown[:MAX_NAMED]), "count": more, "reason": reason}
    if more <= 0:
        return _("The model did not receive %(names)s. %(reason)s") % named
    sentence = ngettext(
        "The model did not receive %(names)s and %(count)d more file. %(reason)s",
        "The model did not receive %(names)s and %(count)d more files. %(reason)s",
        more,
    )
    return sentence % named


def _quote_name(media: Media) -> str:
    return f"“{media.name}”" if media.name else f"a file ({media.media_type})"
