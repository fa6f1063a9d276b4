"""Ids of calls as one provider takes them, each used once in a conversation.

Providers have other alphabets and lengths, and some servers count from 0 in every answer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from .request import AskedTool, AssistantMessage, HistoryItem, ToolOutcome
from .wire_names import NameRule


def with_fitting_ids(
    history: Iterable[HistoryItem], rule: NameRule, own: str = ""
) -> Iterator[HistoryItem]:
    """The history with ids that fit. What the provider `own` sealed holds its id: that stays."""
    ids = _Ids(rule)
    for item in history:
        match item:
            case AssistantMessage():
                parts = (
                    replace(part, call_id=ids.asked(part, own))
                    if isinstance(part, AskedTool)
                    else part
                    for part in item.parts
                )
                yield replace(item, parts=tuple(parts))
            case ToolOutcome():
                yield replace(item, call_id=ids.answered(item.call_id))
            case _:
                yield item


class _Ids:
    def __init__(self, rule: NameRule) -> None:
        self._rule = rule
        self._wire: dict[str, str] = {}
        self._used: set[str] = set()

    def asked(self, part: AskedTool, own: str) -> str:
        is_sealed = part.opaque is not None and part.opaque.get("provider") == own
        wire = part.call_id if is_sealed else self._free(part.call_id)
        self._used.add(wire)
        self._wire[part.call_id] = wire
        return wire

    def answered(self, call_id: str) -> str:
        """The id of the latest call that had this one."""
        return self._wire.get(call_id) or self._free(call_id)

    def _free(self, call_id: str) -> str:
        wire, attempt = call_id, 0
        while wire in self._used or not self._rule.takes(wire):
            wire, attempt = self._rule.hashed(call_id, attempt), attempt + 1
        return wire
