"""Histories that are made shorter: results, turns that a summary stands for, transcripts."""

import asyncio
import base64
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chatapp.context.shortening import (
    KEPT_RESULTS,
    find_turn_starts,
    insert_summary,
    list_turns_to_summarise,
    shorten_results,
    write_transcript,
)
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    Media,
    SaidText,
    ToolOutcome,
    UserMessage,
)
from tests.chatapp.providers.accounts import forget_environment, point_at
from tests.chatapp.providers.stories import a_request, finish_of, said_by
from tests.peers.reading_room import PNG
from tests.wire.formats import FORMATS
from tests.wire.server import wire_server

LONG = "Line of a log. " * 400
PICTURE = Media(media_type="image/png", base64=base64.b64encode(PNG).decode())


def a_turn(question: str, result: str = "", answer: str = "Done.") -> list[HistoryItem]:
    if not result:
        return [UserMessage(text=question), AssistantMessage(parts=(SaidText(text=answer),))]
    asked = AskedTool(call_id=f"c-{question}", name="read", arguments="{}")
    return [
        UserMessage(text=question),
        AssistantMessage(parts=(asked,)),
        ToolOutcome(call_id=asked.call_id, name="read", text=result),
        AssistantMessage(parts=(SaidText(text=answer),)),
    ]


def results(items: tuple[HistoryItem, ...]) -> list[str]:
    return [item.text for item in items if isinstance(item, ToolOutcome)]


def test_old_results_are_cut_to_their_beginning_and_end_and_say_so() -> None:
    items = [*a_turn("one", LONG), *a_turn("two", LONG)]
    short = shorten_results(items, of_this_turn=False)
    old, new = results(short.items)
    assert short.count == 1
    assert new == LONG
    assert old.startswith(LONG[:400])
    assert old.endswith(LONG[-200:])
    assert f"{len(LONG) - 600:,} characters were left out" in old


def test_within_one_turn_only_the_latest_results_stay_whole() -> None:
    outcomes = [ToolOutcome(call_id=f"c{n}", name="read", text=LONG) for n in range(6)]
    short = shorten_results([UserMessage(text="go"), *outcomes], of_this_turn=True)
    assert [len(each) < len(LONG) for each in results(short.items)] == [True] * 2 + [False] * 4


def test_a_short_result_stays_and_a_picture_of_an_old_one_is_named() -> None:
    picture = Media(media_type="image/png", base64="AA==")
    plain = ToolOutcome(call_id="a", name="read", text="short")
    shown = ToolOutcome(call_id="b", name="read", text="short", media=(picture,))
    short = shorten_results([plain, shown, UserMessage(text="go")], of_this_turn=False)
    assert results(short.items) == ["short", "short\n[1 pictures or files were left out.]"]


TURNS = st.lists(
    st.builds(
        a_turn, st.text(max_size=40), st.sampled_from(["", "short", LONG]), st.text(max_size=40)
    ),
    min_size=1,
    max_size=6,
)


@given(made=TURNS, turns=st.integers(0, 7), of_this_turn=st.booleans())
def test_whatever_is_shortened_or_summarised_keeps_a_history_valid(
    made: list[list[HistoryItem]], turns: int, of_this_turn: bool
) -> None:
    items = tuple(item for turn in made for item in turn)
    short = shorten_results(items, of_this_turn=of_this_turn).items
    assert [type(item) for item in short] == [type(item) for item in items]
    told = insert_summary(short, turns, "Notes.")
    assert isinstance(told[0], UserMessage)
    asked = [p.call_id for i in told if isinstance(i, AssistantMessage) for p in i.parts
             if isinstance(p, AskedTool)]  # fmt: skip
    assert asked == [item.call_id for item in told if isinstance(item, ToolOutcome)]
    left = max(0, len(made) - turns)
    assert len(find_turn_starts(told)) == (left or len(made))
    assert ("Notes." in told[0].text) is (left > 0)


def a_turn_of_calls(question: str, outcomes: Sequence[tuple[str, bool]]) -> list[HistoryItem]:
    """A turn whose model asks for all of these results at once, some with a picture."""
    ids = [f"call_{number}" for number in range(len(outcomes))]
    asked = [AskedTool(call_id=call_id, name="read", arguments="{}") for call_id in ids]
    results = [
        ToolOutcome(call_id=call_id, name="read", text=text, media=(PICTURE,) * is_shown)
        for call_id, (text, is_shown) in zip(ids, outcomes, strict=True)
    ]
    return [UserMessage(text=question), AssistantMessage(parts=(*asked,)), *results]


OUTCOMES = st.tuples(st.sampled_from([" ", "short", LONG]), st.booleans())
QUESTIONS = st.text(min_size=1, max_size=20)
TURNS_OF_CALLS = st.builds(
    a_turn_of_calls, QUESTIONS, st.lists(OUTCOMES, min_size=1, max_size=KEPT_RESULTS + 2)
)
Ask = Callable[[str, tuple[HistoryItem, ...]], str]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Ask a model of this form to go on with a history; how its answer ended. The model server
    refuses what the real one would."""
    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patch:
        forget_environment(patch)
        serving = wire_server()
        point_at(patch, runner.run(serving.__aenter__()).url)
        yield lambda form, history: finish_of(runner.run(said_by(form, a_request(history))))
        runner.run(serving.__aexit__(None, None, None))


@pytest.mark.gate
@pytest.mark.parametrize("form", FORMATS)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    made=st.lists(TURNS | TURNS_OF_CALLS.map(lambda turn: [turn]), min_size=1, max_size=4),
    is_asked=st.booleans(),
    turns=st.integers(0, 7),
    of_this_turn=st.booleans(),
)
def test_whatever_is_shortened_or_summarised_is_taken_by_every_provider(
    ask: Ask,
    form: str,
    made: list[list[list[HistoryItem]]],
    is_asked: bool,
    turns: int,
    of_this_turn: bool,
) -> None:
    items = [item for some in made for turn in some for item in turn]
    is_asked = is_asked or not isinstance(items[-1], ToolOutcome)
    items += [UserMessage(text="And now?")] * is_asked
    short = shorten_results(items, of_this_turn=of_this_turn).items
    assert ask(form, insert_summary(short, turns, "Notes.")) == "stop"


def test_a_transcript_has_room_for_everybody_and_keeps_within_its_bound() -> None:
    items = [*a_turn("one", LONG), *a_turn("two", LONG, "It failed."), *a_turn("three") * 2]
    told = write_transcript(list_turns_to_summarise(items, 0), 3_000)
    assert told.turns == 2
    assert "Person: one" in told.text
    assert "Result of read: Line of a log." in told.text
    assert "Assistant: It failed." in told.text
    assert "three" not in told.text
    assert 2_800 < len(told.text) <= 3_000


def test_a_transcript_covers_the_turns_that_it_tells_and_no_others() -> None:
    turns = [a_turn(f"Question {n}.", LONG) for n in range(198)]
    told = write_transcript(turns, 12_000)
    assert 20 < told.turns < 198
    asked = [f"Question {n}." in told.text for n in range(198)]
    assert asked == [True] * told.turns + [False] * (198 - told.turns)
    assert told.text.endswith("Assistant: Done.")
    assert len(told.text) <= 12_000


def test_a_turn_that_is_too_long_for_a_transcript_says_what_it_lacks() -> None:
    told = write_transcript([[item for n in range(40) for item in a_turn(f"Q{n}.", LONG)]], 2_000)
    assert told.turns == 1
    assert told.text.startswith("Person: Q0.")
    assert "characters were left out here.]" in told.text
    assert told.text.endswith("Assistant: Done.")
    assert len(told.text) <= 2_000
