"""The tokens of one model call: as the provider reports them, otherwise estimated."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from chatapp.providers.estimate import count_text_tokens, count_tokens
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
    """Counts the tokens of a stream.

    Providers report usage last. An answer that was stopped or failed before that is estimated,
    rather too high than too low, so that Stop does not make it free.
    """

    asked_tokens: int = 0
    words: list[str] = field(default_factory=list)
    reported: Usage = field(default_factory=Usage)

    @property
    def used(self) -> Usage:
        if self.reported.input_tokens or self.reported.output_tokens:
            return self.reported
        return Usage(
            input_tokens=self.asked_tokens, output_tokens=count_text_tokens("".join(self.words))
        )

    async def read(
        self, request: ModelRequest, events: AsyncGenerator[ModelEvent, None]
    ) -> AsyncGenerator[ModelEvent, None]:
        """Yield the same events. A request that was refused before the first text used nothing."""
        self.asked_tokens = count_tokens(request)
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
                self.reported = event
            case _:
                pass
