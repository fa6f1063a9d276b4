"""Who has a page open in this process, and whose page has to be looked at again."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from .person_signals import Mark

Bell = asyncio.Event


class People:
    """The pages of people, each with a bell that rings when something may have changed for them."""

    def __init__(self) -> None:
        self._bells: dict[int, set[Bell]] = defaultdict(set)
        self._marks: dict[int, Mark] = {}

    @property
    def here(self) -> list[int]:
        return list(self._bells)

    def join(self, person_id: int) -> Bell:
        bell = Bell()
        self._bells[person_id].add(bell)
        return bell

    def leave(self, person_id: int, bell: Bell) -> None:
        self._bells[person_id].discard(bell)
        if not self._bells[person_id]:
            del self._bells[person_id]
            self._marks.pop(person_id, None)

    def ring(self, person_id: int) -> None:
        for bell in self._bells.get(person_id, ()):
            bell.set()

    def compare(self, marks: Mapping[int, Mark]) -> None:
        """Ring for those whose mark is not the one of the last look."""
        for person_id, mark in marks.items():
            if person_id in self._bells and self._marks.get(person_id) != mark:
                self._marks[person_id] = mark
                self.ring(person_id)
