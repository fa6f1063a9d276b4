"""A turn that calls a changed tool says so once at the top of its answer."""

from collections.abc import Callable

import pytest

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Consent, Member, ToolCall, Turn
from chatapp.server.database import in_database
from mcpconfig.models import Service, ToolSetting
from tests import scripted
from tests.scripted import calls, text
from tests.turns.acts import READ, read_notices, wait_for_rest

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
CONFIRMED = "The tool “read_note” of “notebook” has changed, so it asks each time."
ALLOWED = "The tool “read_note” of “notebook” has changed, so your permission has ended."


def confirmed_before() -> None:
    ToolSetting.objects.filter(name="read_note").update(confirmed_hash="as-it-was")


def allow(definition: str, **fields: object) -> None:
    service = Service.objects.get(name="notebook")
    values = {"person": Member.objects.get(username="owner")} | fields
    Consent.objects.create(
        service=service,
        endpoint=service.endpoint,
        scope="always",
        definitions={"read_note": definition, "delete_note": "another"},
        **values,
    )


def allowed_before() -> None:
    allow("as-it-was")


def allowed_now() -> None:
    allow("as-it-was")
    allow(ToolSetting.objects.get(name="read_note").confirmed_hash)


def allowed_and_revoked() -> None:
    allow("as-it-was")
    Consent.objects.update(revoked_at="2026-01-01T00:00:00Z")


def allowed_by_another() -> None:
    allow("as-it-was", person=Member.objects.create_user("another"))


def never_confirmed() -> None:
    ToolSetting.objects.filter(name="read_note").delete()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (confirmed_before, [CONFIRMED]),
        (allowed_before, [ALLOWED]),
        (allowed_now, []),
        (allowed_and_revoked, []),
        (allowed_by_another, []),
        (never_confirmed, []),
        (lambda: None, []),
    ],
)
async def test_a_call_of_a_changed_tool_is_told_of(
    runtime: EngineRuntime,
    notebook: Service,
    turn: Turn,
    change: Callable[[], None],
    said: list[str],
) -> None:
    await in_database(change)
    scripted.scenes += [calls(READ), text("It says nothing of worth.")]
    await wait_for_rest(runtime, turn)
    assert await in_database(read_notices, turn) == said


async def test_a_changed_tool_asks(runtime: EngineRuntime, notebook: Service, turn: Turn) -> None:
    await in_database(confirmed_before)
    scripted.scenes.append(calls(READ))
    assert (await wait_for_rest(runtime, turn)).state == Turn.State.WAITING
    assert (await in_database(ToolCall.objects.get)).state == ToolCall.State.AWAITING_APPROVAL


async def test_an_answer_without_a_call_says_nothing_of_it(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    await in_database(confirmed_before)
    scripted.scenes.append(text("No need to look."))
    await wait_for_rest(runtime, turn)
    assert await in_database(read_notices, turn) == []
