"""What one model call used: as its provider says or, where it did not come to say so, about."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from chatapp.providers.estimate import tokens_in, tokens_of
from chatapp.providers.events import (
    ArgumentsDelta,
    ModelEvent,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from chatapp.providers.request import ModelRequest


@dataclass(slots=True, kw_only=True)
class Meter:
    """Reads along. Providers tell what was used last, so an answer that was stopped or that failed
    is estimated, on the side of too many: otherwise Stop would make it free."""

    asked_tokens: int = 0
    words: list[str] = field(default_factory=list)
    told: Usage = field(default_factory=Usage)

    @property
    def used(self) -> Usage:
        if self.told.input_tokens or self.told.output_tokens:
            return self.told
        return Usage(input_tokens=self.asked_tokens, output_tokens=tokens_in("".join(self.words)))

    async def read(
        self, request: ModelRequest, events: AsyncGenerator[ModelEvent, None]
    ) -> AsyncGenerator[ModelEvent, None]:
        """The same events. A request that was refused before the first word used nothing."""
        self.asked_tokens = tokens_of(request)
        try:
            async with aclosing(events):
                async for event in events:
                    self._note(event)
                    yield event
        except ProviderError:
            if not self.words:
                self.asked_tokens = 0
            raise

    def _note(self, event: ModelEvent) -> None:
        match event:
            case TextDelta(text=text) | ReasoningDelta(text=text) | ArgumentsDelta(text=text):
                self.words.append(text)
            case Usage():
                self.told = event
            case _:
                pass
