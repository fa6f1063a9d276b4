"""Stores the selected chats of a file as chats of its person, and takes them back.

Each chat is stored whole or not at all. Its calls are texts (`CopiedCall`), so they have no
approval, are never sent and count nowhere. Other people and programs may have written anything in
it, so all of it counts as untrusted content in every turn, like a shared copy.
"""

import logging
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Count, Exists, F, OuterRef, QuerySet, Sum
from django.db.models.functions import Now
from django.utils import timezone

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.context.attachments import NAME_CHARACTERS
from chatapp.models import (
    Attachment,
    ChatImport,
    Conversation,
    ListedChat,
    LogEntry,
    Member,
    Message,
    Part,
    ToolCall,
    Turn,
)
from chatapp.models.conversations.copied_call import CopiedCall
from mcpconfig.values.results import make_storable

from .archive import UnreadableFile
from .brought_files import BroughtFile, FileIntake, Found
from .file_store import delete_file
from .packed_files import PackedFiles
from .reading import BROKEN, ReadChat, find_twins, read_chats
from .values import (
    MAX_TEXT_CHARACTERS,
    Call,
    Piece,
    Reason,
    Reasoning,
    Recording,
    Result,
    SourceFile,
    Text,
    TextFile,
    TreeMessage,
)

log = logging.getLogger(__name__)
State = ChatImport.State
# A run ends after this time, well before TASKS_MAX_SECONDS, and another one continues.
RUN_SECONDS = 45.0
ROWS_AT_ONCE = 1_000
CUT = "\n\n[The rest of this text was not imported.]"
RECORDING = "[Voice recording, not imported]"
NOT_IMPORTED = {
    "picture": "[Picture, not imported{}]",
    "file": "[File, not imported{}]",
}
WHY = {
    Reason.MISSING: "not in the export",
    Reason.KIND: "of a kind that cannot be attached",
    Reason.LARGE: "too large",
    Reason.DAMAGED: "damaged",
    Reason.UNREADABLE: "could not be read",
    Reason.MESSAGE: "too many files in one message",
    Reason.MANY: "too many files in one import",
}
NO_RESULT = "The export has no result of this call."
TOOL_ID_CHARACTERS = 60
MARK_CHARACTERS = Conversation._meta.get_field("tainted_by").max_length or 0


def import_chats(chat_import: ChatImport) -> bool:
    """Store the selected chats that are not stored yet. Return whether some are left for another
    run. Two runs at once store each chat once."""
    if chat_import.state != State.IMPORTING:
        return False
    end: float | None = None
    selected = chat_import.chats.filter(is_selected=True, conversation=None, problem="")
    left = dict(selected.values_list("number", "pk"))
    files = _continue_with_files(chat_import)
    intake = FileIntake(files)
    try:
        for chat in read_chats(chat_import, files, left):
            if chat is None or (pk := left.pop(chat.number, None)) is None:
                continue
            # The way to the first chat that is left does not count: each run stores several.
            end = end or time.monotonic() + RUN_SECONDS
            _import_guarded(chat_import, chat, pk, intake)
            if time.monotonic() >= end and left:
                return True
            if not left:
                break
    except UnreadableFile:
        # The chats that were listed come before the place where the file breaks off.
        log.warning("An import ended early, because its file could not be read again")
    finish(chat_import)
    return False


def _continue_with_files(chat_import: ChatImport) -> PackedFiles:
    """Return the files beside the chats. Those that earlier runs stored count for the limits."""
    chats = chat_import.chats.filter(conversation__isnull=False).values("conversation")
    stored = Attachment.objects.filter(part__message__conversation__in=chats)
    facts = stored.aggregate(count=Count("pk"), size=Sum("size"))
    return PackedFiles(facts["count"], facts["size"] or 0)


def _import_guarded(
    chat_import: ChatImport, chat: ReadChat, listed_id: int, intake: FileIntake
) -> None:
    """Store a chat. One that cannot be stored keeps no other from being stored."""
    try:
        _import_one(chat_import, chat, listed_id, intake)
    except (InterfaceError, OperationalError):
        raise
    except Exception:
        log.exception("A chat of a file could not be stored")
        ListedChat.objects.filter(pk=listed_id).update(problem=BROKEN)


def _import_one(
    chat_import: ChatImport, chat: ReadChat, listed_id: int, intake: FileIntake
) -> None:
    """Store a chat and note that it was, unless another run did so."""
    person = chat_import.person
    open_rows = ListedChat.objects.filter(
        pk=listed_id, conversation=None, chat_import__state=State.IMPORTING
    )
    if not open_rows.exists():
        return
    # Before the transaction: reading and storing files takes a while.
    found = intake.take_all(chat.messages)
    with transaction.atomic():
        # One import of a person at a time, so that a chat of two files is stored once.
        list(Member.objects.select_for_update(no_key=True).filter(pk=person.pk).only("pk"))
        listed = open_rows.select_for_update(of=("self",)).first()
        if listed is None:
            return
        if _is_stored_meanwhile(listed, person):
            ListedChat.objects.filter(pk=listed_id).update(is_selected=False)
            return
        conversation = _store_chat(person, chat, found, intake)
        ListedChat.objects.filter(pk=listed_id).update(conversation=conversation)
        ChatImport.objects.filter(pk=chat_import.pk).update(progress=F("progress") + 1)


def _is_stored_meanwhile(listed: ListedChat, person: Member) -> bool:
    """Whether another import of the person stored this chat after the page showed it as new. What
    this import stored is a double in its file, which the person selected."""
    twin = find_twins(person, {listed.origin}).get(listed.origin)
    if twin is None or listed.twin_id is not None:
        return False
    same = ListedChat.objects.filter(chat_import=listed.chat_import_id, conversation=twin)
    return not same.exists()


def finish(chat_import: ChatImport) -> None:
    """End the import, log it once, and forget the file."""
    _end(chat_import)
    delete_file(chat_import)


@transaction.atomic
def _end(chat_import: ChatImport) -> None:
    mine = ChatImport.objects.filter(pk=chat_import.pk, state=State.IMPORTING)
    stored = chat_import.chats.filter(conversation__isnull=False).count()
    if mine.update(state=State.DONE, progress=stored, total=stored):
        # What was not chosen is not needed any more.
        chat_import.chats.filter(conversation=None, is_selected=False).delete()
        _log(chat_import, LogEntry.Kind.CHATS_IMPORTED, stored)


def _log(chat_import: ChatImport, kind: LogEntry.Kind, count: int) -> None:
    who = Who.of(chat_import.person)
    data = {"of": chat_import.source, "import": str(chat_import.pk), "chats": count}
    audit_log.append([AuditEvent(kind=kind, data=data, actor=who, person=who)])


def filter_continued(chat_import: ChatImport) -> QuerySet[Conversation]:
    """Return the chats of this import in which its person went on."""
    went_on = Exists(Turn.objects.filter(conversation=OuterRef("pk")))
    mine = Conversation.objects.filter(owner=chat_import.person, deleted_at=None)
    ids = chat_import.chats.filter(conversation__isnull=False).values("conversation")
    return mine.filter(went_on, pk__in=ids)


@transaction.atomic
def undo(chat_import: ChatImport) -> int:
    """Delete the chats of this import, except those in which the person went on. Return how many
    were deleted. They can be restored like any deleted chat."""
    mine = ChatImport.objects.filter(pk=chat_import.pk, state=State.DONE)
    if not mine.update(state=State.UNDONE):
        return 0
    ids = chat_import.chats.filter(conversation__isnull=False).values("conversation")
    unused = Conversation.objects.filter(pk__in=ids, owner=chat_import.person, deleted_at=None)
    unused = unused.exclude(pk__in=filter_continued(chat_import).values("pk"))
    deleted = unused.update(deleted_at=Now())
    _log(chat_import, LogEntry.Kind.IMPORT_UNDONE, deleted)
    return deleted


# --- one chat ----------------------------------------------------------------------------------
def _store_chat(person: Member, chat: ReadChat, found: Found, intake: FileIntake) -> Conversation:
    conversation = _create_chat(person, chat)
    messages = [
        Message(
            conversation=conversation,
            role=each.side,
            is_shown=each.is_shown,
            created_seq=number,
            touched_seq=number,
        )
        for number, each in enumerate(chat.messages, start=1)
    ]
    first = conversation.created_at
    for message, each in zip(messages, chat.messages, strict=True):
        message.parent = None if each.parent is None else messages[each.parent]
    for some in _batch(messages):
        Message.objects.bulk_create(some)
    # `auto_now_add` has set the time of the import.
    for message, each in zip(messages, chat.messages, strict=True):
        message.created_at = each.created_at or first
    for some in _batch(messages):
        Message.objects.bulk_update(some, ["created_at"])
    builder = _PartBuilder(conversation, found, intake)
    for some in _batch(zip(messages, chat.messages, strict=True)):
        builder.store(some)
    return conversation


def _batch(rows: Iterable[Any]) -> Iterator[list[Any]]:
    some: list[Any] = []
    for row in rows:
        some.append(row)
        if len(some) >= ROWS_AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _create_chat(person: Member, chat: ReadChat) -> Conversation:
    parents = [each.parent for each in chat.messages]
    count = len(parents)
    has_versions = len(set(parents)) < count
    now = timezone.now()
    begun_at, active_at = _choose_times(chat, now)
    conversation = Conversation.objects.create(
        owner=person,
        title=chat.title,
        imported_from=chat.format.name,
        tainted_by=f"chat imported from {chat.format.name}"[:MARK_CHARACTERS],
        is_shared_copy=True,
        read_at=now,
        last_seq=count,
        branched_seq=count if has_versions else 0,
    )
    conversation.created_at, conversation.active_at = begun_at, active_at
    conversation.save(update_fields=["created_at", "active_at"])
    return conversation


def _choose_times(chat: ReadChat, now: datetime) -> tuple[datetime, datetime]:
    times = [each.created_at for each in chat.messages if each.created_at]
    begun_at = chat.source.created_at or min(times, default=now)
    active_at = chat.source.active_at or max(times, default=begun_at)
    return begun_at, max(begun_at, active_at)


class _PartBuilder:
    """Stores the pieces of the messages of one chat."""

    def __init__(self, conversation: Conversation, found: Found, intake: FileIntake) -> None:
        self._conversation = conversation
        self._found = found
        self._intake = intake

    def store(self, messages: Iterable[tuple[Message, TreeMessage]]) -> None:
        parts: list[Part] = []
        files: list[tuple[Part, BroughtFile]] = []
        for message, each in messages:
            for position, part in enumerate(self._build_parts(message, each)):
                parts.append(part)
                file = self._found.get((message.created_seq - 1, position))
                if isinstance(file, BroughtFile):
                    files.append((part, file))
        Part.objects.bulk_create(parts, batch_size=ROWS_AT_ONCE)
        for part, file in files:
            self._intake.attach(part, file)

    def _build_parts(self, message: Message, said: TreeMessage) -> Iterator[Part]:
        """Yield a part for each piece. What follows a call is in another step: a model says it
        after it has read the outcome."""
        step = 0 if said.side == "user" else 1
        was_call = False
        for position, piece in enumerate(said.pieces):
            is_call = isinstance(piece, Call | Result)
            if said.side == "assistant":
                step += was_call and not is_call
            was_call = is_call
            yield self._build_part(piece, message, step, position)

    def _build_part(self, piece: Piece, message: Message, step: int, position: int) -> Part:
        part = Part(message=message, step=step, position=position, kind=Part.Kind.TEXT)
        match piece:
            case Text():
                part.text = cut_text(piece.text)
            case Reasoning():
                part.kind, part.text = Part.Kind.REASONING, cut_text(piece.text)
            case Recording():
                part.text = RECORDING
            case SourceFile() | TextFile():
                found = self._found[message.created_seq - 1, position]
                if isinstance(found, BroughtFile):
                    part.kind = Part.Kind.FILE
                elif isinstance(piece, SourceFile):
                    part.text = _say_left_out(piece, found)
            case Call():
                part.kind = Part.Kind.COPIED_CALL
                part.copied_call = self._copy_call(piece).store()
            case Result():
                # A tree gives each result to a call.
                part.text = cut_text(piece.text)
        return part

    def _copy_call(self, call: Call) -> CopiedCall:
        state = ToolCall.State.FAILED if call.is_error else ToolCall.State.SUCCEEDED
        if call.result is None:
            state = ToolCall.State.UNKNOWN
        fits = len(call.arguments) <= MAX_TEXT_CHARACTERS
        return CopiedCall(
            call_id=f"call_{uuid.uuid4().hex}",
            tool_id=make_tool_id(call.tool),
            arguments=make_storable(call.arguments) if fits else "{}",
            changed_arguments="",
            outcome=NO_RESULT if call.result is None else cut_text(call.result),
            is_error=call.is_error or call.result is None,
            title=make_storable(call.tool)[:NAME_CHARACTERS],
            service=self._conversation.imported_from,
            state=state,
            result_of=None,
        )


def _say_left_out(file: SourceFile, reason: Reason) -> str:
    name = f": {make_storable(file.name)[:NAME_CHARACTERS]}" if file.name else ""
    return NOT_IMPORTED[file.what].format(f"{name} ({WHY[reason]})")


def cut_text(text: str) -> str:
    """Return a text that can be stored and shown."""
    kept = str(make_storable(text))
    return kept if len(kept) <= MAX_TEXT_CHARACTERS else kept[:MAX_TEXT_CHARACTERS] + CUT


def make_tool_id(name: str) -> str:
    """Return a name that every provider takes in a history."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:TOOL_ID_CHARACTERS].strip("_-")
    return plain if plain[:1].isalpha() else f"tool_{plain}".rstrip("_")
