"""The pictures and files that come along with the messages of a chat, as if they had been attached.

Their bytes are stored before the chat is, where the settings say: an upload to a storage takes a
while, so no transaction is open. If the chat is not stored after all, the objects are deleted like
those of any upload that nothing refers to.
"""

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings

from chatapp.context.attachments import NAME_CHARACTERS
from chatapp.context.file_storage import UNUSED_AFTER, store_bytes
from chatapp.conversations.uploads import (
    MAX_TEXT_CHARACTERS,
    Content,
    Upload,
    convert_to_utf8,
    examine,
)
from chatapp.files.kinds import TEXT, detect_kind
from chatapp.models import Attachment, File, Part, StoredObject
from chatapp.people.refused import Refused
from mcpconfig.values.results import make_storable

from .packed_files import PackedFiles
from .values import (
    BROUGHT,
    NotBrought,
    Reason,
    SourceFile,
    TextFile,
    TreeMessage,
    name_count,
)

log = logging.getLogger(__name__)
# PDF and office files of one chat are read for so long.
DOCUMENTS_SECONDS = 40.0
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
# The place of a message and that of a piece in it.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtFile:
    """A file that was examined. Without `stored` its bytes are read again, for the database."""

    source: SourceFile | TextFile
    name: str
    size: int
    hash: str
    content: Content
    was_cut: bool = False
    stored: StoredObject | None = None


Outcome = BroughtFile | Reason
Found = dict[Place, Outcome]


class _MessageRoom:
    """What is left of the limits of one message, which are those of uploads."""

    def __init__(self) -> None:
        self._files = settings.MESSAGE_MAX_FILES
        self._bytes = settings.MESSAGE_MAX_BYTES

    def read(self, file: SourceFile, files: PackedFiles) -> bytes:
        """Return the bytes of a file that the message can have. Raises NotBrought."""
        if not self._files:
            raise NotBrought(Reason.MESSAGE)
        data = files.read(file)
        if len(data) > self._bytes:
            raise NotBrought(Reason.MESSAGE)
        self._files -= 1
        self._bytes -= len(data)
        return data


def count_files(messages: Sequence[TreeMessage], files: PackedFiles) -> Counter[str]:
    """Return how many pictures and files of a chat come along, and how many do not, by reason."""
    counts: Counter[str] = Counter()
    for message in messages:
        room = _MessageRoom()
        for piece in message.pieces:
            if isinstance(piece, TextFile):
                counts[name_count("file", BROUGHT)] += 1
            elif isinstance(piece, SourceFile):
                counts[name_count(piece.what, _find_outcome(piece, room, files))] += 1
    return counts


def _find_outcome(file: SourceFile, room: _MessageRoom, files: PackedFiles) -> str:
    try:
        room.read(file, files)
    except NotBrought as left_out:
        return left_out.reason
    return BROUGHT


class FileIntake:
    """Examines and stores the files of the chats of one run."""

    def __init__(self, files: PackedFiles) -> None:
        self._files = files
        self._begun = 0.0
        # Each of the next files would wait for it as well.
        self._is_storage_away = False
        # Versions of a message have the same pictures, which share an object.
        self._objects: dict[str, StoredObject | None] = {}

    def take_all(self, messages: Sequence[TreeMessage]) -> Found:
        """Return the files of a chat, or why they do not come along. One at a time is in
        memory."""
        self._begun = time.monotonic()
        self._objects = {}
        return dict(self._iterate(messages))

    def _iterate(self, messages: Sequence[TreeMessage]) -> Iterator[tuple[Place, Outcome]]:
        for number, message in enumerate(messages):
            room = _MessageRoom()
            for position, piece in enumerate(message.pieces):
                if isinstance(piece, TextFile):
                    yield (number, position), self._take_text(piece)
                elif isinstance(piece, SourceFile):
                    yield (number, position), self._take(piece, room)

    def _take_text(self, file: TextFile) -> BroughtFile:
        text = make_storable(file.text)
        data = _cut_text(text)
        words, characters = text[:MAX_TEXT_CHARACTERS], len(text)
        digest = hashlib.sha256(data).hexdigest()
        return BroughtFile(
            source=file,
            name=_clean_name(file.name) or "text.txt",
            size=len(data),
            hash=digest,
            content=Content(media_type=TEXT, words=words, characters=characters),
            was_cut=len(data) < len(text.encode()),
            stored=self._store(digest, data),
        )

    def _take(self, file: SourceFile, room: _MessageRoom) -> Outcome:
        try:
            data = room.read(file, self._files)
            self._check_time(data)
            examined = examine(Upload(name=file.name, size=len(data), data=data))
        except NotBrought as left_out:
            return left_out.reason
        except Refused:
            return Reason.UNREADABLE
        data = examined.upload.data
        digest = hashlib.sha256(data).hexdigest()
        return BroughtFile(
            source=file,
            name=self._choose_name(file, examined.content.media_type),
            size=len(data),
            hash=digest,
            content=examined.content,
            stored=self._store(digest, data),
        )

    def _check_time(self, data: bytes) -> None:
        is_document = detect_kind(data) in ("pdf", "package")
        if is_document and time.monotonic() > self._begun + DOCUMENTS_SECONDS:
            raise NotBrought(Reason.UNREADABLE)

    def _choose_name(self, file: SourceFile, media_type: str) -> str:
        name = _clean_name(file.name) or _clean_name(self._files.find_name(file))
        if media_type.startswith("image/") and not name.lower().endswith(PICTURE_ENDINGS):
            name = name.removesuffix(".dat")[: NAME_CHARACTERS - 5] or "picture"
            return f"{name}.{media_type.removeprefix('image/')}"
        return name or "file"

    def _store(self, digest: str, data: bytes) -> StoredObject | None:
        """Store the bytes outside the database, if the settings say so and the storage responds.
        Otherwise they stay in the database, and `manage.py move_files` moves them later."""
        if digest not in self._objects:
            self._objects[digest] = self._store_object(data)
        return self._objects[digest]

    def _store_object(self, data: bytes) -> StoredObject | None:
        # Before the row of a file refers to it, an object is kept for this time.
        is_late = time.monotonic() > self._begun + UNUSED_AFTER.total_seconds() / 2
        if self._is_storage_away or is_late:
            return None
        try:
            return store_bytes(data)
        except Refused:
            log.warning("Files of an import stay in the database, because their storage is away")
            self._is_storage_away = True
            return None

    def attach(self, part: Part, file: BroughtFile) -> None:
        """Make a file an attachment of this part, whose chat is imported and so untrusted."""
        conversation = part.message.conversation
        kept = Attachment.objects.create(
            owner=conversation.owner,
            part=part,
            name=file.name,
            mime_type=file.content.media_type,
            size=file.size,
            hash=file.hash,
            was_cut=file.was_cut,
            contents=[],
            tainted_by=conversation.tainted_by,
        )
        File.objects.create(
            attachment=kept,
            data=b"" if file.stored else self._read_again(file),
            stored=file.stored,
            words=file.content.words,
            characters=file.content.characters,
            pages=file.content.pages,
            rows=file.content.rows,
        )

    def _read_again(self, file: BroughtFile) -> bytes:
        if isinstance(file.source, TextFile):
            return _cut_text(make_storable(file.source.text))
        data = self._files.read_again(file.source)
        if file.content.media_type == TEXT:
            return convert_to_utf8(Upload(name=file.name, size=len(data), data=data)).data
        return data


def _cut_text(text: str) -> bytes:
    """Return the beginning that a file may have, cut between characters."""
    return text.encode()[: settings.FILE_MAX_BYTES].decode(errors="ignore").encode()


def _clean_name(name: str) -> str:
    plain = "".join(each for each in make_storable(name) if each.isprintable()).strip()
    return plain[:NAME_CHARACTERS]
