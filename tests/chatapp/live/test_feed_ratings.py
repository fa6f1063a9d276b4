"""A rating is on every open page of the chat, also on one that comes back later."""

import pytest

from chatapp.conversations import feedback
from chatapp.models import Member, Turn
from chatapp.rendering import page_values
from chatapp.server.database import in_database
from tests.dom import Tab
from tests.turns import rows
from tests.turns.tabs import caught_up, loaded, told, watched

pytestmark = pytest.mark.django_db(transaction=True)


def rate(turn: Turn, *, is_good: bool, comment: str) -> None:
    owner = turn.conversation.owner
    found = feedback.find_rateable(owner, turn.conversation_id, turn.answer_id)
    feedback.rate(found, is_good=is_good, comment=comment)


def take_back(turn: Turn) -> None:
    feedback.take_back(turn)


def get_rating(tab: Tab, turn: Turn) -> str:
    return str(tab.soup.find(id=page_values.rating_id(turn.answer_id)))


async def test_open_pages_show_a_rating_and_that_it_was_taken_back(owner: Member) -> None:
    turn = await in_database(rows.turn, owner, Turn.State.DONE)
    made, tab = await watched(turn)
    away = await loaded(turn.conversation)
    unrated = get_rating(tab, turn)
    await in_database(rate, turn, is_good=False, comment="Wrong river")
    await told(made, turn)
    await caught_up(tab, turn.conversation)
    other, _ = await watched(turn, away)  # as in another process, without the frames of this one
    await caught_up(away, turn.conversation)
    reloaded = get_rating(await loaded(turn.conversation), turn)
    assert 'aria-pressed="true"' in reloaded and reloaded != unrated
    assert get_rating(tab, turn) == get_rating(away, turn) == reloaded
    await in_database(take_back, turn)
    for feed, page in ((made, tab), (other, away)):
        await told(feed, turn)
        await caught_up(page, turn.conversation)
        assert get_rating(page, turn) == unrated
        feed.close()
