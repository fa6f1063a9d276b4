"""A turn says once, and quietly, which services it has to do without."""

import pytest

from chatapp.engine.notices import note_missing
from chatapp.engine.runtime import EngineRuntime
from chatapp.journal.lease import acquire
from chatapp.models import Member, Part, Turn
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.scripted import text
from tests.turns.acts import create_offered_service, wait_for_rest

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
REFUSED = {"kind": "refused", "message": "Nothing answers there.", "hint": "", "at": "now"}


def notes(owner: Member, turn: Turn) -> list[Element]:
    page = parse(signed_in(owner).get(f"/c/{turn.conversation_id}/").content.decode())
    return page.all(role="note")


def failing(name: str = "memos") -> Service:
    return create_offered_service(name, "https://nowhere.invalid/mcp", "list", last_error=REFUSED)


async def test_a_failing_service_is_named_at_the_top_of_the_answer_with_its_reason(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    await in_database(failing)
    scripted.scenes.append(text("Without memos, then."))
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    (note,) = await in_database(notes, owner, turn)
    assert "The tools of “memos” are not available. Nothing answers there." in note.text
    assert not note.all("a")
    kinds = await in_database(
        lambda: list(Part.objects.filter(message=turn.answer_id).values_list("kind", flat=True))
    )
    assert kinds == ["notice", "text"]


async def test_a_service_that_wants_this_persons_sign_in_leads_there(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    service = await in_database(
        lambda: create_offered_service(
            "vault",
            "https://nowhere.invalid/mcp",
            authentication="oauth_user",
            tools_fresh_until=None,
        )
    )
    scripted.scenes.append(text("Without the vault, then."))
    await wait_for_rest(runtime, turn)
    (note,) = await in_database(notes, owner, turn)
    assert service.name in note.text
    assert note.one("a")["href"] == "/services/"


async def test_nothing_is_said_where_nothing_is_missing(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    scripted.scenes.append(text("All is there."))
    await wait_for_rest(runtime, turn)
    assert await in_database(notes, owner, turn) == []


def test_it_is_said_once_however_often_the_turn_begins_anew(turn: Turn) -> None:
    lease = acquire(turn.pk)
    assert lease is not None
    missing = [(f"service-{n}", "It is away.") for n in range(7)]
    note_missing(lease, missing)
    note_missing(lease, missing)
    (said,) = Part.objects.filter(message=turn.answer_id)
    assert said.text.count("It is away.") == 5
    assert said.text.endswith("The tools of 2 other services are not available either.")
