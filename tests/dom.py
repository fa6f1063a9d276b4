"""A page as a tab holds it: parsed HTML, changed by frames as `static/js/stream.js` does."""

import asyncio
import json
from typing import Any

from bs4 import BeautifulSoup, Tag


class Tab:
    """One tab: the page as it was loaded, and every frame since."""

    def __init__(self, html: str, last: int) -> None:
        self.soup = BeautifulSoup(html, "html.parser")
        self.last = last
        self.numbers: list[int] = []
        self.moved = asyncio.Event()

    def take(self, frame: str) -> None:
        """Apply one frame; one that was seen before changes nothing."""
        self.moved.set()
        message = json.loads(frame)
        if message["n"] <= self.last:
            return
        self.last = message["n"]
        self.numbers.append(self.last)
        for op, element_id, html in message["f"]:
            self._apply(op, element_id, html)

    def drop(self) -> None:
        """A tab of a test has no line that could be cut."""

    def _apply(self, op: str, element_id: str, html: str) -> None:
        element = self.soup.find(id=element_id)
        if not isinstance(element, Tag):
            return
        match op:
            case "a":
                element.extend(_children(html))
            case "r":
                element.clear()
                element.extend(_children(html))
            case "o":
                element.replace_with(*_children(html))
            case "x":
                code = element.find("code") or element
                code.append(html)
            case "d":
                element.decompose()

    def text(self, element_id: str) -> str:
        """What a person reads in an element, with white space folded."""
        element = self.soup.find(id=element_id)
        return " ".join(element.get_text(" ").split()) if isinstance(element, Tag) else ""

    def count(self, selector: str) -> int:
        return len(self.soup.select(selector))


def _children(html: str) -> list[Any]:
    return [child.extract() for child in list(BeautifulSoup(html, "html.parser").children)]
