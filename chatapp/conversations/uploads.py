"""Files that people and programs add to a message: examined, then stored as drafts or refused."""

import asyncio
import contextlib
import hashlib
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatapp.context.attachments import NAME_CHARACTERS, delete_old_drafts
from chatapp.context.file_storage import store_bytes
from chatapp.files.kinds import TEXT, decode_text, detect_kind, detect_model_type
from chatapp.files.reader import Unreadable, read_file
from chatapp.models import AccessToken, Attachment, File, Member
from chatapp.people.refused import Refused
from chatapp.rendering.sizes import format_size
from chatapp.server.locales import carry_locale
from chatapp.server.runtime import current_runtime
from mcpconfig.values.results import make_storable

MAX_TEXT_CHARACTERS = 64_000
KINDS = gettext_lazy(
    "You can attach images (PNG, JPEG, GIF, WebP), PDF, Word (DOCX), Excel (XLSX), PowerPoint "
    "(PPTX) and text files."
)
NO_MODEL = gettext_lazy("%(name)s: unsupported file type. %(kinds)s")
ENCRYPTED = gettext_lazy(
    "%(name)s: the file has a password. Save it without a password, then attach it again."
)
OLD_OFFICE = gettext_lazy(
    "%(name)s: files of old office programs (DOC, XLS, PPT) cannot be read. Save it as DOCX, XLSX "
    "or PPTX, then attach it again."
)
RTF = gettext_lazy("%(name)s: RTF files cannot be read. Save it as DOCX, then attach it again.")
NO_UTF8 = gettext_lazy("%(name)s: not UTF-8 text. Save it as UTF-8, then attach it again.")

# Files of programs are examined in threads of their own, so a slow one delays no turn.
THREADS = 2
# How many requests of one token may have their files examined at the same time.
MAX_EXAMINATIONS = 2
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="files")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file as it was sent. `size` counts all its bytes, `data` has only some of them when it is
    too large."""

    name: str
    size: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file contains."""

    media_type: str
    words: str = ""
    characters: int = 0
    pages: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A file that may be stored: the name that pages show, and its content."""

    name: str
    upload: Upload
    content: Content


def describe_limits() -> str:
    """Return sentences about the kinds, the sizes and the number of files."""
    limits = ngettext(
        "Up to %(size)s, %(count)d in a message.",
        "Up to %(size)s each, %(count)d in a message, %(total)s together.",
        settings.MESSAGE_MAX_FILES,
    ) % {
        "size": format_size(settings.FILE_MAX_BYTES),
        "count": settings.MESSAGE_MAX_FILES,
        "total": format_size(settings.MESSAGE_MAX_BYTES),
    }
    return f"{KINDS} {limits}"


def keep_file(person: Member, upload: Upload) -> Attachment:
    """Store a file as a draft of this person. Raises Refused, with the file's name."""
    return keep_examined(person, examine(upload))


def examine(upload: Upload, most_characters: int = MAX_TEXT_CHARACTERS) -> Examined:
    """Read the content of a file, with at most so much of its text. Text in another encoding
    becomes UTF-8. Takes up to some seconds and uses no database. Raises Refused, with the file's
    name."""
    name = make_visible_name(upload.name)
    check_size(name, upload)
    content = _content_of(name, upload.data, most_characters)
    if content.media_type == TEXT:
        upload = convert_to_utf8(upload)
        check_size(name, upload)
    return Examined(name=name, upload=upload, content=content)


def convert_to_utf8(upload: Upload) -> Upload:
    """Return the upload of a text file, in UTF-8 if it had another encoding."""
    try:
        upload.data.decode()
    except UnicodeDecodeError:
        data = (decode_text(upload.data) or "").encode()
        return replace(upload, data=data, size=len(data))
    return upload


def keep_examined(person: Member, file: Examined) -> Attachment:
    """Store an examined file as a draft of this person."""
    upload, found = file.upload, file.content
    delete_old_drafts(person, upload.size)
    stored = store_bytes(upload.data)
    with transaction.atomic():
        kept = Attachment.objects.create(
            owner=person,
            name=file.name,
            mime_type=found.media_type,
            size=upload.size,
            hash=hashlib.sha256(upload.data).hexdigest(),
            contents=[],
        )
        File.objects.create(
            attachment=kept,
            data=b"" if stored else upload.data,
            stored=stored,
            words=found.words,
            characters=found.characters,
            pages=found.pages,
            rows=found.rows,
        )
    return kept


async def examine_files(
    token: AccessToken, files: Sequence[Sequence[Upload]]
) -> list[list[Examined]]:
    """Examine the files of each message of one request. Raises Refused."""
    if not any(files):
        return [[] for _ in files]
    with _count_examination(token.pk):
        return [[await _examine_in_thread(file) for file in each] for each in files]


async def _examine_in_thread(file: Upload) -> Examined:
    return await asyncio.get_running_loop().run_in_executor(_pool, carry_locale(examine), file)


@contextlib.contextmanager
def _count_examination(token_id: uuid.UUID) -> Iterator[None]:
    running = current_runtime().file_examinations
    if running[token_id] >= MAX_EXAMINATIONS:
        sentence = _("Files of %(count)d requests of this token are being read. Try again later.")
        raise Refused(sentence % {"count": MAX_EXAMINATIONS}, 429)
    running[token_id] += 1
    try:
        yield
    finally:
        running[token_id] -= 1
        if not running[token_id]:
            del running[token_id]


def make_visible_name(name: str) -> str:
    """Return the name without characters that are invisible or that reverse the text beside
    them."""
    plain = "".join(each for each in name if each.isprintable()).strip()
    return plain[:NAME_CHARACTERS] or _("Unnamed file")


def check_size(name: str, upload: Upload) -> None:
    if not upload.size:
        raise Refused(_("%(name)s: the file is empty.") % {"name": name})
    if upload.size > settings.FILE_MAX_BYTES:
        raise Refused(
            _("%(name)s: the file has %(size)s. The limit for a file is %(most)s.")
            % {
                "name": name,
                "size": format_size(upload.size),
                "most": format_size(settings.FILE_MAX_BYTES),
            }
        )
    if upload.size > len(upload.data):
        raise Refused(
            _("%(name)s: the files of this message exceed %(most)s. Attach it to another message.")
            % {"name": name, "most": format_size(settings.MESSAGE_MAX_BYTES)}
        )


def _content_of(name: str, data: bytes, most: int) -> Content:
    kind = detect_kind(data)
    match kind:
        case "picture":
            return Content(media_type=detect_model_type(data))
        case "pdf" | "package":
            return _read_content(kind, name, data, most)
        case "encrypted":
            raise Refused(ENCRYPTED % {"name": name})
        case "old_office":
            raise Refused(OLD_OFFICE % {"name": name})
        case "rtf":
            raise Refused(RTF % {"name": name})
        case "text":
            text = decode_text(data) or ""
            return Content(media_type=TEXT, words=text[:most], characters=len(text))
        case "other_encoding":
            raise Refused(NO_UTF8 % {"name": name})
    raise Refused(NO_MODEL % {"name": name, "kinds": KINDS})


def _read_content(kind: Literal["pdf", "package"], name: str, data: bytes, most: int) -> Content:
    try:
        found = read_file(kind, data, most)
    except Unreadable as problem:
        raise Refused(_("%(name)s: %(problem)s") % {"name": name, "problem": problem}) from None
    words = make_storable(found.words)
    return Content(
        media_type=found.media_type,
        words=words,
        characters=len(words) + found.was_cut,
        pages=found.pages,
        rows=found.rows,
    )
