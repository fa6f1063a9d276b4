"""Results of tools and contents of resources, as pieces for one template: text, JSON, tables,
pictures, sounds and files.

The content is untrusted: text is shown as text, markup as source, and bytes are served from our
own address after their type was detected. SVG is never shown as a picture, because it is a
document that can run scripts.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlencode

from django.contrib.humanize.templatetags.humanize import intcomma
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatapp.files.kinds import PDF, PPTX, TEXT, XLSX
from chatapp.models import Attachment, ToolCall, Trial
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.rendering import page_values
from chatapp.rendering.call_values import SDK_PREFIX, Call
from chatapp.rendering.figures.result_tables import read_table
from chatapp.rendering.figures.values import TableData
from chatapp.rendering.hidden_characters import draw_hidden, draw_hidden_in
from chatapp.rendering.markdown.code_colours import colour_code
from chatapp.rendering.secret_mask import mask_secrets_in_json
from chatapp.rendering.sizes import format_size

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MAX_BYTES: Final = 4 * 1024 * 1024
_HEAD_CHARACTERS: Final = 64
_TEXT_TYPES: Final = frozenset({"application/json", "application/xml", "image/svg+xml"})

# The first bytes of each type. Formats that share a container are distinguished by the name in it.
_SIGNATURES: Final = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF.{4}WEBP", re.DOTALL)),
    ("audio/wav", re.compile(rb"RIFF.{4}WAVE", re.DOTALL)),
    ("audio/ogg", re.compile(rb"OggS")),
    ("audio/flac", re.compile(rb"fLaC")),
    ("audio/mp4", re.compile(rb".{4}ftypM4A", re.DOTALL)),
    ("audio/mpeg", re.compile(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]")),
)


def detect_media_type(data: bytes) -> str:
    """Return one of the types above, or an empty text."""
    return next((name for name, begins in _SIGNATURES if begins.match(data)), "")


def detect_shown_type(base64_text: object) -> str:
    """Return the type of base64 bytes that a page may show, or an empty text."""
    if not isinstance(base64_text, str) or len(base64_text) > MAX_BYTES * 4 // 3 + 4:
        return ""
    return detect_media_type(decode_base64(base64_text[:_HEAD_CHARACTERS]) or b"")


def decode_base64(base64_text: object) -> bytes | None:
    """Return the bytes, or None for text that is not base64 or is too large to serve."""
    if not isinstance(base64_text, str):
        return None
    try:
        data = base64.b64decode(base64_text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if len(data) <= MAX_BYTES else None


def decode_text(data: bytes | None, media_type: str) -> str | None:
    """Return the text of bytes of a textual type, such as plain text or the source of HTML and
    SVG."""
    kind = media_type.partition(";")[0].strip().lower()
    if data is None or not (kind.startswith("text/") or kind in _TEXT_TYPES):
        return None
    try:
        words = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\x00" in words else words


def count_bytes(base64_text: object) -> int:
    """Return the number of bytes without decoding them."""
    text = base64_text.rstrip("=") if isinstance(base64_text, str) else ""
    return len(text) * 3 // 4


MAX_CHARACTERS = 100_000


def parse_json(text: str) -> Any:
    """Return the object or list, or None for any other text."""
    if len(text) > MAX_CHARACTERS or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(
            text, object_pairs_hook=_refuse_repeated_names, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError):
        return None


def format_json_text(text: str) -> str | None:
    """Return the JSON text indented, or None if it is not JSON."""
    value = parse_json(text)
    if value is None:
        return None
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None


def format_json_value(value: Any) -> str:
    """Return a value as indented JSON; a huge one on one line, which takes a tenth of the time."""
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) > MAX_CHARACTERS else json.dumps(value, indent=2, ensure_ascii=False)


def _refuse_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("A name is given twice.")
    return found


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON.")


Row = tuple[SafeString, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells. Without a `head`, each row is a name and its value. `facts` are names with
    values that stand beside the rows."""

    head: Row = ()
    rows: tuple[Row, ...]
    facts: tuple[Row, ...] = ()


def build_table(value: Any) -> Table | None:
    """Return the value as a table to show, or None as for `read_table`."""
    table = read_table(value)
    return draw_table(table) if table else None


def draw_table(table: TableData) -> Table:
    return Table(
        head=tuple(map(draw_hidden, table.head)),
        rows=tuple(tuple(map(draw_hidden, row)) for row in table.rows),
        facts=tuple(tuple(map(draw_hidden, fact)) for fact in table.facts),
    )


SHOWN_PIECES = 50
SHOWN_CHARACTERS = 20_000
LONG_CHARACTERS = 2_000
LONG_LINES = 25
PREVIEW_CHARACTERS = 400
PREVIEW_LINES = 6
LANGUAGES = {"text/html": "html", "image/svg+xml": "xml", "text/xml": "xml"}
EMPTY = SafeString("")

Kind = Literal["text", "table", "image", "audio", "file", "link"]
Block = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One piece of a result. A long text is shown folded and has a `preview`; `left_out` counts the
    characters that are not shown. `address` is our URL of the bytes, or the one that opens a
    link."""

    kind: Kind
    label: SafeString
    element_id: str
    text: SafeString = EMPTY
    is_code: bool = False
    characters: int = 0
    preview: SafeString | None = None
    left_out: int = 0
    table: Table | None = None
    address: str = ""
    about: SafeString = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The element that contains pieces, and the URLs of their bytes and links by their number.
    `label` is the label of plain text, and `table_at` the URL of the file with the table of the
    structured value."""

    element_id: str
    bytes_at: Callable[[int], str]
    label: "StrOrPromise" = gettext_lazy("Result")
    table_at: str = ""
    opened_at: Callable[[int], str] | None = None


def build_call_pieces(call: ToolCall) -> list[Piece]:
    can_open = call.service is not None
    place = Place(
        element_id=page_values.tool_call_id(call.pk),
        bytes_at=lambda index: reverse("call-content", args=[call.pk, index]),
        table_at=reverse("result-table", args=[call.pk]),
        opened_at=(lambda index: reverse("open-link", args=[call.pk, index])) if can_open else None,
    )
    return _build_pieces(call, place)


def build_copied_pieces(copied: CopiedCall, element_id: str) -> list[Piece]:
    """Return the values and the outcome of a call of another chat, as text."""
    values = copied.changed_arguments or copied.arguments
    said = _build_text_piece(_("Values"), mask_secrets_in_json(values), f"{element_id}-values")
    return [said, _build_text_piece(_("Result"), copied.outcome, f"{element_id}-result")]


def build_trial_pieces(trial: Trial) -> list[Piece]:
    """Do the same as `build_call_pieces` for a trial. A link opens on the page of the resources of
    the service, while the definition of the tool is current."""
    page_of, service = partial(reverse, "admin:mcpconfig_service_trial_content"), trial.service_id
    resources = reverse("admin:mcpconfig_service_resources", args=[service]) if service else ""

    def opened_at(index: int) -> str:
        return f"{resources}?{urlencode({'uri': str(trial.content[index].get('uri') or '')})}"

    place = Place(
        element_id=f"trial-{trial.pk}",
        bytes_at=lambda index: page_of(args=[service, trial.pk, index]) if service else "",
        opened_at=opened_at if trial.definition and trial.definition.is_current else None,
    )
    return _build_pieces(trial, place)


def build_block_pieces(blocks: Sequence[Block], place: Place) -> list[Piece]:
    """Return one piece for each content block."""
    return [_build_piece(index, block, place) for index, block in enumerate(blocks[:SHOWN_PIECES])]


def _build_pieces(call: Call, place: Place) -> list[Piece]:
    """Return the pieces of a result. A structured value and a text with the same content are shown
    once."""
    structured = (call.result or {}).get("structured")
    blocks = list(enumerate(_iterate_blocks(call)))
    said = [_get_text(block) for _, block in blocks if block.get("type") == "text"]
    if structured is not None:
        blocks = [each for each in blocks if parse_json(_get_text(each[1])) != structured]
    pieces = [_build_piece(index, block, place) for index, block in blocks[:SHOWN_PIECES]]
    if structured is not None and not _is_wrapped(structured, said):
        pieces.append(_build_value_piece(structured, place))
    return pieces


def build_attachment_pieces(attachment: Attachment) -> list[Piece]:
    """Return the pieces of a resource as it was when it was read, or of a person's own file."""
    place = Place(
        element_id=page_values.attachment_id(attachment.pk),
        bytes_at=lambda index: reverse("attachment-content", args=[attachment.pk, index]),
    )
    if attachment.is_own_file:
        return [_build_own_file_piece(attachment, place)]
    contents = attachment.contents[:SHOWN_PIECES]
    return [_build_resource_piece(index, each, place) for index, each in enumerate(contents)]


def list_file_facts(attachment: Attachment) -> list[str]:
    """Return sentences about a person's own file and what a model receives of it."""
    if not attachment.is_own_file:
        return []
    file = attachment.file
    facts = [_count_pages(attachment.mime_type, file.pages)] if file.pages else []
    if file.rows:
        read = ngettext("%(count)s row read", "%(count)s rows read", file.rows)
        facts.append(read % {"count": intcomma(file.rows)})
    if attachment.is_picture:
        return [_("Models that accept images receive this image.")]
    if not file.words:
        return [*facts, _("The file has no text that can be read.")]
    sentence = _("The model receives its text.")
    if attachment.mime_type == PDF:
        sentence = _("Models that accept PDF files receive the PDF. Others receive its text.")
    facts.append(sentence)
    if file.characters > len(file.words):
        cut = _("The text was cut after %(count)s characters.")
        facts.append(cut % {"count": intcomma(len(file.words))})
    return facts


def _count_pages(media_type: str, count: int) -> str:
    if media_type == XLSX:
        text = ngettext("%(count)s sheet", "%(count)s sheets", count)
    elif media_type == PPTX:
        text = ngettext("%(count)s slide", "%(count)s slides", count)
    else:
        text = ngettext("%(count)s page", "%(count)s pages", count)
    return text % {"count": intcomma(count)}


def _build_own_file_piece(attachment: Attachment, place: Place) -> Piece:
    """A picture or text is shown; every file can be saved."""
    facts = f"{attachment.name} · {attachment.origin} · {format_size(attachment.size)}"
    if attachment.is_picture:
        return _build_file_piece(0, facts, place, place.bytes_at(0), "image")
    file = attachment.file
    if not file.words:
        return _build_file_piece(
            0, " · ".join([facts, _("no text found")]), place, place.bytes_at(0)
        )
    is_plain = attachment.mime_type == TEXT
    label = attachment.name if is_plain else _("Text of %(name)s") % {"name": attachment.name}
    piece = _build_text_piece(label, file.words, f"{place.element_id}-0")
    left_out = piece.left_out + file.characters - len(file.words)
    return replace(piece, address=place.bytes_at(0), left_out=left_out)


def _iterate_blocks(call: Call) -> Iterator[Block]:
    """Yield the blocks, without the prefix of the MCP SDK for failed calls."""
    for block in call.content:
        if call.state == ToolCall.State.FAILED and block.get("type") == "text":
            yield {**block, "text": SDK_PREFIX.sub("", _get_text(block), count=1)}
        else:
            yield block


def _get_text(block: Block) -> str:
    return str(block.get("text", ""))


def _is_wrapped(structured: Any, said: list[str]) -> bool:
    """Return whether a library wrapped the text in an object, because values must be objects."""
    if not isinstance(structured, dict) or set(structured) != {"result"} or not said:
        return False
    inner = structured["result"]
    return inner in (said[0], said) or inner in (
        parse_json(said[0]),
        [parse_json(text) for text in said],
    )


def _build_piece(index: int, block: Block, place: Place) -> Piece:
    match block.get("type"):
        case "text":
            return _build_text_piece(
                str(place.label), _get_text(block), f"{place.element_id}-{index}"
            )
        case "image" | "audio":
            return _build_bytes_piece(index, block.get("data"), block, place)
        case "resource":
            return _build_resource_piece(index, _as_object(block.get("resource")), place)
        case "resource_link":
            return _build_link_piece(index, block, place)
        case kind:
            about = f"{kind}: {block.get('mimeType') or _('unknown type')} {block.get('uri') or ''}"
            return _build_file_piece(index, about.strip(), place)


def _build_resource_piece(index: int, resource: Block, place: Place) -> Piece:
    if resource.get("text") is None:
        return _build_bytes_piece(index, resource.get("blob"), resource, place)
    label = str(resource.get("uri") or _("Resource"))
    language = _choose_language(str(resource.get("mimeType") or ""))
    return _build_text_piece(label, _get_text(resource), f"{place.element_id}-{index}", language)


def _build_bytes_piece(index: int, data: object, about: Block, place: Place) -> Piece:
    """Return a picture or a sound to show, textual source, or a file to save."""
    found = detect_shown_type(data)
    claimed = str(about.get("mimeType") or "")
    words = None if found else decode_text(decode_base64(data), claimed)
    if words is not None:
        label = str(about.get("uri") or claimed)
        return _build_text_piece(
            label, words, f"{place.element_id}-{index}", _choose_language(claimed)
        )
    size = format_size(count_bytes(data))
    facts = [str(about.get("uri") or ""), found or claimed or _("unknown type"), size]
    address = place.bytes_at(index) if data else ""
    file = partial(_build_file_piece, index, " · ".join(filter(None, facts)), place, address)
    if not address:
        return file("file")
    if found.startswith("image/"):
        return file("image")
    return file("audio" if found else "file")


def _build_file_piece(
    index: int, about: str, place: Place, address: str = "", kind: Kind = "file"
) -> Piece:
    labels: dict[Kind, str] = {"image": _("Image"), "audio": _("Audio"), "file": _("File")}
    return Piece(
        kind=kind,
        label=draw_hidden(labels[kind]),
        element_id=f"{place.element_id}-{index}",
        about=draw_hidden(about),
        address=address,
    )


def _build_link_piece(index: int, block: Block, place: Place) -> Piece:
    """Return a link to a resource. The same service is asked for it when a person opens it."""
    size = block.get("size")
    facts = [block.get("description"), block.get("uri"), block.get("mimeType")]
    facts.append(format_size(size) if isinstance(size, int) else None)
    return Piece(
        kind="link",
        label=draw_hidden(str(block.get("title") or block.get("name") or _("Resource"))),
        element_id=f"{place.element_id}-{index}",
        about=draw_hidden(" · ".join(str(fact) for fact in facts if fact)),
        address=place.opened_at(index) if place.opened_at else "",
    )


def _build_value_piece(value: Any, place: Place) -> Piece:
    """Return a structured value as a table if it is plain enough, otherwise as JSON."""
    table, element_id = build_table(value), f"{place.element_id}-structured"
    if table is None:
        return _build_text_piece(_("Result"), format_json_value(value), element_id, "json")
    return Piece(
        kind="table",
        label=draw_hidden(_("Result")),
        element_id=element_id,
        table=table,
        address=place.table_at,
    )


def _build_text_piece(label: str, text: str, element_id: str, language: str = "") -> Piece:
    """Return text with its line breaks; JSON is indented."""
    if not language and (set_out := format_json_text(text)) is not None:
        text, language = set_out, "json"
    shown = text[:SHOWN_CHARACTERS]
    is_long = len(shown) > LONG_CHARACTERS or shown.count("\n") >= LONG_LINES
    beginning = "\n".join(shown[:PREVIEW_CHARACTERS].split("\n")[:PREVIEW_LINES])
    return Piece(
        kind="text",
        label=draw_hidden(label),
        element_id=element_id,
        text=draw_hidden_in(colour_code(shown, language)) if language else draw_hidden(shown),
        is_code=bool(language),
        characters=len(text),
        preview=draw_hidden(beginning) if is_long else None,
        left_out=len(text) - len(shown),
    )


def _choose_language(media_type: str) -> str:
    """Return the language in which source of this type is coloured."""
    return LANGUAGES.get(media_type.partition(";")[0].strip().lower(), "")


def _as_object(value: Any) -> Block:
    return value if isinstance(value, dict) else {}
