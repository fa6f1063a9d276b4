"""Frames: numbered changes of a page as a socket sends them, and the latest ones, for tabs that
come back."""

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

Op = tuple[str, str, str]
KEPT_FRAMES = 512
MOST_REPLAYED = 128


def frame_of(number: int, ops: Sequence[Op]) -> str:
    return json.dumps({"n": number, "f": ops}, ensure_ascii=False, separators=(",", ":"))


def state_frame_of(ops: Sequence[Op]) -> str:
    """A frame of what is not numbered: each is whole, and the latest counts."""
    return json.dumps({"f": ops}, ensure_ascii=False, separators=(",", ":"))


def number_of(frame: str, otherwise: int = 0) -> int:
    """What `frame_of` put first."""
    return int(frame[5 : frame.index(",")]) if frame.startswith('{"n"') else otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A frame that brings a page from just before event `first` to after event `last`."""

    first: int
    last: int
    frame: str


class KeptFrames:
    """The latest frames of one conversation, without a gap."""

    def __init__(self) -> None:
        self._kept: deque[_Kept] = deque(maxlen=KEPT_FRAMES)

    def add(self, first: int, last: int, frame: str) -> None:
        self._kept.append(_Kept(first=first, last=last, frame=frame))

    def clear(self) -> None:
        self._kept.clear()

    def since(self, seen: int) -> list[str] | None:
        """What brings a page that has come to `seen` to the latest frame.

        None where that is not known, or more than a tab is sent: it is then given the state. A page
        that has come to the middle of a frame would get some of its words twice.
        """
        missed = [kept for kept in self._kept if kept.last > seen]
        if not missed or missed[0].first != seen + 1 or len(missed) > MOST_REPLAYED:
            return None
        return [kept.frame for kept in missed]
