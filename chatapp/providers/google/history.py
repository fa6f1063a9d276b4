"""A history as Gemini's contents: its own parts as they came, all else in plain words."""

import base64
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from chatapp.providers.abilities import GOOGLE_PICTURE_TYPES, PDF
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
from chatapp.providers.toolbox import Toolbox
from chatapp.providers.words import plain_object, storable

Part = dict[str, Any]
Content = dict[str, Any]

OWN = "google"
# What Google documents for calls that another model made.
UNSIGNED = base64.b64encode(b"skip_thought_signature_validator").decode()
# A conversation begins with a person, and no part is empty.
SILENCE = {"text": "."}
TAKEN = {*GOOGLE_PICTURE_TYPES, PDF}


class Contents:
    """A history in Gemini's form: after each turn of the model one of the person or of tools."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._asked: dict[str, Part] = {}

    def of(self, history: Iterable[HistoryItem]) -> list[Content]:
        contents = [
            {"role": role, "parts": parts}
            for kind, group in groupby(history, type)
            for role, parts in self._turns(kind, list(group))
            if parts
        ]
        if not contents or contents[0]["role"] == "model":
            contents.insert(0, {"role": "user", "parts": [SILENCE]})
        return contents

    def _turns(self, kind: type, group: list[Any]) -> Iterator[tuple[str, list[Part]]]:
        """The media of results go after them: beside a result nothing else is taken."""
        if kind is AssistantMessage:
            yield "model", [part for said in group for part in self._said(said)]
        elif kind is ToolOutcome:
            yield "user", [self._response(outcome) for outcome in group]
            yield "user", [part for outcome in group for part in _result_media(outcome)]
        else:
            yield "user", [part for said in group for part in _user_parts(said)]

    def _said(self, said: AssistantMessage) -> Iterator[Part]:
        is_signed = False
        for part in said.parts:
            for wire in self._parts(part):
                if "function_call" in wire and not is_signed:
                    is_signed = True
                    wire = wire if _own(part) else {**wire, "thought_signature": UNSIGNED}
                yield wire

    def _parts(self, part: AssistantPart) -> Iterator[Part]:
        own = _own(part)
        match part:
            case AskedTool():
                call = own or {"function_call": self._call(part)}
                self._asked[part.call_id] = call["function_call"]
                yield call
            case SaidText() | SaidReasoning() if own:
                yield from own["parts"]
            case SaidText() if part.text.strip():
                yield {"text": storable(part.text)}
            case SaidText() | SaidReasoning():
                return

    def _call(self, asked: AskedTool) -> Part:
        arguments = self._box.arguments_to_wire(asked.name, asked.arguments)
        name = self._box.to_wire(asked.name)
        return {"id": asked.call_id, "name": name, "args": plain_object(arguments)}

    def _response(self, outcome: ToolOutcome) -> Part:
        """Under the name and id of its call. Words stay words: Gemini would follow a `$ref` inside
        an object."""
        call = self._asked.get(outcome.call_id) or {"name": self._box.to_wire(outcome.name)}
        kind = "error" if outcome.is_error else "output"
        response = {"name": call["name"], "response": {kind: storable(outcome.text)}}
        return {"function_response": response | ({"id": call["id"]} if call.get("id") else {})}


def _own(part: AssistantPart) -> Part | None:
    """The data of this provider's own part, as it came."""
    if part.opaque is None or part.opaque.get("provider") != OWN:
        return None
    data: Part = part.opaque["data"]
    return data


def _user_parts(said: UserMessage) -> Iterator[Part]:
    yield from _media_parts(said.media)
    yield {"text": storable(said.text)} if said.text.strip() else SILENCE


def _result_media(outcome: ToolOutcome) -> Iterator[Part]:
    parts = list(_media_parts(outcome.media))
    if parts:
        yield {"text": f"The files in the result of {outcome.name}, call {outcome.call_id}:"}
        yield from parts


def _media_parts(media: Iterable[Media]) -> Iterator[Part]:
    for each in media:
        if each.media_type in TAKEN:
            yield {"inline_data": {"mime_type": each.media_type, "data": each.base64}}
        elif each.media_type.startswith("text/"):
            text = storable(base64.b64decode(each.base64).decode("utf-8", "replace"))
            yield {"text": f"The file {each.name or 'without a name'}:\n{text}"}
