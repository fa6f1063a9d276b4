"""The fold of a model's words: however they are cut up, and wherever a page joins, it ends the
same."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chatapp.journal.journal import Event, Kind
from chatapp.live.frames import Op, build_frame
from chatapp.live.open_parts import OpenPart, OpenParts, is_of_same_part
from chatapp.rendering import page_values
from chatapp.rendering.figures.controls import add_controls
from chatapp.rendering.markdown.stream import render_markdown
from chatapp.rendering.pages import fragments
from tests.chatapp.rendering.documents import DEFINITIONS, SNIPPETS
from tests.dom import Tab
from tests.turns.tabs import shown

MESSAGE, CHAT = uuid.uuid4(), uuid.uuid4()
REASONING, TEXT, LAST = 0, 1, 2
KINDS = {REASONING: Kind.REASONING, TEXT: Kind.TEXT, LAST: Kind.TEXT}

pieces = st.sampled_from(SNIPPETS + DEFINITIONS) | st.text(min_size=1, max_size=6)
said = st.tuples(st.sampled_from([REASONING, TEXT, TEXT, LAST]), pieces)
journals = st.lists(st.one_of(said, said, said, st.just(None)), min_size=1, max_size=25)


def event(seq: int, position: int, text: str, kind: Kind | None = None) -> Event:
    data = {"message": str(MESSAGE), "step": 1, "position": position, "text": text}
    kind = kind or KINDS[position]
    return Event(conversation_id=CHAT, seq=seq, turn_id=None, kind=kind, data=data)


def journal_of(drawn: Sequence[tuple[int, str] | None]) -> list[Event]:
    """None stands for a worker that died: the step begins anew."""
    return [
        event(seq, *each) if each else event(seq, 0, "", Kind.RESTART)
        for seq, each in enumerate(drawn, start=1)
    ]


def folded_at_once(events: Iterable[Event]) -> list[OpenPart]:
    """What a reader of the journal finds: the words since the last restart."""
    parts = OpenParts()
    for each in events:
        if each.kind == Kind.RESTART:
            parts = OpenParts()
        else:
            parts.feed(each)
    return parts.as_loaded()


def draw(words: str, position: int) -> str:
    return add_controls(render_markdown(words), (MESSAGE, 1, position))


def page_of(parts: Iterable[OpenPart], seq: int = 0) -> Tab:
    inner = "".join(fragments.render_part(MESSAGE, part.view()) for part in parts)
    thread, message = page_values.THREAD_ID, page_values.parts_id(MESSAGE)
    return Tab(f'<ol id="{thread}"><li id="{message}">{inner}</li></ol>', seq)


def ops_of(parts: OpenParts, batch: Sequence[Event]) -> list[Op]:
    """The changes of events that are painted together where that can be done."""
    ops: list[Op] = []
    for each, following in zip(batch, [*batch[1:], None], strict=True):
        if each.kind == Kind.RESTART:
            ops += parts.restart(each)
            continue
        part = parts.feed(each)
        if following is None or not is_of_same_part(each, following):
            ops += part.paint(MESSAGE)
    return ops


def cut(events: list[Event], cuts: Iterable[int]) -> list[list[Event]]:
    places = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    return [events[start:end] for start, end in pairwise(places)]


@given(journals, st.integers(0, 25), st.sets(st.integers(0, 25)))
def test_any_batches_from_any_number_end_as_the_journal_read_at_once(
    drawn: list[tuple[int, str] | None], loaded_at: int, cuts: set[int]
) -> None:
    events = journal_of(drawn)
    before, after = events[:loaded_at], events[loaded_at:]
    parts = folded_at_once(before)
    tab, live = page_of(parts, len(before)), OpenParts(parts)
    for batch in cut(after, cuts):
        tab.take(build_frame(batch[-1].seq, ops_of(live, batch)))
    assert shown(tab) == shown(page_of(folded_at_once(events)))


@given(journals, st.integers(0, 25), st.sets(st.integers(0, 25)))
def test_after_the_end_of_its_step_every_text_is_its_whole_render(
    drawn: list[tuple[int, str] | None], loaded_at: int, cuts: set[int]
) -> None:
    events = journal_of(drawn)
    parts = folded_at_once(events[:loaded_at])
    tab, live = page_of(parts), OpenParts(parts)
    for batch in cut(events[loaded_at:], cuts):
        tab.take(build_frame(batch[-1].seq, ops_of(live, batch)))
    ops, seen = live.close(event(99, 0, "", Kind.STEP))
    tab.take(build_frame(99, ops))
    words = {part.position: part.words for part in folded_at_once(events)}
    assert seen == set(words)
    for position in {TEXT, LAST} & seen:
        blocks = tab.soup.find(id=page_values.blocks_id(MESSAGE, 1, position))
        tail = tab.soup.find(id=page_values.tail_id(MESSAGE, 1, position))
        assert blocks is not None and tail is not None
        whole = Tab(f"<div>{draw(words[position], position)}</div>", 0).soup.div
        assert whole is not None
        assert (blocks.decode_contents(), tail.decode_contents()) == (whole.decode_contents(), "")


def test_the_first_words_of_a_part_open_it_and_later_ones_are_added() -> None:
    parts = OpenParts()
    [(op, where, html)] = parts.feed(event(1, TEXT, "One")).paint(MESSAGE)
    assert (op, where) == ("a", page_values.parts_id(MESSAGE))
    assert page_values.part_id(MESSAGE, 1, TEXT) in html
    assert parts.feed(event(2, TEXT, " two")).paint(MESSAGE) == [
        ("r", page_values.tail_id(MESSAGE, 1, TEXT), "<p>One two</p>\n")
    ]


def test_thoughts_are_escaped_and_sent_once() -> None:
    parts = OpenParts()
    parts.feed(event(1, REASONING, "a")).paint(MESSAGE)
    parts.feed(event(2, REASONING, " <b>"))
    part = parts.feed(event(3, REASONING, " & c"))
    blocks = page_values.blocks_id(MESSAGE, 1, REASONING)
    assert part.paint(MESSAGE) == [("a", blocks, " &lt;b&gt; &amp; c")]
    assert part.paint(MESSAGE) == [("a", blocks, "")]


def test_a_restart_takes_only_its_own_step_away() -> None:
    parts = OpenParts()
    for step in (1, 2):
        spoken = event(step, TEXT, "words")
        parts.feed(replace(spoken, data={**spoken.data, "step": step}))
    [(op, where, _)] = parts.restart(event(3, 0, "", Kind.RESTART))
    assert (op, where) == ("d", page_values.part_id(MESSAGE, 1, TEXT))
    assert parts.restart(event(4, 0, "", Kind.RESTART)) == []


def test_only_words_of_one_part_are_painted_together() -> None:
    first = event(1, TEXT, "a")
    assert is_of_same_part(first, event(2, TEXT, "b"))
    assert not is_of_same_part(first, event(2, LAST, "b"))
    assert not is_of_same_part(first, event(2, REASONING, "b"))
    step = event(1, TEXT, "", Kind.STEP)
    assert not is_of_same_part(step, event(2, TEXT, "", Kind.STEP))


def test_only_a_long_open_block_is_painted_less_often() -> None:
    parts = OpenParts()
    assert parts.interval_seconds == 0
    parts.feed(event(1, TEXT, "A few words.\n\n" * 500)).paint(MESSAGE)
    assert parts.interval_seconds == 0
    parts.feed(event(2, TEXT, "- an item of a list\n" * 1_000)).paint(MESSAGE)
    assert parts.interval_seconds == 0.25
    parts.feed(event(3, TEXT, "\nAnother paragraph\n")).paint(MESSAGE)
    assert parts.interval_seconds == 0
