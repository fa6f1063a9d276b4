"""What a service writes to its log while an operation runs, taken in within bounds."""

import json

import mcp_types as types

from .limits import LIMITS
from .results import LogMessage, storable


class ServerLog:
    """The first messages of one operation. `level` is what the service is asked for, if at all."""

    def __init__(self, level: types.LoggingLevel | None = None) -> None:
        self.level = level
        self.messages: list[LogMessage] = []

    async def note(self, params: types.LoggingMessageNotificationParams) -> None:
        if len(self.messages) < LIMITS.log_messages:
            self.messages.append(
                LogMessage(
                    level=params.level,
                    logger=_line(params.logger or "", 100),
                    text=_line(params.data, LIMITS.log_characters),
                )
            )


def _line(data: object, characters: int) -> str:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return str(storable(" ".join(text.split())[:characters]))
