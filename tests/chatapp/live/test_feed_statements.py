"""What a feed asks the database."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatapp.engine.runtime import EngineRuntime
from chatapp.journal import journal
from chatapp.journal.journal import Event
from chatapp.live.feed import _render_events
from chatapp.live.open_parts import TEXT_KINDS, OpenParts, load_open_parts
from chatapp.models import Turn
from chatapp.server.database import in_database
from tests import scripted
from tests.scripted import text
from tests.turns.acts import wait_for_rest
from tests.turns.tabs import begin, said

pytestmark = pytest.mark.django_db(transaction=True)
STATEMENTS_OF_A_TURN = 9


def count_statements(work: Any, *args: Any) -> tuple[int, Any]:
    with CaptureQueriesContext(connection) as asked:
        found = work(*args)
    return len(asked), found


def read_changes(turn: Turn, after: int) -> list[Event]:
    events = journal.read_events_after(turn.conversation_id, after)
    return [event for event in events if event.kind not in TEXT_KINDS]


async def test_the_events_of_a_turn_without_tools_need_few_statements(
    runtime: EngineRuntime, turn: Turn
) -> None:
    """Those of its start, which are committed together, and those of its end."""
    first = await in_database(read_changes, turn, 0)
    asked, _ops = await in_database(count_statements, _render_events, OpenParts(), first)
    scripted.scenes.append(text("Some ", "words."))
    await wait_for_rest(runtime, turn)
    rest = await in_database(read_changes, turn, first[-1].seq)
    parts = OpenParts()
    for event in await in_database(journal.read_events_after, turn.conversation_id, first[-1].seq):
        if event.kind in TEXT_KINDS:
            parts.feed(event)
    more, _ops = await in_database(count_statements, _render_events, parts, rest)
    assert asked + more <= STATEMENTS_OF_A_TURN


async def test_a_feed_begins_with_one_statement_while_no_model_is_called(turn: Turn) -> None:
    asked, _found = await in_database(count_statements, load_open_parts, turn.conversation_id)
    assert asked == 1
    await in_database(begin, turn)
    await in_database(said, turn, "Some words.")
    _asked, (_seq, parts) = await in_database(
        count_statements, load_open_parts, turn.conversation_id
    )
    assert [part.words for part in parts] == ["Some words."]
