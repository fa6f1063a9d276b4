"""Files that a person adds to a message: kept as drafts, or refused by what is in them."""

import hashlib
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from chatapp.files.kinds import TEXT, kind_of, model_type, text_of
from chatapp.files.pdf import Unreadable, read_pdf
from chatapp.models import Attachment, File, Member
from mcpconfig.results import storable

from .attachments import NAME_CHARACTERS, forget_old_drafts, in_words
from .refusals import Refused

WORDS_CHARACTERS = 64_000
NO_MODEL = (
    "is of a kind that no model takes. Pictures (PNG, JPEG, GIF, WebP), PDF and text files can be "
    "added."
)
NO_UTF8 = "is text in another encoding than UTF-8. Save it as UTF-8, and add that."


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file as it came. `size` is what was sent, of which `data` is only a part when it was too
    much."""

    name: str
    size: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What was found in a file."""

    media_type: str
    words: str = ""
    characters: int = 0
    pages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A file that may be kept: the name under which it is shown, and what was found in it."""

    name: str
    upload: Upload
    content: Content


def keep_file(person: Member, upload: Upload) -> Attachment:
    """Store a file as a draft of this person. Raises Refused, with the file's name."""
    return keep(person, examined(upload))


def examined(upload: Upload) -> Examined:
    """Look into a file, which may take seconds, and asks no database. Raises Refused, with the
    file's name."""
    name = _shown(upload.name)
    _check_size(name, upload)
    return Examined(name=name, upload=upload, content=_content_of(name, upload.data))


def keep(person: Member, file: Examined) -> Attachment:
    """Store what was examined as a draft of this person."""
    upload, found = file.upload, file.content
    forget_old_drafts(person, upload.size)
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
            data=upload.data,
            words=found.words,
            characters=found.characters,
            pages=found.pages,
        )
    return kept


def _shown(name: str) -> str:
    """The name without characters that hide or turn around what stands beside them."""
    plain = "".join(each for each in name if each.isprintable()).strip()
    return plain[:NAME_CHARACTERS] or "File without a name"


def _check_size(name: str, upload: Upload) -> None:
    if not upload.size:
        raise Refused(f"“{name}” is empty.")
    if upload.size > settings.FILE_MAX_BYTES:
        raise Refused(
            f"“{name}” has {in_words(upload.size)}; a file may have "
            f"{in_words(settings.FILE_MAX_BYTES)}."
        )
    if upload.size > len(upload.data):
        raise Refused(
            f"“{name}” came with more than the {in_words(settings.MESSAGE_MAX_BYTES)} that a "
            "message may have. Add it to another one."
        )


def _content_of(name: str, data: bytes) -> Content:
    match kind_of(data):
        case "picture":
            return Content(media_type=model_type(data))
        case "pdf":
            return _pdf(name, data)
        case "text":
            text = text_of(data) or ""
            return Content(media_type=TEXT, words=text[:WORDS_CHARACTERS], characters=len(text))
        case "other_encoding":
            raise Refused(f"“{name}” {NO_UTF8}")
    raise Refused(f"“{name}” {NO_MODEL}")


def _pdf(name: str, data: bytes) -> Content:
    try:
        found = read_pdf(data, WORDS_CHARACTERS)
    except Unreadable as problem:
        raise Refused(f"“{name}” {problem}") from None
    words = storable(found.words)
    return Content(
        media_type=model_type(data),
        words=words,
        characters=len(words) + found.was_cut,
        pages=found.pages,
    )
