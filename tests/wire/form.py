"""What the form of one provider consists of: where it is asked, how it streams, how it refuses."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from .http import Request
from .script import Answer

Event = dict[str, Any] | str
EVENT_STREAM = "text/event-stream; charset=utf-8"


def server_sent(event: Event) -> bytes:
    """One server-sent event. As providers do, characters outside ASCII are not escaped; text is
    written as it is (comments and end marks)."""
    if isinstance(event, str):
        return event.encode()
    name = f"event: {event['type']}\n" if "type" in event else ""
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"{name}data: {text}\n\n".encode("utf-8", "surrogatepass")


def refused(answer: Answer) -> tuple[dict[str, str], Any]:
    return {}, {"error": answer.error}


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """`path` is a pattern, whose group `model` names the model where the path does. `root` belongs
    to the base URL that an adapter is given. `refused` are the headers and the document of an
    answer whose status is an error. `demands` raises Broken for a request that
    the provider would refuse."""

    path: str
    events: Callable[[Answer, str], Iterable[Event]]
    demands: Callable[[Any], None]
    root: str = ""
    encoded: Callable[[Event], bytes] = server_sent
    content_type: str = EVENT_STREAM
    refused: Callable[[Answer], tuple[dict[str, str], Any]] = refused

    def model_of(self, request: Request) -> str | None:
        """The model that a request asks, or None when it is not of this form."""
        found = re.fullmatch(self.path, request.path)
        if found is None:
            return None
        return unquote(found.groupdict().get("model") or str(request.body.get("model")))

    def pieces(self, answer: Answer, model: str = "scripted") -> list[bytes]:
        """The bytes of each event."""
        return [self.encoded(event) for event in answer.events or self.events(answer, model)]
