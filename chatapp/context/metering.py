"""The tokens of one model call: as the provider reports them, otherwise estimated."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from chatapp.providers.access.observed_calls import ObservedCall
from chatapp.providers.estimate import count_text_tokens, count_tokens
from chatapp.providers.events import (
    ArgumentsDelta,
    FilesLeftOut,
    Finished,
    ModelEvent,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    ToolLeftOut,
    ToolsLeftOut,
    Usage,
)
from chatapp.providers.request import ModelRequest

# What an adapter says about the request, which is no part of an answer.
BEFORE_ANSWER = (ToolLeftOut, ToolsLeftOut, FilesLeftOut)


@dataclass(slots=True, kw_only=True)
class Meter:
    """Counts the tokens of a stream.

    Providers report usage last. An answer that was stopped or failed before that is estimated,
    rather too high than too low, so that Stop does not make it free.
    """

    words: list[str] = field(default_factory=list)
    reported: Usage = field(default_factory=Usage)
    _request: ModelRequest | None = field(default=None, init=False)

    @property
    def request_tokens(self) -> int:
        """The tokens of the request by our estimate. It is made when it is read, after the answer,
        because it would delay the first text."""
        return count_tokens(self._request) if self._request is not None else 0

    @property
    def used(self) -> Usage:
        if self.reported.input_tokens or self.reported.output_tokens:
            return self.reported
        return Usage(
            input_tokens=self.request_tokens, output_tokens=count_text_tokens("".join(self.words))
        )

    async def read(
        self,
        request: ModelRequest,
        events: AsyncGenerator[ModelEvent, None],
        observed: ObservedCall,
    ) -> AsyncGenerator[ModelEvent, None]:
        """Yield the same events. A request that failed before anything of its answer came used
        nothing."""
        self._request = request
        has_received = False
        with observed:
            try:
                async with aclosing(events):
                    async for event in events:
                        if not observed.has_begun:
                            observed.note_begin()
                        match event:
                            case TextDelta() | ReasoningDelta() | ArgumentsDelta():
                                self.words.append(event.text)
                            case Usage():
                                self.reported = event
                                observed.note(event)
                            case Finished():
                                observed.note(event)
                        if not has_received:
                            has_received = not isinstance(event, BEFORE_ANSWER)
                        yield event
            except ProviderError:
                if not has_received:
                    self._request = None
                raise
