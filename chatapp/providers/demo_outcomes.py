"""What came of the tool calls of this turn, read from the request's history alone."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from .request import AskedTool, AssistantMessage, HistoryItem, ToolOutcome, UserMessage

Ending = Literal["succeeded", "failed", "denied", "refused", "not_run", "unknown"]

# The beginnings of the sentences in which the application tells a model what came of a call. Only a
# beginning counts: anything later may be a service's own words.
BEGINNINGS: tuple[tuple[str, Ending], ...] = (
    ("Denied by the person", "denied"),
    ("Refused by policy", "refused"),
    ("Not run", "not_run"),
    ("The outcome is unknown", "unknown"),
)
NO_OUTCOME = "The outcome is unknown: the conversation does not say what came of this call."


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One call with its outcome."""

    tool_id: str
    arguments: str
    text: str
    is_error: bool

    @property
    def ending(self) -> Ending:
        if not self.is_error:
            return "succeeded"
        fitting = (ending for start, ending in BEGINNINGS if self.text.startswith(start))
        return next(fitting, "failed")

    @property
    def persons_word(self) -> str:
        """What the person said with a denial."""
        return self.text.partition("They said: ")[2].strip()

    @property
    def failure(self) -> str:
        """Why it failed, without the prefix that the SDK of many services puts before it."""
        said, _, reason = self.text.partition(": ")
        return reason if said.startswith("Error executing tool ") and reason else self.text

    @property
    def result(self) -> dict[str, Any]:
        """The result's JSON object; empty when the result is something else."""
        return object_in(self.text)

    def argument(self, name: str) -> str:
        return str(object_in(self.arguments).get(name, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThisTurn:
    """The question, and the rounds of calls that were made for it so far."""

    question: str
    rounds: tuple[tuple[Done, ...], ...]
    calls_before: int

    @property
    def all_done(self) -> tuple[Done, ...]:
        return tuple(done for calls in self.rounds for done in calls)

    @property
    def has_gone_well(self) -> bool:
        return all(done.ending == "succeeded" for done in self.all_done)


def this_turn(history: tuple[HistoryItem, ...]) -> ThisTurn:
    asked_at = [n for n, item in enumerate(history) if isinstance(item, UserMessage)]
    start = asked_at[-1] if asked_at else 0
    question = history[start] if asked_at else None
    outcomes = {item.call_id: item for item in history[start:] if isinstance(item, ToolOutcome)}
    rounds = (
        tuple(done_of(call, outcomes.get(call.call_id)) for call in calls_of(item))
        for item in history[start:]
    )
    return ThisTurn(
        question=question.text if isinstance(question, UserMessage) else "",
        rounds=tuple(calls for calls in rounds if calls),
        calls_before=sum(len(calls_of(item)) for item in history),
    )


def calls_of(item: HistoryItem) -> list[AskedTool]:
    if not isinstance(item, AssistantMessage):
        return []
    return [part for part in item.parts if isinstance(part, AskedTool)]


def done_of(call: AskedTool, outcome: ToolOutcome | None) -> Done:
    return Done(
        tool_id=call.name,
        arguments=call.arguments,
        text=outcome.text if outcome else NO_OUTCOME,
        is_error=outcome.is_error if outcome else True,
    )


def object_in(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
