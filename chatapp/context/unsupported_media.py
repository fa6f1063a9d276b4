"""Pictures and documents before a model that cannot take them: replaced before anything is sent by
words for the model, with a notice for the person."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from chatapp.models import Turn
from chatapp.providers.abilities import Abilities
from chatapp.providers.request import HistoryItem, Media, ToolOutcome, UserMessage
from chatapp.rendering.media import byte_count

from .attachments import in_words
from .journal import Entry
from .top_notices import UNSEEN, note_once

MOST_NAMED = 5
TOOLS_REFUSED = "This model cannot use tools, so it was offered none."
FILES_REFUSED = "The model was shown none of the files: its provider refused them."


def visible_to(abilities: Abilities, items: Iterable[HistoryItem]) -> tuple[HistoryItem, ...]:
    """The history with words for what this model cannot take: those of a PDF, where there are."""
    return tuple(
        _without(item, unseen)
        if isinstance(item, UserMessage | ToolOutcome) and (unseen := _unseen(abilities, item))
        else item
        for item in items
    )


def unseen_in(turn: Turn, abilities: Abilities, items: Sequence[HistoryItem]) -> tuple[str, ...]:
    """What this model is not shown of what is new to it, as sentences for the notice: of the
    question and what followed it, and of all that came before when another model was asked until
    now, or when new files left no room for old ones."""
    asked = [n for n, item in enumerate(items) if isinstance(item, UserMessage)]
    latest = items[asked[-1] if asked else 0 :]
    unseen = _all_unseen(abilities, latest if _knows_the_rest(turn) else items)
    if any(_media_of(item) for item in latest):
        unseen += [each for each in _all_unseen(abilities, items) if not each.base64]
    by_reason: dict[str, list[str]] = {}
    for each in unseen:
        by_reason.setdefault(_reason(abilities, each), []).append(_name(each))
    return tuple(_sentence(reason, names) for reason, names in by_reason.items())


def _knows_the_rest(turn: Turn) -> bool:
    """Whether people were told already, as far as this model goes."""
    earlier = Turn.objects.filter(conversation_id=turn.conversation_id).exclude(pk=turn.pk)
    return not earlier.exists() or earlier.filter(model=turn.model).exists()


def _all_unseen(abilities: Abilities, items: Iterable[HistoryItem]) -> list[Media]:
    return [each for item in items for each in _unseen(abilities, item)]


def note_unseen(turn: Turn, unseen: Sequence[str]) -> list[Entry]:
    """Store the notice inside the caller's transaction; returns what the journal must say."""
    hint = "Choose another model and send it again, if it matters."
    return note_once(turn, UNSEEN, " ".join(unseen), hint)


def _media_of(item: HistoryItem) -> tuple[Media, ...]:
    return item.media if isinstance(item, UserMessage | ToolOutcome) else ()


def _unseen(abilities: Abilities, item: HistoryItem) -> list[Media]:
    return [
        each
        for each in _media_of(item)
        if not (each.base64 and abilities.takes(each.media_type, byte_count(each.base64)))
    ]


def _without(item: UserMessage | ToolOutcome, unseen: list[Media]) -> HistoryItem:
    told = [item.text]
    for each in unseen:
        why = "this model cannot take it" if each.base64 else "the request has no room for it"
        told.append(f"[Left out, because {why}: {_name(each)}]")
        told += [each.words] if each.words else []
    kept = tuple(each for each in item.media if each not in unseen)
    return replace(item, text="\n\n".join(filter(None, told)), media=kept)


def _reason(abilities: Abilities, media: Media) -> str:
    what = "pictures" if media.is_picture else "PDF files"
    most = abilities.most(media.media_type)
    if not most and media.is_picture and abilities.picture_bytes:
        what = f"{media.media_type.removeprefix('image/').upper()} pictures"
    if most and not media.base64:
        reason = "There is no room for it beside newer files"
    elif most:
        reason = f"It takes {what} of up to {in_words(most)}"
    else:
        reason = f"It takes no {what}"
    return f"{reason}, and it got the words instead." if media.words else f"{reason}."


def _sentence(reason: str, names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    more = len(shown) - MOST_NAMED
    listed = ", ".join(shown[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"The model was not shown {listed}. {reason}"


def _name(media: Media) -> str:
    return f"“{media.name}”" if media.name else f"a file ({media.media_type})"
