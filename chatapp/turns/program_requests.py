"""What a program asks as of an OpenAI-compatible server, as plain values, and the hashes by which
the same request is known again."""

import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import Any, Literal

from .uploads import Upload


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message that a program sent."""

    role: Literal["user", "assistant"]
    text: str
    files: tuple[Upload, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A whole request. `said` alternates, and begins and ends with the user. `is_retry`: the client
    says that it sends the same once more because no answer came."""

    model: str
    said: tuple[Said, ...]
    instructions: str = ""
    conversation_id: uuid.UUID | None = None
    key: str = ""
    is_retry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Hashes of a request: of all that was `said`, by whom and with which files; of what was said
    `before` the last answer; and of all that an Idempotency-Key binds."""

    said: str
    before: str
    request: str


def marks_of(asked: Asked) -> Marks:
    facts = [
        [each.role, each.text, [hashlib.sha256(file.data).hexdigest() for file in each.files]]
        for each in asked.said
    ]
    return Marks(
        said=_hash(facts),
        before=_hash(facts[:-2]),
        request=_hash([asked.model, asked.instructions, str(asked.conversation_id), facts]),
    )


def _hash(facts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
