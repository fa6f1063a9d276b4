"""What is asked for again without the files or the tools that a model refused, so that people can
be told."""

from collections.abc import Callable
from typing import Any

from .complaints import refuses_tools
from .events import FilesLeftOut, ToolsLeftOut

Body = dict[str, Any]
Simpler = Callable[[Body, str], Body | None]

CONVERSATIONS = ("messages", "input", "contents")
TYPES = {"input_image", "input_file", "image_url", "file", "image", "document"}
KEYS = {"inline_data", "image", "document"}


class Retreat:
    """Makes a request simpler, as `simpler` says where it is not for its tools, and notes whether
    that took files or tools away."""

    def __init__(self, simpler: Simpler) -> None:
        self._simpler = simpler
        self._untold: tuple[FilesLeftOut | ToolsLeftOut, ...] = ()

    def __call__(self, body: Body, complaint: str) -> Body | None:
        if "tools" in body and refuses_tools(complaint):
            self._untold = (*self._untold, ToolsLeftOut())
            return {key: value for key, value in body.items() if key != "tools"}
        smaller = self._simpler(body, complaint)
        if smaller is not None and files_in(smaller) < files_in(body):
            others = (each for each in self._untold if each != FilesLeftOut())
            self._untold = (*others, FilesLeftOut())
        return smaller

    def told(self) -> tuple[FilesLeftOut | ToolsLeftOut, ...]:
        """What is to be said and was not yet."""
        untold, self._untold = self._untold, ()
        return untold


def files_in(body: Body) -> int:
    """How many pictures and documents a request holds, in any provider's form."""
    return sum(_files(body[each]) for each in CONVERSATIONS if each in body)


def _files(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_files, value))
    if not isinstance(value, dict):
        return 0
    if value.get("type") in TYPES or KEYS & value.keys():
        return 1
    return sum(map(_files, value.values()))
