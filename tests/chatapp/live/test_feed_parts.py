"""Tabs that show different parts of a long conversation get all that came or changed, each once."""

import pytest
from django.db import transaction

from chatapp.conversations import intake
from chatapp.journal import journal
from chatapp.live.feed import Feed
from chatapp.live.page_view import PART_LENGTH, load_conversation_view
from chatapp.models import Conversation, JournalEvent, Member, Part, Turn
from chatapp.rendering import page_values
from chatapp.rendering.pages import fragments
from chatapp.server.database import in_database
from tests.dom import Tab
from tests.turns import rows
from tests.turns.tabs import caught_up, latest, loaded

pytestmark = pytest.mark.django_db(transaction=True)
COUNT = 2 * PART_LENGTH


def open_two_parts(conversation: Conversation) -> Tab:
    """A tab whose reader scrolled up once."""
    newest = load_conversation_view(conversation)
    older = load_conversation_view(conversation, newest.earlier)
    messages = "".join(map(fragments.render_message, older.messages + newest.messages))
    return Tab(f'<ol id="{page_values.THREAD_ID}">{messages}</ol>', newest.seq)


def list_ids(tab: Tab) -> list[str]:
    return [str(item["id"]) for item in tab.soup.select(".turn")]


def go_on(person: Member, conversation: Conversation) -> None:
    """More questions and answers than a page has at once, and a changed answer of long ago."""
    for number in range(PART_LENGTH // 2 + 3):
        turn = intake.receive(person, conversation, text=f"More {number}.", model=rows.MODEL)
        Turn.objects.filter(pk=turn.pk).update(state=Turn.State.DONE)
    turns = Turn.objects.filter(conversation=conversation).order_by("answer__created_seq")
    for old in (turns[0], turns[COUNT // 2 - PART_LENGTH // 2 - 1]):
        Part.objects.filter(message=old.answer_id).update(text="Changed.")
        with transaction.atomic():
            journal.append(conversation.pk, old.pk, [journal.turn_entry(old, "done")])
    JournalEvent.objects.all().delete()


@pytest.mark.parametrize("watches", [False, True])
async def test_a_tab_gets_every_new_message_once_whatever_part_it_shows(
    owner: Member, watches: bool
) -> None:
    turns = await in_database(rows.turns_of_chat, owner, COUNT // 2)
    conversation = turns[0].conversation
    tabs = [await loaded(conversation), await in_database(open_two_parts, conversation)]
    before = [list_ids(tab) for tab in tabs]
    assert [len(ids) for ids in before] == [PART_LENGTH, 2 * PART_LENGTH]
    feed = Feed(conversation.pk)
    if watches:
        for tab in tabs:
            await feed.join(tab, tab.last)
    await in_database(go_on, owner, conversation)
    if watches:
        feed.nudge(await latest(conversation))
    else:
        for tab in tabs:
            await feed.join(tab, tab.last)
    for tab in tabs:
        await caught_up(tab, conversation)
    added = [
        ids[len(shown) :]
        for tab, shown in zip(tabs, before, strict=True)
        for ids in [list_ids(tab)]
    ]
    assert [list_ids(tab)[: len(shown)] for tab, shown in zip(tabs, before, strict=True)] == before
    assert added[0] == added[1] and len(added[0]) == len(set(added[0])) == PART_LENGTH + 6
    assert [tab.text(page_values.THREAD_ID).count("Changed.") for tab in tabs] == [0, 2]
    feed.close()
