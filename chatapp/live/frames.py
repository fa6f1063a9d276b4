"""Frames: numbered changes of a page as a socket sends them, and the recent ones for tabs that
reconnect."""

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

Op = tuple[str, str, str]
MAX_RECENT_FRAMES = 512
MAX_REPLAYED_FRAMES = 128


def build_frame(number: int, ops: Sequence[Op]) -> str:
    """Build the frame that brings a page to event `number`."""
    return json.dumps({"n": number, "f": ops}, ensure_ascii=False, separators=(",", ":"))


def build_state_frame(ops: Sequence[Op]) -> str:
    """Build a frame without a number. Its fragments are whole, so only the latest counts."""
    return json.dumps({"f": ops}, ensure_ascii=False, separators=(",", ":"))


def parse_number(frame: str, otherwise: int = 0) -> int:
    """Return the number of a frame, or `otherwise` if it has none."""
    return int(frame[5 : frame.index(",")]) if frame.startswith('{"n"') else otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberedFrame:
    """A frame that brings a page from just before event `first` to after event `last`."""

    first: int
    last: int
    frame: str


class RecentFrames:
    """The recent frames of one conversation, without a gap."""

    def __init__(self) -> None:
        self._kept: deque[_NumberedFrame] = deque(maxlen=MAX_RECENT_FRAMES)

    def add(self, first: int, last: int, frame: str) -> None:
        self._kept.append(_NumberedFrame(first=first, last=last, frame=frame))

    def clear(self) -> None:
        self._kept.clear()

    def since(self, seen: int) -> list[str] | None:
        """Return the frames that a page lacks that has come to event `seen`.

        Return None if some are gone, or if they are more than a tab is sent: it gets the state
        instead. So does a page in the middle of a frame, which would get some text twice.
        """
        missed = [kept for kept in self._kept if kept.last > seen]
        if not missed or missed[0].first != seen + 1 or len(missed) > MAX_REPLAYED_FRAMES:
            return None
        return [kept.frame for kept in missed]
