"""A history in Converse's format: alternating roles, the user first.

The models come from many makers. A thought goes back only to models of the same maker.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

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
from chatapp.providers.tools.wire_names import NameRule, fit_call_ids

from .provider import CLAUDE

Block = dict[str, Any]
Message = dict[str, Any]

OWN = "bedrock"
WRITER = "writer"
THOUGHT = "reasoningContent"
CALL_IDS = NameRule(letters="a-zA-Z0-9_.:-", longest=64)
PICTURES = {f"image/{kind}": kind for kind in ("png", "jpeg", "gif", "webp")}
PDF = "application/pdf"
MAX_DOCUMENTS = 5
MAX_NAME_CHARACTERS = 100
# A text may not be blank, and a message may not be empty.
SILENCE = {"text": "."}


class Messages:
    """Builds the messages of one request."""

    def __init__(self, box: Toolbox, family: str) -> None:
        self._box = box
        self._family = family
        self._documents = 0

    def build(self, history: Iterable[HistoryItem]) -> list[Message]:
        messages: list[Message] = []
        for kind, group in groupby(fit_call_ids(history, CALL_IDS), type):
            role = "assistant" if kind is AssistantMessage else "user"
            blocks = [block for said in group for block in self._build_blocks(said)]
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
            # Only Claude accepts the text of a person in the message of the results.
            messages.append({"role": "assistant", "content": [SILENCE]})
            messages.append({"role": role, "content": blocks})
        else:
            last["content"] += blocks

    def _build_blocks(self, said: HistoryItem) -> Iterator[Block]:
        match said:
            case UserMessage():
                yield from self._build_media(said.media)
                yield _build_text(said.text)
            case ToolOutcome():
                yield {"toolResult": self._build_result(said)}
            case AssistantMessage():
                blocks = [block for part in said.parts for block in self._build_part(part)]
                # The API refuses thoughts at the end, as a stopped answer has them.
                while blocks and THOUGHT in blocks[-1]:
                    blocks.pop()
                yield from blocks

    def _build_part(self, part: AssistantPart) -> Iterator[Block]:
        match part:
            case SaidText() if part.text.strip():
                yield _build_text(part.text)
            case SaidReasoning():
                yield from self._build_reasoning(part)
            case AskedTool():
                arguments = self._box.arguments_to_wire(part.name, part.arguments)
                yield {
                    "toolUse": {
                        "toolUseId": part.call_id,
                        "name": self._box.to_wire(part.name),
                        "input": parse_arguments(arguments),
                    }
                }
            case SaidText():
                return

    def _build_reasoning(self, part: SaidReasoning) -> Iterator[Block]:
        match part.opaque:
            case {"provider": "bedrock", "data": {"family": self._family, "block": dict(block)}}:
                yield {THOUGHT: decode_block(block)}

    def _build_result(self, outcome: ToolOutcome) -> Block:
        said = (
            f"Error: {outcome.text}" if outcome.is_error and self._has_no_status else outcome.text
        )
        content = [_build_text(said), *self._build_media(outcome.media)]
        result: Block = {"toolUseId": outcome.call_id, "content": content}
        if self._has_no_status:
            return result
        return {**result, "status": "error" if outcome.is_error else "success"}

    @property
    def _has_no_status(self) -> bool:
        return self._family == WRITER

    def _build_media(self, media: Iterable[Media]) -> Iterator[Block]:
        documents = 0
        for each in media:
            documents += each.media_type == PDF
            if documents > MAX_DOCUMENTS and each.media_type == PDF:
                told = f"Bedrock takes no more than {MAX_DOCUMENTS} documents at once."
                yield _build_text(f"The file {each.name or 'without a name'} was left out: {told}")
            else:
                yield from self._build_file(each)

    def _build_file(self, file: Media) -> Iterator[Block]:
        data = base64.b64decode(file.base64)
        if file.media_type in PICTURES:
            kind = PICTURES[file.media_type]
            yield {"image": {"format": kind, "source": {"bytes": data}}}
        elif file.media_type == PDF:
            name = self._name_document(file.name)
            yield {"document": {"format": "pdf", "name": name, "source": {"bytes": data}}}
        elif file.media_type.startswith("text/"):
            words = data.decode("utf-8", "replace")
            yield _build_text(f"The file {file.name or 'without a name'}:\n{words}")

    def _name_document(self, name: str) -> str:
        """Return a name that Amazon accepts. Two documents may not share one."""
        self._documents += 1
        plain = re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", name.removesuffix(".pdf"))[
            :MAX_NAME_CHARACTERS
        ]
        return f"{plain.strip() or 'document'} ({self._documents})"


def _build_text(text: str) -> Block:
    return {"text": clean_text(text)} if text.strip() else SILENCE


def encode_block(block: Block) -> Block:
    """Return a block of reasoning that can be stored as JSON."""
    redacted = block.get("redactedContent")
    return {"redactedContent": base64.b64encode(redacted).decode()} if redacted else block


def decode_block(block: Block) -> Block:
    redacted = block.get("redactedContent")
    return {"redactedContent": base64.b64decode(redacted)} if redacted else block
