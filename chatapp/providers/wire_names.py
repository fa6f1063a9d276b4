"""Names in a provider's own alphabet, with an exact way back."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

HASH_LENGTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRule:
    """Which names a provider takes. `letters` and `first` are the insides of a character class."""

    letters: str
    longest: int
    first: str = ""

    def takes(self, name: str) -> bool:
        begun = not self.first or re.match(f"[{self.first}]", name) is not None
        return begun and re.fullmatch(f"[{self.letters}]{{1,{self.longest}}}", name) is not None

    def hashed(self, name: str, attempt: int) -> str:
        """A name that it takes and that nobody else is likely to have."""
        digest = hashlib.sha256(f"{attempt}:{name}".encode("utf-8", "surrogatepass")).hexdigest()
        readable = re.sub(f"[^{self.letters}]", "_", name)
        if self.first and not re.match(f"[{self.first}]", readable):
            readable = f"_{readable}"
        return f"{readable[: self.longest - HASH_LENGTH - 1]}_{digest[:HASH_LENGTH]}"


class WireNames:
    """Our names and those that the model sees instead: one to one, the same in any order."""

    def __init__(self, rule: NameRule, names: Iterable[str]) -> None:
        self._rule = rule
        self._to_wire: dict[str, str] = {}
        self._from_wire: dict[str, str] = {}
        for name in sorted(set(names), key=lambda name: (not rule.takes(name), name)):
            self._add(name)

    def _add(self, name: str) -> str:
        rule = self._rule
        wire, attempt = (name, 0) if rule.takes(name) else (rule.hashed(name, 0), 1)
        while wire in self._from_wire:
            wire, attempt = rule.hashed(name, attempt), attempt + 1
        self._to_wire[name], self._from_wire[wire] = wire, name
        return wire

    def to_wire(self, name: str) -> str:
        """The name on the wire, also of a tool that the history mentions but nobody offers now."""
        return self._to_wire.get(name) or self._add(name)

    def from_wire(self, wire: str) -> str:
        """Our name; a name that the model made up comes back as it is."""
        return self._from_wire.get(wire, wire)
