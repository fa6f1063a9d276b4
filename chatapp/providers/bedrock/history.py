"""A history in the form of Bedrock's Converse: roles that take turns, beginning with the person.

The models behind Converse come from many makers, and what one said in private no other takes back.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from chatapp.providers.call_ids import with_fitting_ids
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
from chatapp.providers.wire_names import NameRule
from chatapp.providers.words import plain_object, storable

Block = dict[str, Any]
Message = dict[str, Any]

OWN = "bedrock"
CLAUDE = "anthropic"
WRITER = "writer"
THOUGHT = "reasoningContent"
REGIONS = {"us", "us-gov", "eu", "apac", "global", "jp", "au", "ca"}
CALL_IDS = NameRule(letters="a-zA-Z0-9_.:-", longest=64)
PICTURES = {f"image/{kind}": kind for kind in ("png", "jpeg", "gif", "webp")}
PDF = "application/pdf"
MOST_DOCUMENTS = 5
LONGEST_NAME = 100
# No text may be blank, and some roles must say something.
SILENCE = {"text": "."}


def family_of(model: str) -> str:
    """The maker in a model's id or in that of a profile; empty where an id does not say."""
    first, _, rest = model.rpartition("/")[2].partition(".")
    maker = rest.partition(".")[0] if first in REGIONS else first
    return maker if rest else ""


class Messages:
    """Builds the messages of one request."""

    def __init__(self, box: Toolbox, family: str) -> None:
        self._box = box
        self._family = family
        self._documents = 0

    def of(self, history: Iterable[HistoryItem]) -> list[Message]:
        messages: list[Message] = []
        for kind, group in groupby(with_fitting_ids(history, CALL_IDS), type):
            role = "assistant" if kind is AssistantMessage else "user"
            blocks = [block for said in group for block in self._blocks(said)]
            self._add(messages, role, blocks)
        if not messages or messages[0]["role"] == "assistant":
            messages.insert(0, {"role": "user", "content": [SILENCE]})
        return messages

    def _add(self, messages: list[Message], role: str, blocks: list[Block]) -> None:
        last = messages[-1] if messages else {}
        if not blocks:
            return
        if last.get("role") != role:
            messages.append({"role": role, "content": blocks})
        elif "toolResult" in last["content"][-1] and self._family != CLAUDE:
            # Only Claude takes a person's words in the turn of the results.
            messages.append({"role": "assistant", "content": [SILENCE]})
            messages.append({"role": role, "content": blocks})
        else:
            last["content"] += blocks

    def _blocks(self, said: HistoryItem) -> Iterator[Block]:
        match said:
            case UserMessage():
                yield from self._media(said.media)
                yield _text(said.text)
            case ToolOutcome():
                yield {"toolResult": self._result(said)}
            case AssistantMessage():
                blocks = [block for part in said.parts for block in self._part(part)]
                # Thoughts that led to nothing, because somebody stopped the answer, are refused.
                while blocks and THOUGHT in blocks[-1]:
                    blocks.pop()
                yield from blocks

    def _part(self, part: AssistantPart) -> Iterator[Block]:
        match part:
            case SaidText() if part.text.strip():
                yield _text(part.text)
            case SaidReasoning():
                yield from self._own_reasoning(part)
            case AskedTool():
                arguments = self._box.arguments_to_wire(part.name, part.arguments)
                yield {
                    "toolUse": {
                        "toolUseId": part.call_id,
                        "name": self._box.to_wire(part.name),
                        "input": plain_object(arguments),
                    }
                }
            case SaidText():
                return

    def _own_reasoning(self, part: SaidReasoning) -> Iterator[Block]:
        match part.opaque:
            case {"provider": "bedrock", "data": {"family": self._family, "block": dict(block)}}:
                yield {THOUGHT: from_json(block)}

    def _result(self, outcome: ToolOutcome) -> Block:
        said = (
            f"Error: {outcome.text}" if outcome.is_error and self._has_no_status else outcome.text
        )
        content = [_text(said), *self._media(outcome.media)]
        result: Block = {"toolUseId": outcome.call_id, "content": content}
        if self._has_no_status:
            return result
        return {**result, "status": "error" if outcome.is_error else "success"}

    @property
    def _has_no_status(self) -> bool:
        return self._family == WRITER

    def _media(self, media: Iterable[Media]) -> Iterator[Block]:
        documents = 0
        for each in media:
            documents += each.media_type == PDF
            if documents > MOST_DOCUMENTS and each.media_type == PDF:
                told = f"Bedrock takes no more than {MOST_DOCUMENTS} documents at once."
                yield _text(f"The file {each.name or 'without a name'} was left out: {told}")
            else:
                yield from self._file(each)

    def _file(self, file: Media) -> Iterator[Block]:
        data = base64.b64decode(file.base64)
        if file.media_type in PICTURES:
            kind = PICTURES[file.media_type]
            yield {"image": {"format": kind, "source": {"bytes": data}}}
        elif file.media_type == PDF:
            name = self._document_name(file.name)
            yield {"document": {"format": "pdf", "name": name, "source": {"bytes": data}}}
        elif file.media_type.startswith("text/"):
            words = data.decode("utf-8", "replace")
            yield _text(f"The file {file.name or 'without a name'}:\n{words}")

    def _document_name(self, name: str) -> str:
        """A name as Amazon takes it, and of its own: two documents may not share one."""
        self._documents += 1
        plain = re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", name.removesuffix(".pdf"))[:LONGEST_NAME]
        return f"{plain.strip() or 'document'} ({self._documents})"


def _text(text: str) -> Block:
    return {"text": storable(text)} if text.strip() else SILENCE


def to_json(block: Block) -> Block:
    """What a model said in private, as it can be stored."""
    redacted = block.get("redactedContent")
    return {"redactedContent": base64.b64encode(redacted).decode()} if redacted else block


def from_json(block: Block) -> Block:
    redacted = block.get("redactedContent")
    return {"redactedContent": base64.b64decode(redacted)} if redacted else block
