"""A history in Gemini's format: parts of Gemini unchanged, everything else as text."""

import base64
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from chatapp.providers.provider import PDF
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    AssistantPart,
    HistoryItem,
    Media,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    UserMessage,
)
from chatapp.providers.stream_reading import clean_text, parse_arguments
from chatapp.providers.tools.toolbox import Toolbox

from .provider import GOOGLE_PICTURE_TYPES

Part = dict[str, Any]
Content = dict[str, Any]

OWN = "google"
# The signature that Google documents for calls of another model.
UNSIGNED = base64.b64encode(b"skip_thought_signature_validator").decode()
# A conversation begins with the user, and no part may be empty.
SILENCE = {"text": "."}
TAKEN = {*GOOGLE_PICTURE_TYPES, PDF}


class Contents:
    """Builds the contents of one request, in which the roles alternate."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._asked: dict[str, Part] = {}

    def build(self, history: Iterable[HistoryItem]) -> list[Content]:
        contents = [
            {"role": role, "parts": parts}
            for kind, group in groupby(history, type)
            for role, parts in self._build_turns(kind, list(group))
            if parts
        ]
        if not contents or contents[0]["role"] == "model":
            contents.insert(0, {"role": "user", "parts": [SILENCE]})
        return contents

    def _build_turns(self, kind: type, group: list[Any]) -> Iterator[tuple[str, list[Part]]]:
        """Yield roles and parts. Media of results follow in another turn: a result takes none."""
        if kind is AssistantMessage:
            yield "model", [part for said in group for part in self._build_message(said)]
        elif kind is ToolOutcome:
            yield "user", [self._build_response(outcome) for outcome in group]
            yield "user", [part for outcome in group for part in _build_result_media(outcome)]
        else:
            yield "user", [part for said in group for part in _build_user_parts(said)]

    def _build_message(self, said: AssistantMessage) -> Iterator[Part]:
        is_signed = False
        for part in said.parts:
            for wire in self._build_part(part):
                if "function_call" in wire and not is_signed:
                    is_signed = True
                    wire = wire if _read_own_data(part) else {**wire, "thought_signature": UNSIGNED}
                yield wire

    def _build_part(self, part: AssistantPart) -> Iterator[Part]:
        own = _read_own_data(part)
        match part:
            case AskedTool():
                call = own or {"function_call": self._build_call(part)}
                asked = call["function_call"]
                if asked.get("id"):  # Gemini may have used it twice
                    asked = {**asked, "id": part.call_id}
                self._asked[part.call_id] = asked
                yield {**call, "function_call": asked}
            case SaidText(picture=Media() as picture) if own and picture.media_type in TAKEN:
                yield {**own, **_build_inline(picture)}
            case SaidText(text=text, picture=Media()):
                yield {"text": clean_text(text)}
            case SaidText() | SaidReasoning() if own:
                yield from own["parts"]
            case SaidText() if part.text.strip():
                yield {"text": clean_text(part.text)}
            case SaidText() | SaidReasoning():
                return

    def _build_call(self, asked: AskedTool) -> Part:
        arguments = self._box.arguments_to_wire(asked.name, asked.arguments)
        name = self._box.to_wire(asked.name)
        return {"id": asked.call_id, "name": name, "args": parse_arguments(arguments)}

    def _build_response(self, outcome: ToolOutcome) -> Part:
        """Return the response under the name and id of its call.

        The result stays text, because Gemini would follow a `$ref` inside an object.
        """
        call = self._asked.get(outcome.call_id) or {"name": self._box.to_wire(outcome.name)}
        kind = "error" if outcome.is_error else "output"
        response = {"name": call["name"], "response": {kind: clean_text(outcome.text)}}
        return {"function_response": response | ({"id": call["id"]} if call.get("id") else {})}


def _read_own_data(part: AssistantPart) -> Part | None:
    """Return the data of a part that came from Gemini, unchanged."""
    if part.opaque is None or part.opaque.get("provider") != OWN:
        return None
    data: Part = part.opaque["data"]
    return data


def _build_user_parts(said: UserMessage) -> Iterator[Part]:
    yield from _build_media(said.media)
    yield {"text": clean_text(said.text)} if said.text.strip() else SILENCE


def _build_result_media(outcome: ToolOutcome) -> Iterator[Part]:
    parts = list(_build_media(outcome.media))
    if parts:
        yield {"text": f"The files in the result of {outcome.name}, call {outcome.call_id}:"}
        yield from parts


def _build_inline(media: Media) -> Part:
    return {"inline_data": {"mime_type": media.media_type, "data": media.base64}}


def _build_media(media: Iterable[Media]) -> Iterator[Part]:
    for each in media:
        if each.media_type in TAKEN:
            yield _build_inline(each)
        elif each.media_type.startswith("text/"):
            text = clean_text(base64.b64decode(each.base64).decode("utf-8", "replace"))
            yield {"text": f"The file {each.name or 'without a name'}:\n{text}"}
