"""A channel layer that loses 30 % of what it is given, doubles 30 %, and shuffles the rest."""

import logging
import random
from typing import Any

from channels_redis.pubsub import RedisPubSubChannelLayer

log = logging.getLogger(__name__)
LOST, DOUBLED = 0.3, 0.6
HELD = 4


class LossyLayer(RedisPubSubChannelLayer):  # type: ignore[misc]
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
                await self._get_layer().group_send(*one)
