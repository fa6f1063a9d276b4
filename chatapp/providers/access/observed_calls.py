"""One model call as the metrics and traces show it: how long it took, how it ended and what it
used, without a word of it."""

import asyncio
import time
from types import TracebackType

from chatapp.providers.access.model_choice import ChosenModel
from chatapp.providers.access.usage import Price, find_price
from chatapp.providers.events import Finished, ProviderError, Usage
from chatapp.telemetry import metrics, tracing
from chatapp.telemetry.metrics import MODEL_NAMES, OTHER

# The names of providers in OpenTelemetry's conventions.
PROVIDER_NAMES = {
    "openai": "openai",
    "openai-chat": "openai",
    "anthropic": "anthropic",
    "google": "gcp.gemini",
    "bedrock": "aws.bedrock",
}


class ObservedCall:
    """Times the `with` block, which sends the request and reads the whole answer. `purpose` is
    `answer`, `summary`, `title`, `opinion` or `embedding`."""

    def __init__(self, model: ChosenModel, purpose: str, price: Price | None = None) -> None:
        self._kind = model.kind
        # People may type the name of any model, so such a name is no label.
        self._name = MODEL_NAMES.bound(model.name) if model.is_named_here else OTHER
        self._price = price or find_price(model.facts)
        self._purpose = purpose
        self._operation = "embeddings" if purpose == "embedding" else "chat"
        self._usage = Usage()
        self._finish_reason = ""
        self.has_begun = False

    def __enter__(self) -> None:
        self._began = time.monotonic()
        metrics.MODEL_CALLS_RUNNING.labels(self._kind).inc()
        self._span = tracing.open_span(
            f"{self._operation} {self._name}",
            {
                "gen_ai.operation.name": self._operation,
                "gen_ai.provider.name": PROVIDER_NAMES.get(self._kind, self._kind),
                "gen_ai.request.model": self._name,
                "gen_ai.request.stream": self._operation == "chat",
                "countersign.purpose": self._purpose,
            },
            is_client=True,
        )

    def note_begin(self) -> None:
        """The first part of the answer is there."""
        self.has_begun = True
        seconds = time.monotonic() - self._began
        metrics.MODEL_FIRST_EVENT_SECONDS.labels(self._kind, self._name).observe(seconds)
        self._span.set({"gen_ai.response.time_to_first_chunk": seconds})

    def note(self, event: Usage | Finished) -> None:
        if isinstance(event, Usage):
            self._usage = event
        else:
            self._finish_reason = event.reason

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        kind, name, used = self._kind, self._name, self._usage
        outcome = self._find_outcome(error)
        metrics.MODEL_CALLS_RUNNING.labels(kind).dec()
        metrics.MODEL_CALLS.labels(kind, name, outcome).inc()
        metrics.MODEL_CALL_SECONDS.labels(kind, name).observe(time.monotonic() - self._began)
        tokens = {
            "input": used.input_tokens,
            "cached": used.cached_tokens,
            "output": used.output_tokens,
            "reasoning": used.reasoning_tokens,
        }
        for each, count in tokens.items():
            if count:
                metrics.MODEL_TOKENS.labels(kind, name, each).inc(count)
        if self._price is not None:
            cost = float(self._price.compute_cost(used))
            metrics.MODEL_COST.labels(kind, name, self._price.currency).inc(max(0.0, cost))
        self._end_span(outcome)

    def _find_outcome(self, error: BaseException | None) -> str:
        match error:
            case ProviderError():
                return error.kind
            case asyncio.CancelledError() | GeneratorExit():
                return "finished" if self._finish_reason else "cancelled"
            case None:
                return "finished" if self._finish_reason else "protocol"
        return "internal"

    def _end_span(self, outcome: str) -> None:
        used = self._usage
        self._span.set(
            {
                "gen_ai.usage.input_tokens": used.input_tokens,
                "gen_ai.usage.output_tokens": used.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": used.cached_tokens,
                "gen_ai.usage.reasoning.output_tokens": used.reasoning_tokens,
            }
        )
        if self._finish_reason:
            self._span.set({"gen_ai.response.finish_reasons": [self._finish_reason]})
        if outcome != "finished":
            self._span.fail(outcome)
        self._span.end()
