"""Reads an uploaded file and lists the chats in it, for its person to choose from."""

import hashlib
import logging
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from chatapp.models import ChatImport, Conversation, ListedChat, Member
from chatapp.models.conversations.chat_import import ORIGIN_CHARACTERS
from chatapp.server.languages import speaking
from mcpconfig.values.results import make_storable

from .archive import UnreadableFile, iterate_chats
from .brought_files import count_files
from .chat_tree import TooManyMessages, build_tree
from .file_store import delete_file, open_file
from .packed_files import PackedFiles
from .source_formats import Format, find_format
from .values import (
    MAX_TEXT_CHARACTERS,
    Call,
    Loss,
    Reasoning,
    SourceChat,
    Text,
    TreeMessage,
    UnreadableChat,
)

log = logging.getLogger(__name__)
State = ChatImport.State
MAX_CHATS = 20_000
ROWS_AT_ONCE = 100
TITLE_CHARACTERS = Conversation._meta.get_field("title").max_length or 0
# Controls, and the marks that turn the direction of the text beside them.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffd]+")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# Stored, and translated when a page shows them.
NO_MESSAGES = gettext_noop("It has no messages.")
TOO_MANY_MESSAGES = gettext_noop("It has more than 10,000 messages.")
OTHER_VERSION = gettext_noop("It is of a newer version of Countersign.")
BROKEN = gettext_noop("It is damaged.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChat:
    """A chat of the file. `problem` says why it cannot be imported; then it has no messages."""

    number: int
    format: Format
    source: SourceChat
    messages: list[TreeMessage]
    files: PackedFiles
    problem: str = ""

    @property
    def title(self) -> str:
        return clean_title(self.source.title) or clean_title(_find_first_text(self.messages))

    @property
    def origin(self) -> str:
        """The program and its id for the chat. Without an id, the chat is recognised by its
        beginning."""
        own = self.source.origin_id
        if not own or len(own) > ORIGIN_CHARACTERS // 2 or not own.isprintable():
            beginning = [self.source.title, *(repr(each.pieces) for each in self.messages[:4]), own]
            own = hashlib.sha256("\0".join(beginning).encode("utf-8", "replace")).hexdigest()
        return f"{self.format.key}:{own}"


def read_chats(
    chat_import: ChatImport, files: PackedFiles, wanted: Container[int] | None = None
) -> Iterator[ReadChat | None]:
    """Yield the chats of the file, or only those at the places that are wanted, and None for an
    object that is none. Raises UnreadableFile, also after some of them."""
    with open_file(chat_import) as file:
        for number, raw in enumerate(iterate_chats(file, files)):
            if wanted is not None and number not in wanted:
                continue
            known = find_format(raw)
            yield _read_chat(number, known, raw, files) if known else None


def _read_chat(number: int, known: Format, raw: dict[str, Any], files: PackedFiles) -> ReadChat:
    empty = SourceChat(origin_id="", title="", created_at=None, active_at=None, nodes=())
    problem = ""
    try:
        source = known.read_chat(raw)
        messages = build_tree(source)
        source.losses[Loss.CUT] += sum(map(_count_cut, messages))
    except TooManyMessages:
        problem = TOO_MANY_MESSAGES
    except UnreadableChat:
        problem = OTHER_VERSION
    except Exception:
        # A file may have anything at any place, and the other chats can be imported.
        log.exception("A chat of a file could not be read")
        problem = BROKEN
    if problem:
        source, messages = empty, []
    elif not messages:
        problem = NO_MESSAGES
    return ReadChat(
        number=number,
        format=known,
        source=source,
        messages=messages,
        files=files,
        problem=problem,
    )


def _count_cut(message: TreeMessage) -> int:
    texts = (piece.text for piece in message.pieces if isinstance(piece, Text | Reasoning))
    results = (piece.result or "" for piece in message.pieces if isinstance(piece, Call))
    return sum(len(each) > MAX_TEXT_CHARACTERS for each in (*texts, *results))


def clean_title(title: str) -> str:
    """Return a title on one line that fits its column."""
    line = " ".join(_UNSEEN.sub(" ", make_storable(title[:1_000])).split())
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"


def _find_first_text(messages: list[TreeMessage]) -> str:
    pieces = (piece for message in messages[:1] for piece in message.pieces)
    return next((each.text for each in pieces if isinstance(each, Text)), "")


def list_chats(chat_import: ChatImport) -> None:
    """Store what the file has. A second run, or two at once, store the same."""
    if chat_import.state != State.READING:
        return
    with speaking(chat_import.person.reading_language):
        _list_chats(chat_import)


def _list_chats(chat_import: ChatImport) -> None:
    problem = ""
    listed = _Listed(chat_import)
    try:
        for chat in read_chats(chat_import, PackedFiles()):
            if chat is None:
                listed.unknown += 1
            elif listed.count >= MAX_CHATS:
                sentence = _("This file has more than %(most)s chats. The first ones are listed.")
                problem = sentence % {"most": MAX_CHATS}
                break
            else:
                listed.add(chat)
    except UnreadableFile as error:
        problem = str(error)
    listed.store()
    if not listed.count:
        _finish(chat_import, State.REFUSED, problem or _say_unknown())
        delete_file(chat_import)
        return
    if listed.unknown:
        problem = " ".join(filter(None, [problem, _say_left_out(listed.unknown)]))
    _finish(chat_import, State.READY, problem, source=listed.source, total=listed.count)


def _say_unknown() -> str:
    return _(
        "This file has no chats that Countersign knows. "
        "It can import exports of ChatGPT, Claude, LibreChat, Open WebUI and Countersign."
    )


def _say_left_out(count: int) -> str:
    sentence = ngettext(
        "%(count)s entry of this file is no chat and was left out.",
        "%(count)s entries of this file are no chats and were left out.",
        count,
    )
    return sentence % {"count": count}


def _finish(chat_import: ChatImport, state: str, problem: str, **values: object) -> None:
    mine = ChatImport.objects.filter(pk=chat_import.pk, state=State.READING)
    mine.update(state=state, problem=problem, progress=0, **values)


class _Listed:
    """The chats that were read, stored some at a time."""

    def __init__(self, chat_import: ChatImport) -> None:
        self._import = chat_import
        self._rows: list[ListedChat] = []
        self._origins: set[str] = set()
        self.count = 0
        self.unknown = 0
        self.source = ""

    def add(self, chat: ReadChat) -> None:
        is_double = not chat.problem and chat.origin in self._origins
        self._origins.add(chat.origin)
        times = [each.created_at for each in chat.messages if each.created_at]
        row = ListedChat(
            chat_import=self._import,
            number=chat.number,
            origin=chat.origin,
            source=chat.format.name,
            title=chat.title,
            begun_at=chat.source.created_at or min(times, default=None),
            active_at=chat.source.active_at or max(times, default=None),
            messages=len(chat.messages),
            losses=_count_losses(chat),
            problem=chat.problem,
            is_selected=not chat.problem and not is_double,
        )
        self._rows.append(row)
        self.count += 1
        self.source = self.source or chat.format.name
        if len(self._rows) >= ROWS_AT_ONCE:
            self.store()

    def store(self) -> None:
        twins = find_twins(self._import.person, {each.origin for each in self._rows})
        for row in self._rows:
            row.twin = twins.get(row.origin)
            row.is_selected = row.is_selected and row.twin is None
        ListedChat.objects.bulk_create(self._rows, ignore_conflicts=True)
        self._rows = []
        reading = ChatImport.objects.filter(pk=self._import.pk, state=State.READING)
        reading.update(progress=self.count)


def _count_losses(chat: ReadChat) -> dict[str, int]:
    counts = [*chat.source.losses.items(), *count_files(chat.messages, chat.files).items()]
    return {str(loss): count for loss, count in counts if count}


def find_twins(person: Member, origins: set[str]) -> dict[str, Conversation]:
    """Return the chats of this person that were imported from these before, or that they are
    exports of."""
    imported = ListedChat.objects.filter(
        chat_import__person=person,
        origin__in=origins,
        conversation__deleted_at=None,
        conversation__isnull=False,
    )
    twins = {each.origin: each.conversation for each in imported.select_related("conversation")}
    found = {origin: chat for origin, chat in twins.items() if chat is not None}
    ids = [each.removeprefix("countersign:") for each in origins if each.startswith("countersign:")]
    known = Conversation.filter_owned(person).filter(pk__in=_filter_ids(ids))
    return {f"countersign:{each.pk}": each for each in known} | found


def _filter_ids(ids: list[str]) -> list[str]:
    return [each for each in ids if _UUID.fullmatch(each)]
