"""Ids of calls fit every provider, and each is used once."""

from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    ToolOutcome,
    UserMessage,
)
from chatapp.providers.tools.wire_names import NameRule, fit_call_ids

RULE = NameRule(letters="a-z0-9_", longest=12)


def asked(*ids: str, provider: str = "") -> AssistantMessage:
    opaque = {"provider": provider, "data": {}} if provider else None
    calls = (AskedTool(call_id=each, name="n", arguments="{}", opaque=opaque) for each in ids)
    return AssistantMessage(parts=tuple(calls))


def told(call_id: str) -> ToolOutcome:
    return ToolOutcome(call_id=call_id, name="n", text="Done")


def ids_of(*history: HistoryItem, own: str = "") -> list[str]:
    found: list[str] = []
    for item in fit_call_ids(history, RULE, own):
        if isinstance(item, AssistantMessage):
            found += [part.call_id for part in item.parts if isinstance(part, AskedTool)]
        elif isinstance(item, ToolOutcome):
            found.append(item.call_id)
    return found


def test_ids_that_fit_stay() -> None:
    assert ids_of(UserMessage(text="x"), asked("a", "b"), told("a"), told("b")) == [*"abab"]


def test_ids_that_do_not_fit_are_changed_with_their_results() -> None:
    first, second, *results = ids_of(asked("A!", "x" * 70), told("A!"), told("x" * 70))
    assert results == [first, second]
    assert first != second and RULE.takes(first) and RULE.takes(second)


def test_an_id_that_comes_again_is_another_one() -> None:
    calls = (asked("call_0"), told("call_0"))
    one, its, other, others = ids_of(*calls, *calls)
    assert (one, its) == ("call_0", "call_0")
    assert other == others != one


def test_what_the_provider_sealed_keeps_its_id() -> None:
    assert ids_of(asked("A!", provider="own"), told("A!"), own="own") == ["A!", "A!"]
    assert ids_of(asked("A!", provider="else"), told("A!"), own="own")[0] != "A!"


def test_the_same_history_has_the_same_ids_each_time() -> None:
    history = (asked("A!"), told("A!"), asked("A!"), told("A!"))
    assert ids_of(*history) == ids_of(*history)
