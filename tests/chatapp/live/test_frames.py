"""Which of the latest frames bring a page up to date, and when nothing but the state will do."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.live.frames import (
    MAX_RECENT_FRAMES,
    MAX_REPLAYED_FRAMES,
    RecentFrames,
    build_frame,
    parse_number,
)


def kept(*ends: int, begin: int = 1) -> RecentFrames:
    """Frames that end at these numbers, each beginning where the one before it ended."""
    frames = RecentFrames()
    for end in ends:
        frames.add(begin, end, build_frame(end, []))
        begin = end + 1
    return frames


def numbers(frames: list[str] | None) -> list[int] | None:
    return None if frames is None else [parse_number(frame) for frame in frames]


def test_a_frame_is_its_number_and_its_changes() -> None:
    frame = build_frame(17, [("a", "thread", '<li>"é"\u2028</li>')])
    assert json.loads(frame) == {"n": 17, "f": [["a", "thread", '<li>"é"\u2028</li>']]}
    assert parse_number(frame) == 17
    assert build_frame(3, []) == '{"n":3,"f":[]}'


def test_a_page_is_sent_what_it_missed() -> None:
    assert numbers(kept(1, 2, 3, 4).since(2)) == [3, 4]
    assert numbers(kept(11, 12, begin=11).since(10)) == [11, 12]


def test_a_page_from_before_the_first_frame_needs_the_state() -> None:
    assert kept(11, 12, begin=11).since(9) is None
    assert RecentFrames().since(0) is None


def test_a_page_that_was_loaded_in_the_middle_of_a_frame_needs_the_state() -> None:
    """The frame brings the words of events 3, 4 and 5, and the page has those of 3."""
    frames = kept(1, 2, 5, 6)
    assert numbers(frames.since(2)) == [5, 6]
    assert frames.since(3) is None
    assert frames.since(4) is None
    assert numbers(frames.since(5)) == [6]


def test_a_page_that_is_far_behind_needs_the_state() -> None:
    frames = kept(*range(1, 301))
    assert numbers(frames.since(300 - MAX_REPLAYED_FRAMES)) == list(
        range(301 - MAX_REPLAYED_FRAMES, 301)
    )
    assert frames.since(299 - MAX_REPLAYED_FRAMES) is None


@pytest.mark.parametrize("many", [MAX_RECENT_FRAMES, MAX_RECENT_FRAMES + 1, 3 * MAX_RECENT_FRAMES])
def test_only_the_latest_frames_are_kept(many: int) -> None:
    frames = kept(*range(1, many + 1))
    assert numbers(frames.since(many - 1)) == [many]
    assert frames.since(many - MAX_RECENT_FRAMES - 1) is None


def test_nothing_is_known_after_a_new_beginning() -> None:
    frames = kept(1, 2, 3)
    frames.clear()
    assert frames.since(2) is None


@given(st.lists(st.integers(1, 4), min_size=1, max_size=40), st.data())
def test_what_is_sent_begins_where_the_page_is_and_has_no_gap(
    sizes: list[int], data: st.DataObject
) -> None:
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    seen = data.draw(st.integers(0, ends[-1] - 1))
    sent = numbers(kept(*ends).since(seen))
    if seen in {0, *ends}:
        assert sent == [end for end in ends if end > seen]
    else:
        assert sent is None
