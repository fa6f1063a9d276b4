"""The language of what the engine writes: notices for the person, English for the model."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from django.utils.translation import get_language

from chatapp.calls.beginning import decide_and_begin
from chatapp.calls.deciding import decide_calls
from chatapp.calls.execution import execute, send_begun
from chatapp.calls.ledger import settle_cut_off, settle_orphans, write_error
from chatapp.calls.own_tool_execution import run_core_calls
from chatapp.calls.recheck import reopen_decisions
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import LogEntry, Member, Part, ToolCall, Turn
from chatapp.rendering.call_values import draw_problem
from chatapp.rendering.stored_sentences import COUNTED, TEMPLATES, translate_stored
from chatapp.server.database import in_database
from chatapp.server.languages import in_english, speaking
from mcpconfig.models import Service
from tests import scripted
from tests.pseudo_locales import LONG, is_translated
from tests.scripted import calls, text
from tests.turns.acts import wait_for_rest
from translations.sources import list_python_files, read_python_messages

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("pseudo_locales"),
]
UNKNOWN = ("no_such_tool", "{}")


@pytest.fixture
def owner(owner: Member) -> Member:
    Member.objects.filter(pk=owner.pk).update(last_language=LONG)
    owner.refresh_from_db()
    return owner


async def test_a_notice_is_in_the_language_of_its_person(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes.append([])
    assert (await wait_for_rest(runtime, turn)).state != Turn.State.WAITING
    [notice] = await in_database(lambda: list(Part.objects.filter(kind=Part.Kind.NOTICE)))
    assert is_translated(notice.text)
    assert is_translated(notice.hint)


async def test_the_model_reads_english(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(UNKNOWN, ("current_time", '{"zone": "Nowhere"}')), text("Well.")]
    await wait_for_rest(runtime, turn)
    assert len(scripted.requests) == 2
    for request in scripted.requests:
        assert not is_translated(repr(request))
    found = await in_database(lambda: list(ToolCall.objects.order_by("position")))
    problem = str(found[0].error)
    assert "There is no tool named" in problem
    entries = await in_database(lambda: list(LogEntry.objects.values_list("data", flat=True)))
    assert entries
    assert not is_translated(str(entries))


@pytest.mark.parametrize(
    "work",
    [
        *(decide_calls, decide_and_begin, reopen_decisions, settle_orphans, settle_cut_off),
        *(execute, send_begun, run_core_calls, write_error),
    ],
)
def test_what_is_stored_with_a_call_is_made_in_english(work: Callable[..., Any]) -> None:
    """Not all of them are easily brought to fail, so this looks for the decorator."""
    assert "/languages.py" in work.__code__.co_filename


async def test_work_in_english_is_in_english_whoever_asks_for_it() -> None:
    @in_english
    async def later() -> str | None:
        return get_language()

    with speaking(LONG):
        assert in_english(get_language)() == "en"
        assert await later() == "en"
        assert get_language() == LONG


def test_a_stored_sentence_is_translated_when_it_is_shown() -> None:
    call = ToolCall(state="failed", error={"message": "Try again.", "hint": "From a service."})
    with speaking(LONG):
        shown = draw_problem(call)
    assert shown.startswith("[Ť")
    assert shown.endswith("] From a service.")
    assert draw_problem(call) == "Try again. From a service."


@pytest.mark.parametrize(
    ("stored", "kept"),
    [
        ("The tool box_open is no longer available.", "box_open"),
        ("The service refused: no. Try again.", "no. Try again."),
        (
            "The service returned an error (HTTP 503). The service said: “Wait. A lot”.",
            "Wait. A lot",
        ),
        ("This tool can run 1 time a minute. Wait a minute.", "1"),
        ("This tool can run 30 times a minute. Wait a minute.", "30"),
        ("The tool changed before this ran. Words of a service.", "Words of a service."),
    ],
)
def test_a_stored_sentence_is_translated_without_the_values_in_it(stored: str, kept: str) -> None:
    assert translate_stored(stored) == stored
    with speaking(LONG):
        shown = translate_stored(stored)
    assert kept in shown
    left = shown.replace(kept, "")
    assert is_translated(left)
    assert "The service" not in left and "The tool" not in left


def test_many_sentences_of_a_service_stay_as_they_are() -> None:
    text = "From a service. " * 5000
    with speaking(LONG):
        assert translate_stored(text) == text


def test_every_stored_sentence_with_values_is_written_somewhere_else() -> None:
    """Otherwise the place that stores it has got other words, and the list has to follow."""
    written = {
        form
        for path in list_python_files()
        if path.name != "stored_sentences.py"
        for _line, message, _context in read_python_messages(path.read_text())
        for form in ((message,) if isinstance(message, str) else message)
    }
    assert {*TEMPLATES, *chain(*COUNTED)} - written == set()
