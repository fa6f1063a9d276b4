"""What a person does with an import: begin it with a file, choose chats, start, discard and undo
it."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import IO

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from chatapp.models import ChatImport, ListedChat, Member
from chatapp.models.conversations.chat_import import NAME_CHARACTERS
from chatapp.people.refused import Refused
from chatapp.rendering.sizes import format_size
from mcpconfig.values.results import make_storable

from . import jobs
from .file_store import delete_file, store_file
from .storing import finish

State = ChatImport.State
FILE_KEPT = timedelta(days=1)
# Ended imports that a person's page lists.
MOST_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedFile:
    """An uploaded file. `size` counts all its bytes, also those that were dropped."""

    name: str
    size: int
    data: IO[bytes]


def begin(person: Member, file: ReceivedFile) -> ChatImport:
    """Keep a file, to be read by a worker. Raises Refused."""
    if not file.size:
        raise Refused(_("This file is empty. Choose another one."))
    if file.size > settings.IMPORT_MAX_BYTES:
        sentence = _(
            "This file has %(size)s. The limit is %(most)s. "
            "From a ZIP file, unpack the JSON file with the chats and choose that."
        )
        given = {"size": format_size(file.size), "most": format_size(settings.IMPORT_MAX_BYTES)}
        raise Refused(sentence % given)
    name = _clean_name(file.name)
    try:
        with transaction.atomic():
            begun = ChatImport.objects.create(person=person, file_name=name, size=file.size)
    except IntegrityError:
        raise Refused(
            _("Another import is open. Finish or discard it, then choose this file again."), 409
        ) from None
    try:
        store_file(begun, file.data)
        jobs.read_file.enqueue(str(begun.pk))
    except IntegrityError:
        # Discarded in another tab.
        raise Refused(_("This import was already started or discarded."), 409) from None
    except BaseException:
        _forget(begun)
        raise
    return begun


def _forget(chat_import: ChatImport) -> None:
    delete_file(chat_import)
    ChatImport.objects.filter(pk=chat_import.pk).delete()


def _clean_name(name: str) -> str:
    plain = "".join(each for each in make_storable(name) if each.isprintable()).strip()
    return plain[:NAME_CHARACTERS] or _("Unnamed file")


def find_open(person: Member) -> ChatImport | None:
    return ChatImport.objects.filter(person=person, state__in=ChatImport.OPEN).first()


def select_all(chat_import: ChatImport, *, is_on: bool) -> None:
    """Select all chats that are new, or none."""
    _filter_importable(chat_import).update(is_selected=False)
    if is_on:
        _filter_importable(chat_import).filter(twin=None).update(is_selected=True)


def select(chat_import: ChatImport, shown: Collection[int], chosen: Collection[int]) -> None:
    """Select those of the shown chats that were chosen, by their places in the file."""
    rows = _filter_importable(chat_import).filter(number__in=shown)
    rows.exclude(number__in=chosen).update(is_selected=False)
    rows.filter(number__in=chosen).update(is_selected=True)


def _filter_importable(chat_import: ChatImport) -> QuerySet[ListedChat]:
    return chat_import.chats.filter(problem="", chat_import__state=State.READY)


def start(chat_import: ChatImport) -> None:
    """Let a worker import the selected chats. Raises Refused."""
    count = chat_import.chats.filter(is_selected=True, problem="").count()
    if not count:
        raise Refused(_("Select at least one chat."))
    with transaction.atomic():
        ready = ChatImport.objects.filter(pk=chat_import.pk, state=State.READY)
        if not ready.update(state=State.IMPORTING, progress=0, total=count, begun_at=Now()):
            raise Refused(_("This import was already started or discarded."), 409)
        jobs.import_selected.enqueue(str(chat_import.pk))


def discard(chat_import: ChatImport) -> None:
    """Forget a file of which nothing was imported. Raises Refused."""
    unused = (State.READING, State.READY, State.REFUSED)
    rows = ChatImport.objects.filter(pk=chat_import.pk, state__in=unused)
    if not rows.update(state=State.REFUSED):
        raise Refused(_("This import has started, so it cannot be discarded. Undo it later."), 409)
    _forget(chat_import)


def delete_old_files() -> None:
    """Forget files that waited for a day, and those of a server that was killed before it forgot
    them. Chats of an import that stopped on its way stay."""
    old = ChatImport.objects.filter(begun_at__lt=Now() - FILE_KEPT)
    for each in old.filter(state__in=(State.READING, State.READY, State.REFUSED)):
        with suppress(Refused):  # started meanwhile
            discard(each)
    for each in old.filter(state__in=(State.DONE, State.UNDONE), pieces__number=0):
        delete_file(each)
    for each in old.filter(state=State.IMPORTING).select_related("person"):
        finish(each)
