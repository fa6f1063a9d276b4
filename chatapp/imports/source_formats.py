"""The known formats, and the one of a chat."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .formats import chatgpt, claude, countersign, librechat, open_webui
from .values import SourceChat


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """`key` is stored with what was imported, `name` is the program's."""

    key: str
    name: str
    is_chat: Callable[[dict[str, Any]], bool]
    read_chat: Callable[[dict[str, Any]], SourceChat]


FORMATS = (
    Format(
        key="countersign",
        name=countersign.NAME,
        is_chat=countersign.is_chat,
        read_chat=countersign.read_chat,
    ),
    Format(key="chatgpt", name=chatgpt.NAME, is_chat=chatgpt.is_chat, read_chat=chatgpt.read_chat),
    Format(key="claude", name=claude.NAME, is_chat=claude.is_chat, read_chat=claude.read_chat),
    Format(
        key="open-webui",
        name=open_webui.NAME,
        is_chat=open_webui.is_chat,
        read_chat=open_webui.read_chat,
    ),
    Format(
        key="librechat",
        name=librechat.NAME,
        is_chat=librechat.is_chat,
        read_chat=librechat.read_chat,
    ),
)


def find_format(raw: dict[str, Any]) -> Format | None:
    """Return the format of a chat, or None if no program is known to write it."""
    return next((each for each in FORMATS if each.is_chat(raw)), None)
