"""Notices, and the words beside them, are on the page once, whenever a tab or a feed comes back."""

import pytest

from chatapp.journal.journal import Entry, Kind
from chatapp.models import Part, Turn
from chatapp.rendering import page_values
from chatapp.server.database import in_database
from tests.turns.tabs import (
    assert_as_reloaded,
    begin,
    caught_up,
    closed,
    loaded,
    said,
    told,
    watched,
    written,
)

pytestmark = pytest.mark.django_db(transaction=True)
NOTICE = "The model stopped in the middle of its answer."


@pytest.mark.parametrize("comes_back", ["before", "between", "after"])
async def test_a_notice_is_shown_once_whenever_a_tab_comes_back(
    turn: Turn, comes_back: str
) -> None:
    """The end of a step names its parts; those that were streamed are on the page already."""
    step = await in_database(begin, turn)
    made, first = await watched(turn)
    away = await loaded(turn.conversation)
    if comes_back == "before":
        await made.join(away, away.last)
    await in_database(said, turn, "Why", kind=Kind.REASONING)
    await in_database(said, turn, "Some words.", position=1)
    if comes_back == "between":
        await made.join(away, away.last)
    parts = (("reasoning", "Why"), ("text", "Some words."), ("notice", NOTICE))
    await in_database(closed, turn, step, *parts)
    await told(made, turn)
    await caught_up(first, turn.conversation)
    if comes_back == "after":
        await made.join(away, away.last)
    await caught_up(away, turn.conversation)
    for tab in (first, away):
        assert tab.text(page_values.THREAD_ID).count(NOTICE) == 1
        assert tab.text(page_values.THREAD_ID).count("Some words.") == 1
        await assert_as_reloaded(tab, turn.conversation)


async def test_a_feed_that_begins_in_the_middle_of_a_step_knows_what_pages_have(
    turn: Turn,
) -> None:
    """As in another process, to which the tab came back while the model was speaking."""
    step = await in_database(begin, turn)
    await in_database(said, turn, "Some ", "words.")
    made, tab = await watched(turn)
    await in_database(closed, turn, step, ("text", "Some words."), ("notice", NOTICE))
    await told(made, turn)
    await caught_up(tab, turn.conversation)
    await assert_as_reloaded(tab, turn.conversation)


async def test_a_notice_after_a_step_is_not_brought_by_the_step_as_well(turn: Turn) -> None:
    """A feed that is late finds the row of the notice when it comes to the end of the step."""
    step = await in_database(begin, turn)
    made, tab = await watched(turn)
    await in_database(said, turn, "Some words.")
    await in_database(closed, turn, step, ("text", "Some words."))
    await in_database(notice_after, turn)
    await told(made, turn)
    await caught_up(tab, turn.conversation)
    assert tab.text(page_values.THREAD_ID).count(NOTICE) == 1
    await assert_as_reloaded(tab, turn.conversation)


def notice_after(turn: Turn) -> None:
    """A notice with an event of its own, as at the end of a turn."""
    Part.objects.create(message_id=turn.answer_id, step=1, position=1, kind="notice", text=NOTICE)
    data = {"message": str(turn.answer_id), "step": 1, "position": 1}
    written(turn, Entry(kind=Kind.NOTICE, data=data))
