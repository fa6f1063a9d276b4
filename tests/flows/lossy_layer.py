"""Channel layers that lose 30 % of what they are given, double 30 %, and shuffle the rest."""

import logging
import random
from typing import Any

from channels_redis.pubsub import RedisPubSubChannelLayer

from chatapp.server.postgresql.channel_layer import NotifyChannelLayer

log = logging.getLogger(__name__)
LOST, DOUBLED = 0.3, 0.6
HELD = 4


class Losses:
    """Holds messages back until there are a few, then sends them in any order."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fate = random.Random(20)  # noqa: S311  not a secret
        self.held: list[tuple[str, dict[str, Any]]] = []

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        lot = self.fate.random()
        if lot < LOST:
            log.info("hint lost")
            return
        copies = 2 if lot < DOUBLED else 1
        if copies == 2:
            log.info("hint doubled")
        self.held += [(group, message)] * copies
        if len(self.held) >= HELD:
            sent, self.held = self.held, []
            self.fate.shuffle(sent)
            for one in sent:
                await self.send_on(*one)

    async def send_on(self, group: str, message: dict[str, Any]) -> None:
        await super().group_send(group, message)  # type: ignore[misc]  # of a layer


class LossyRedisLayer(Losses, RedisPubSubChannelLayer):  # type: ignore[misc]
    async def send_on(self, group: str, message: dict[str, Any]) -> None:
        await self._get_layer().group_send(group, message)


class LossyNotifyLayer(Losses, NotifyChannelLayer):
    pass
