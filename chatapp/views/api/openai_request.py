"""Parses requests in the format of OpenAI chat completions. Unsupported parameters are refused, and
parameters that admins set are reported as ignored."""

import base64
import binascii
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.api.requests import ChatRequest, SentMessage
from chatapp.conversations.uploads import Upload
from chatapp.rendering.sizes import format_size

from .bearer import Problem
from .idempotency import read_key

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MOST_MESSAGES = 1_000
MOST_FILES = 20
MODEL_CHARACTERS = 200
DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w.+-]+=[\w.+-]+)*;base64,")
TOO_LARGE = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
INSTRUCTING = ("system", "developer")
TOOLS_RUN_HERE = gettext_lazy("Tools run on this server. A request cannot bring its own.")
ONLY_TEXT = gettext_lazy("Only text answers are supported.")
# Parameters that cannot be honoured, each with the values that ask for nothing.
REFUSED: "dict[str, tuple[StrOrPromise, tuple[Any, ...]]]" = {
    "tools": (TOOLS_RUN_HERE, (None, [])),
    "functions": (TOOLS_RUN_HERE, (None, [])),
    "tool_choice": (TOOLS_RUN_HERE, (None, "auto", "none")),
    "function_call": (TOOLS_RUN_HERE, (None, "auto", "none")),
    "n": (gettext_lazy("Only one answer per request is supported."), (None, 1)),
    "response_format": (ONLY_TEXT, (None, {"type": "text"})),
    "modalities": (ONLY_TEXT, (None, ["text"])),
    "audio": (ONLY_TEXT, (None,)),
    "logprobs": (gettext_lazy("Log probabilities are not supported."), (None, False)),
    "stop": (gettext_lazy("Stop sequences are not supported."), (None, [], "")),
}
UNDERSTOOD = {"model", "messages", "stream", "stream_options", "countersign", "user", "store"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A parsed request and the form of its answer. `ignored` are parameters that admins set."""

    asked: ChatRequest
    streams: bool = False
    counts_tokens: bool = False
    ignored: tuple[str, ...] = ()


def read_request(request: HttpRequest) -> Wanted:
    """Parse a request. Raises Problem."""
    body = _body(request)
    for name, (why, harmless) in REFUSED.items():
        if body.get(name) not in harmless:
            raise build_problem(why, name)
    _check_files(body)
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise build_problem(_("This must be an object."), "stream_options")
    return Wanted(
        asked=ChatRequest(
            model=_model(body),
            instructions="\n\n".join(_instructions(body)),
            said=_said(body),
            conversation_id=_conversation(body),
            key=read_key(request),
            is_retry=_is_retry(request),
        ),
        streams=_flag(body, "stream"),
        counts_tokens=_flag(options, "include_usage"),
        ignored=tuple(sorted(set(body) - UNDERSTOOD - set(REFUSED))),
    )


def build_problem(
    message: "StrOrPromise", field: str = "", status: int = HTTPStatus.BAD_REQUEST
) -> Problem:
    return Problem(status=status, kind="invalid_request", message=str(message), field=field)


def _body(request: HttpRequest) -> dict[str, Any]:
    if request.content_type != "application/json":
        raise build_problem(_("Send JSON."), status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    most = settings.REQUEST_MAX_BYTES
    body = request.read(most + 1)
    if len(body) > most:
        message = _("The request is too large. The limit is %(most)d MB.")
        raise build_problem(message % {"most": most // 1_000_000}, status=TOO_LARGE)
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise build_problem(_("The body must be one JSON object."))
    return value


def _check_files(body: Mapping[str, Any]) -> None:
    """Refuse too many and too large files before any is decoded. Raises Problem."""
    weights = [_weight(url) for _place, message in _messages(body) for url in _urls(message)]
    if len(weights) > MOST_FILES:
        message = _("Too many files. The limit is %(most)d.") % {"most": MOST_FILES}
        raise build_problem(message, "messages", TOO_LARGE)
    if any(weight > settings.FILE_MAX_BYTES for weight in weights):
        message = _("A file is too large. The limit is %(most)s.") % {
            "most": format_size(settings.FILE_MAX_BYTES)
        }
        raise build_problem(message, "messages", TOO_LARGE)
    if sum(weights) > settings.MESSAGE_MAX_BYTES:
        message = _("The files are too large. The limit for all files is %(most)s.") % {
            "most": format_size(settings.MESSAGE_MAX_BYTES)
        }
        raise build_problem(message, "messages", TOO_LARGE)


def _urls(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                yield url
            case {"type": "file", "file": {"file_data": str(url)}}:
                yield url


def _weight(url: str) -> int:
    """Return the number of bytes that the base64 text encodes."""
    return (len(url) - url.find(",") - 1) * 3 // 4 - url[-2:].count("=")


def _model(body: Mapping[str, Any]) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not 0 < len(model) <= MODEL_CHARACTERS:
        raise build_problem(_("Name a model. GET /v1/models lists them."), "model")
    return model


def _flag(values: Mapping[str, Any], name: str) -> bool:
    flag = values.get(name)
    if flag not in (None, True, False):
        raise build_problem(_("This must be true or false."), name)
    return bool(flag)


def _conversation(body: Mapping[str, Any]) -> uuid.UUID | None:
    given = body.get("countersign") or {}
    if not isinstance(given, dict):
        raise build_problem(_("This must be an object."), "countersign")
    named = given.get("conversation")
    if named is None:
        return None
    try:
        return uuid.UUID(named)
    except (ValueError, AttributeError, TypeError):
        message = _("This must be the id of a conversation.")
        raise build_problem(message, "countersign.conversation") from None


def _is_retry(request: HttpRequest) -> bool:
    """Return whether the client repeats a request: OpenAI clients send a retry count."""
    count = request.headers.get("x-stainless-retry-count", "0")
    return count.isdigit() and int(count[:9]) > 0


def _messages(body: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the messages with their positions, which problems name. Raises Problem."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not 0 < len(messages) <= MOST_MESSAGES:
        raise build_problem(_("Send 1 to %(most)d messages.") % {"most": MOST_MESSAGES}, "messages")
    found = []
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise build_problem(_("A message must be an object."), f"messages[{number}]")
        found.append((f"messages[{number}]", message))
    return found


def _instructions(body: Mapping[str, Any]) -> Iterator[str]:
    for place, message in _messages(body):
        if message.get("role") in INSTRUCTING:
            said = _one(place, "user", message)
            if said.files:
                raise build_problem(_("Instructions must be text."), place)
            yield said.text


def _said(body: Mapping[str, Any]) -> tuple[SentMessage, ...]:
    """Return the messages of both sides in turns: adjacent ones of one side are merged."""
    said = [one for place, message in _messages(body) if (one := _of_side(place, message))]
    merged = tuple(_merged(list(group)) for _role, group in groupby(said, lambda each: each.role))
    if not merged or merged[0].role != "user" or merged[-1].role != "user":
        raise build_problem(
            _("The first and the last message must have the role user."), "messages"
        )
    return merged


def _of_side(place: str, message: dict[str, Any]) -> SentMessage | None:
    match message.get("role"):
        case "user":
            return _one(place, "user", message)
        case "assistant":
            if message.get("tool_calls") or message.get("function_call"):
                raise build_problem(TOOLS_RUN_HERE, f"{place}.tool_calls")
            said = _one(place, "assistant", message)
            return said if said.text.strip() else None
        case "tool" | "function":
            raise build_problem(TOOLS_RUN_HERE, f"{place}.role")
        case role if role in INSTRUCTING:
            return None
    raise build_problem(
        _("The role must be system, developer, user or assistant."), f"{place}.role"
    )


def _merged(neighbours: list[SentMessage]) -> SentMessage:
    return SentMessage(
        role=neighbours[0].role,
        text="\n\n".join(each.text for each in neighbours if each.text),
        files=tuple(file for each in neighbours for file in each.files),
    )


def _one(place: str, role: Any, message: dict[str, Any]) -> SentMessage:
    content = message.get("content")
    if isinstance(content, str):
        return SentMessage(role=role, text=storable_text(content, place))
    if content is None and role == "assistant":
        return SentMessage(role=role, text="")
    if not isinstance(content, list):
        raise build_problem(_("Content must be text or a list of parts."), f"{place}.content")
    parts = [_part(f"{place}.content[{n}]", part, n) for n, part in enumerate(content)]
    return SentMessage(
        role=role,
        text="\n\n".join(part for part in parts if isinstance(part, str)),
        files=tuple(part for part in parts if isinstance(part, Upload)),
    )


def storable_text(text: str, place: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise build_problem(
            _("The text contains an incomplete character (a lone surrogate)."), f"{place}.content"
        ) from None
    return text


def _part(place: str, part: Any, number: int) -> str | Upload:
    match part:
        case {"type": "text" | "refusal", "text": str(text)}:
            return storable_text(text, place)
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return _file(place, _("Picture %(number)d") % {"number": number + 1}, url)
        case {"type": "file", "file": {"file_data": str(url), **about}}:
            return _file(
                place,
                str(about.get("filename") or _("File %(number)d") % {"number": number + 1}),
                url,
            )
    raise build_problem(_("A part must be text, image_url or file (with file_data)."), place)


def _file(place: str, name: str, url: str) -> Upload:
    found = DATA_URL.match(url)
    if found is None:
        raise build_problem(
            _("Send files as data: URLs in base64. Other URLs are not fetched."), place
        )
    try:
        data = base64.b64decode(url[found.end() :], validate=True)
    except binascii.Error:
        raise build_problem(_("This is not base64."), place) from None
    return Upload(name=storable_text(name, place), size=len(data), data=data)
