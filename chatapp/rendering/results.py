"""What services answered, ready to be shown: the content blocks of a tool's result and the contents
of a resource, as pieces for one template.

Nothing in them is trusted: words are drawn as words, markup as source, and bytes are served from an
address of ours after a look at what they are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal
from urllib.parse import urlencode

from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.safestring import SafeString

from chatapp.models import Attachment, ToolCall, Trial

from . import page
from .call_values import SDK_PREFIX
from .code_colours import colour
from .definitions import Call
from .media import byte_count, decoded, shown_type, words_in
from .readable_json import indented, parsed, pretty
from .tables import Table, table_of
from .visible import draw_hidden, draw_hidden_in

SHOWN_PIECES = 50
SHOWN_CHARACTERS = 20_000
LONG_CHARACTERS = 2_000
LONG_LINES = 30
PREVIEW_CHARACTERS = 400
PREVIEW_LINES = 6
LANGUAGES = {"text/html": "html", "image/svg+xml": "xml", "text/xml": "xml"}
NOTHING = SafeString("")

Kind = Literal["text", "table", "image", "audio", "file", "link"]
Block = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One piece of an answer. `preview` is there for a long text, which is shown folded; `left_out`
    counts the characters that are not shown at all. `address` is ours: of the bytes, or of what
    opens a link."""

    kind: Kind
    label: SafeString
    element_id: str
    text: SafeString = NOTHING
    is_code: bool = False
    characters: int = 0
    preview: SafeString | None = None
    left_out: int = 0
    table: Table | None = None
    address: str = ""
    about: SafeString = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where pieces stand, and the addresses of their bytes and links by their number. `label` is
    what plain words are called there."""

    element_id: str
    bytes_at: Callable[[int], str]
    label: str = "Result"
    opened_at: Callable[[int], str] | None = None


def pieces_of_call(call: ToolCall) -> list[Piece]:
    can_open = call.service is not None
    place = Place(
        element_id=page.tool_call_id(call.pk),
        bytes_at=lambda index: reverse("call-content", args=[call.pk, index]),
        opened_at=(lambda index: reverse("open-link", args=[call.pk, index])) if can_open else None,
    )
    return _pieces_of(call, place)


def pieces_of_trial(trial: Trial) -> list[Piece]:
    """As `pieces_of_call`. A link is opened on the page of the service's resources, while it is the
    service that named it."""
    page_of, service = partial(reverse, "admin:mcpconfig_service_trial_content"), trial.service_id
    resources = reverse("admin:mcpconfig_service_resources", args=[service]) if service else ""

    def opened_at(index: int) -> str:
        return f"{resources}?{urlencode({'uri': str(trial.content[index].get('uri') or '')})}"

    place = Place(
        element_id=f"trial-{trial.pk}",
        bytes_at=lambda index: page_of(args=[service, trial.pk, index]) if service else "",
        opened_at=opened_at if trial.definition and trial.definition.is_current else None,
    )
    return _pieces_of(trial, place)


def pieces_of_blocks(blocks: Sequence[Block], place: Place) -> list[Piece]:
    """Content blocks wherever they come from, one piece each."""
    return [_piece(index, block, place) for index, block in enumerate(blocks[:SHOWN_PIECES])]


def _pieces_of(call: Call, place: Place) -> list[Piece]:
    """What the tool answered. A structured value that repeats the words, or is repeated by them, is
    shown once."""
    structured = (call.result or {}).get("structured")
    blocks = list(enumerate(_readable(call)))
    said = [_said(block) for _, block in blocks if block.get("type") == "text"]
    if structured is not None:
        blocks = [each for each in blocks if parsed(_said(each[1])) != structured]
    pieces = [_piece(index, block, place) for index, block in blocks[:SHOWN_PIECES]]
    if structured is not None and not _is_wrapped(structured, said):
        pieces.append(_value_piece(structured, f"{place.element_id}-structured"))
    return pieces


def pieces_of_attachment(attachment: Attachment) -> list[Piece]:
    """What the resource held when it was read, or what a person's own file holds."""
    place = Place(
        element_id=page.attachment_id(attachment.pk),
        bytes_at=lambda index: reverse("attachment-content", args=[attachment.pk, index]),
    )
    if attachment.is_own_file:
        return [_own_file_piece(attachment, place)]
    contents = attachment.contents[:SHOWN_PIECES]
    return [_resource_piece(index, each, place) for index, each in enumerate(contents)]


def _own_file_piece(attachment: Attachment, place: Place) -> Piece:
    """A picture to see, words to read, and in any case the file to save."""
    facts = f"{attachment.name} · {attachment.origin} · {_size(attachment.size)}"
    if attachment.is_picture:
        return _file_piece(0, facts, place, place.bytes_at(0), "image")
    file = attachment.file
    if not file.words:
        return _file_piece(0, f"{facts} · no words could be read", place, place.bytes_at(0))
    label = f"Words of {attachment.name}" if file.pages else attachment.name
    piece = _text_piece(label, file.words, f"{place.element_id}-0")
    left_out = piece.left_out + file.characters - len(file.words)
    return replace(piece, address=place.bytes_at(0), left_out=left_out)


def _readable(call: Call) -> Iterator[Block]:
    """The blocks; those of a failed call without the library's words around the tool's."""
    for block in call.content:
        if call.state == ToolCall.State.FAILED and block.get("type") == "text":
            yield {**block, "text": SDK_PREFIX.sub("", _said(block), count=1)}
        else:
            yield block


def _said(block: Block) -> str:
    return str(block.get("text", ""))


def _is_wrapped(structured: Any, said: list[str]) -> bool:
    """Whether a library has put the words into an object, because a value must be one."""
    if not isinstance(structured, dict) or set(structured) != {"result"} or not said:
        return False
    inner = structured["result"]
    return inner in (said[0], said) or inner in (parsed(said[0]), [parsed(text) for text in said])


def _piece(index: int, block: Block, place: Place) -> Piece:
    match block.get("type"):
        case "text":
            return _text_piece(place.label, _said(block), f"{place.element_id}-{index}")
        case "image" | "audio":
            return _bytes_piece(index, block.get("data"), block, place)
        case "resource":
            return _resource_piece(index, _object(block.get("resource")), place)
        case "resource_link":
            return _link_piece(index, block, place)
        case kind:
            about = f"{kind}: {block.get('mimeType') or 'no type given'} {block.get('uri') or ''}"
            return _file_piece(index, about.strip(), place)


def _resource_piece(index: int, resource: Block, place: Place) -> Piece:
    if resource.get("text") is None:
        return _bytes_piece(index, resource.get("blob"), resource, place)
    label = str(resource.get("uri") or "Resource")
    language = _language(str(resource.get("mimeType") or ""))
    return _text_piece(label, _said(resource), f"{place.element_id}-{index}", language)


def _bytes_piece(index: int, data: object, about: Block, place: Place) -> Piece:
    """A picture or a sound to show, the source of what is written, or a file to save."""
    found = shown_type(data)
    claimed = str(about.get("mimeType") or "")
    words = None if found else words_in(decoded(data), claimed)
    if words is not None:
        label = str(about.get("uri") or claimed)
        return _text_piece(label, words, f"{place.element_id}-{index}", _language(claimed))
    size = _size(byte_count(data))
    facts = [str(about.get("uri") or ""), found or claimed or "no type given", size]
    address = place.bytes_at(index) if data else ""
    file = partial(_file_piece, index, " · ".join(filter(None, facts)), place, address)
    if not address:
        return file("file")
    if found.startswith("image/"):
        return file("image")
    return file("audio" if found else "file")


def _file_piece(
    index: int, about: str, place: Place, address: str = "", kind: Kind = "file"
) -> Piece:
    labels: dict[Kind, str] = {"image": "Image", "audio": "Sound", "file": "File"}
    return Piece(
        kind=kind,
        label=SafeString(labels[kind]),
        element_id=f"{place.element_id}-{index}",
        about=draw_hidden(about),
        address=address,
    )


def _link_piece(index: int, block: Block, place: Place) -> Piece:
    """A resource that the tool names: it is read from the same service, once a person asks."""
    size = block.get("size")
    facts = [block.get("description"), block.get("uri"), block.get("mimeType")]
    facts.append(_size(size) if isinstance(size, int) else None)
    return Piece(
        kind="link",
        label=draw_hidden(str(block.get("title") or block.get("name") or "Resource")),
        element_id=f"{place.element_id}-{index}",
        about=draw_hidden(" · ".join(str(fact) for fact in facts if fact)),
        address=place.opened_at(index) if place.opened_at else "",
    )


def _value_piece(value: Any, element_id: str) -> Piece:
    """A structured value: a table or a list of values where it is plain enough, else JSON."""
    table = table_of(value)
    if table is None:
        return _text_piece("Values", indented(value), element_id, "json")
    return Piece(kind="table", label=SafeString("Values"), element_id=element_id, table=table)


def _text_piece(label: str, text: str, element_id: str, language: str = "") -> Piece:
    """Words as they are, with their line breaks; JSON set out in lines."""
    if not language and (set_out := pretty(text)) is not None:
        text, language = set_out, "json"
    shown = text[:SHOWN_CHARACTERS]
    is_long = len(shown) > LONG_CHARACTERS or shown.count("\n") >= LONG_LINES
    beginning = "\n".join(shown[:PREVIEW_CHARACTERS].split("\n")[:PREVIEW_LINES])
    return Piece(
        kind="text",
        label=draw_hidden(label),
        element_id=element_id,
        text=draw_hidden_in(colour(shown, language)) if language else draw_hidden(shown),
        is_code=bool(language),
        characters=len(text),
        preview=draw_hidden(beginning) if is_long else None,
        left_out=len(text) - len(shown),
    )


def _size(count: int) -> str:
    """In words, with a plain space: another one would be drawn as a hidden character."""
    return filesizeformat(count).replace("\xa0", " ")


def _language(media_type: str) -> str:
    """As what the source of this type is coloured."""
    return LANGUAGES.get(media_type.partition(";")[0].strip().lower(), "")


def _object(value: Any) -> Block:
    return value if isinstance(value, dict) else {}
