"""Names of tools and ids of calls in the alphabet of a provider."""

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from chatapp.providers.request import AskedTool, AssistantMessage, HistoryItem, ToolOutcome

HASH_LENGTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRule:
    """The names that a provider takes. `letters` and `first` are contents of a character class."""

    letters: str
    longest: int
    first: str = ""

    def takes(self, name: str) -> bool:
        return _compile(self.letters, self.longest, self.first).fullmatch(name) is not None

    def hash_name(self, name: str, attempt: int) -> str:
        """Return a name that the rule allows and that is most probably unique."""
        digest = hashlib.sha256(f"{attempt}:{name}".encode("utf-8", "surrogatepass")).hexdigest()
        readable = re.sub(f"[^{self.letters}]", "_", name)
        if self.first and not re.match(f"[{self.first}]", readable):
            readable = f"_{readable}"
        return f"{readable[: self.longest - HASH_LENGTH - 1]}_{digest[:HASH_LENGTH]}"


@functools.cache
def _compile(letters: str, longest: int, first: str) -> re.Pattern[str]:
    """Return the pattern of a rule. Each request checks every name that it has."""
    begin = f"(?=[{first}])" if first else ""
    return re.compile(f"{begin}[{letters}]{{1,{longest}}}")


class WireNames:
    """Maps our names to names on the wire, one to one and in any order the same."""

    def __init__(self, rule: NameRule, names: Iterable[str]) -> None:
        self._rule = rule
        self._to_wire: dict[str, str] = {}
        self._from_wire: dict[str, str] = {}
        for name in sorted(set(names), key=lambda name: (not rule.takes(name), name)):
            self._add(name)

    def _add(self, name: str) -> str:
        rule = self._rule
        wire, attempt = (name, 0) if rule.takes(name) else (rule.hash_name(name, 0), 1)
        while wire in self._from_wire:
            wire, attempt = rule.hash_name(name, attempt), attempt + 1
        self._to_wire[name], self._from_wire[wire] = wire, name
        return wire

    def to_wire(self, name: str) -> str:
        """Return the name on the wire, also of a tool that is no longer offered."""
        return self._to_wire.get(name) or self._add(name)

    def from_wire(self, wire: str) -> str:
        """Return our name. A name that the model invented is returned unchanged."""
        return self._from_wire.get(wire, wire)


def fit_call_ids(
    history: Iterable[HistoryItem], rule: NameRule, own: str = ""
) -> Iterator[HistoryItem]:
    """Yield the history with ids that fit the rule.

    A part with opaque data of the provider `own` keeps its id, which is inside the data.
    """
    ids = _Ids(rule)
    for item in history:
        match item:
            case AssistantMessage():
                parts = (
                    replace(part, call_id=ids.map_call(part, own))
                    if isinstance(part, AskedTool)
                    else part
                    for part in item.parts
                )
                yield replace(item, parts=tuple(parts))
            case ToolOutcome():
                yield replace(item, call_id=ids.map_outcome(item.call_id))
            case _:
                yield item


class _Ids:
    def __init__(self, rule: NameRule) -> None:
        self._rule = rule
        self._wire: dict[str, str] = {}
        self._used: set[str] = set()

    def map_call(self, part: AskedTool, own: str) -> str:
        is_sealed = part.opaque is not None and part.opaque.get("provider") == own
        wire = part.call_id if is_sealed else self._find_free(part.call_id)
        self._used.add(wire)
        self._wire[part.call_id] = wire
        return wire

    def map_outcome(self, call_id: str) -> str:
        """Return the id of the latest call with this id."""
        return self._wire.get(call_id) or self._find_free(call_id)

    def _find_free(self, call_id: str) -> str:
        wire, attempt = call_id, 0
        while wire in self._used or not self._rule.takes(wire):
            wire, attempt = self._rule.hash_name(call_id, attempt), attempt + 1
        return wire
