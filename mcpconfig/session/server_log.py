"""What a service says in its log during one operation."""

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from pydantic import ValidationError

from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import LogMessage, make_storable


class ServerLog:
    """The first messages of one operation. `level` is the level that the service is asked for, if
    any."""

    def __init__(self, level: types.LoggingLevel | None = None) -> None:
        self.level = level
        self.messages: list[LogMessage] = []

    async def note(self, params: types.LoggingMessageNotificationParams) -> None:
        if len(self.messages) < LIMITS.log_messages:
            self.messages.append(
                LogMessage(
                    level=params.level,
                    logger=_format_line(params.logger or "", 100),
                    text=_format_line(params.data, LIMITS.log_characters),
                )
            )

    async def note_params(self, params: Mapping[str, Any]) -> None:
        """Note a message as it came from the service; nothing if it is not one."""
        try:
            said = types.LoggingMessageNotificationParams.model_validate(params, by_name=False)
        except ValidationError:
            return
        await self.note(said)


def _format_line(data: object, characters: int) -> str:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return str(make_storable(" ".join(text.split())[:characters]))
