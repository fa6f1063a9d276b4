"""Titles of chats: the first words, until the model or the person has given a better one."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from chatapp.api import access_tokens
from chatapp.conversations import chat_list, intake
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.engine.titles import ANSWER_TOKENS, INSTRUCTIONS, clean_title
from chatapp.models import Allowance, Conversation, Member, Step, Turn, UsageOfDay
from chatapp.providers.events import ProviderError, TextDelta
from chatapp.providers.request import UserMessage
from chatapp.rendering import page_values
from chatapp.rendering.pages import fragments
from chatapp.server.database import in_database
from tests import scripted
from tests.dom import Tab
from tests.scripted import Pause, text
from tests.turns.acts import wait_for_rest, wait_until
from tests.turns.tabs import assert_as_reloaded, caught_up, told, watched, whole_page

pytestmark = pytest.mark.django_db(transaction=True)
FIRST_WORDS = "Tidy up, please"
NO_KEY = ProviderError(kind="auth", message="The key is wrong.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Titling:
    """An engine that titles chats, and the tasks that it has all the time."""

    runtime: EngineRuntime
    background: frozenset[asyncio.Task[None]]

    async def answer(self, turn: Turn) -> Conversation:
        """Move the turn and what follows its answer to the end. Return the chat."""
        await wait_for_rest(self.runtime, turn)
        await wait_until(lambda: self.background.issuperset(self.runtime.engine._tasks))
        return await in_database(Conversation.objects.get, pk=turn.conversation_id)


@pytest.fixture
def titling(runtime: EngineRuntime, settings: Any) -> Titling:
    settings.TITLE_MODEL = ""
    runtime.engine._titles_chats = True
    return Titling(runtime=runtime, background=frozenset(runtime.engine._tasks))


def ask_again(turn: Turn, words: str = "And now?") -> Turn:
    chat = Conversation.objects.get(pk=turn.conversation_id)
    return intake.receive(chat.owner, chat, text=words, model=scripted.MODEL)


async def test_the_first_answer_is_followed_by_a_title(
    titling: Titling, turn: Turn, owner: Member
) -> None:
    scripted.scenes += [text("Done, all is tidy."), text("**Tidying", " up**\n")]
    chat = await titling.answer(turn)
    assert (chat.title, chat.title_is_draft) == ("Tidying up", False)
    _chat, asked = scripted.requests
    assert (asked.system, asked.tools, asked.model) == (INSTRUCTIONS, (), "model")
    assert asked.parameters.output_tokens == ANSWER_TOKENS
    [words] = asked.history
    assert isinstance(words, UserMessage)
    assert FIRST_WORDS in words.text and "Done, all is tidy." in words.text

    await titling.answer(await in_database(ask_again, turn))
    assert len(scripted.requests) == 3


async def test_a_title_that_a_person_has_given_meanwhile_stays(
    titling: Titling, turn: Turn
) -> None:
    pause = Pause()
    scripted.scenes += [text("Done."), [pause, *text("Another title")]]
    await wait_for_rest(titling.runtime, turn)
    await pause.reached.wait()
    await in_database(chat_list.rename, turn.conversation, "My own")
    pause.ended.set()
    assert (await titling.answer(turn)).title == "My own"


async def test_a_failure_that_may_pass_is_followed_by_another_try(
    titling: Titling, turn: Turn
) -> None:
    busy = ProviderError(kind="overloaded", message="Busy.")
    scripted.scenes += [text("Done."), [busy], text("Again."), text("A title")]
    chat = await titling.answer(turn)
    assert (chat.title, chat.title_is_draft) == (FIRST_WORDS, True)
    chat = await titling.answer(await in_database(ask_again, turn))
    assert (chat.title, chat.title_is_draft) == ("A title", False)


@pytest.mark.parametrize(
    "scene",
    [
        [ProviderError(kind="bad_request", message="No.")],
        text(" \n"),
        text("I will not", reason="refused"),
        text("A very long", reason="length"),
    ],
    ids=["refused by the provider", "empty", "refused by the model", "cut off"],
)
async def test_without_a_title_the_first_words_stay(
    titling: Titling, turn: Turn, scene: Any
) -> None:
    scripted.scenes += [text("Done."), scene, text("Again.")]
    chat = await titling.answer(turn)
    assert (chat.title, chat.title_is_draft) == (FIRST_WORDS, False)
    await titling.answer(await in_database(ask_again, turn))
    assert len(scripted.requests) == 3


async def test_a_wrong_key_or_model_costs_the_title_only_until_it_is_mended(
    titling: Titling, turn: Turn, settings: Any
) -> None:
    settings.TITLE_MODEL = "unknown:model"
    scripted.scenes += [text("Done."), text("Again."), [NO_KEY], text("Still."), text("A title")]
    assert (await titling.answer(turn)).title_is_draft
    settings.TITLE_MODEL = ""
    assert (await titling.answer(await in_database(ask_again, turn))).title_is_draft
    assert (await titling.answer(await in_database(ask_again, turn))).title == "A title"


async def test_a_chat_that_is_renamed_during_the_answer_costs_no_request(
    titling: Titling, turn: Turn
) -> None:
    pause = Pause()
    scripted.scenes.append([pause, *text("Done.")])
    running = asyncio.create_task(titling.answer(turn))
    await pause.reached.wait()
    await in_database(chat_list.rename, turn.conversation, "My own")
    pause.ended.set()
    assert (await running).title == "My own"
    assert len(scripted.requests) == 1


async def test_two_answers_are_followed_by_one_request(titling: Titling, turn: Turn) -> None:
    pause = Pause()
    scripted.scenes += [text("Done."), [pause, *text("A title")], text("Again.")]
    await wait_for_rest(titling.runtime, turn)
    await pause.reached.wait()
    await wait_for_rest(titling.runtime, await in_database(ask_again, turn))
    pause.ended.set()
    assert (await titling.answer(turn)).title == "A title"
    assert len(scripted.requests) == 3


async def test_a_server_titles_chats_and_a_command_does_not(turn: Turn, settings: Any) -> None:
    settings.TITLE_MODEL = ""
    scripted.scenes += [text("Done."), text("Again."), text("A title")]
    command = await open_engine_runtime(sweeps=False)
    await wait_for_rest(command, turn)
    await close_engine_runtime(command)
    server = await open_engine_runtime()
    try:
        await wait_for_rest(server, await in_database(ask_again, turn))
        await wait_until(lambda: len(scripted.requests) == 3 and not server.engine._titling)
    finally:
        await close_engine_runtime(server)
    chat = await in_database(Conversation.objects.get, pk=turn.conversation_id)
    assert chat.title == "A title"


async def test_a_chat_of_a_program_keeps_its_first_words(
    titling: Titling, turn: Turn, owner: Member
) -> None:
    create = partial(access_tokens.create, owner, name="Night job", scopes=["tools"], days=7)
    token, _secret = await in_database(create)
    await in_database(partial(Turn.objects.filter(pk=turn.pk).update, token=token))
    assert (await titling.answer(turn)).title == FIRST_WORDS
    assert len(scripted.requests) == 1


async def test_no_model_is_asked_where_titles_are_switched_off(
    titling: Titling, turn: Turn, settings: Any
) -> None:
    settings.TITLE_MODEL = "none"
    assert (await titling.answer(turn)).title == FIRST_WORDS
    assert len(scripted.requests) == 1


async def test_an_answer_that_is_not_complete_is_followed_by_no_title(
    titling: Titling, turn: Turn
) -> None:
    scripted.scenes.append(text("Done, but", reason="length"))
    assert (await titling.answer(turn)).title_is_draft
    assert len(scripted.requests) == 1


async def test_an_allowance_that_is_used_up_allows_no_title(
    titling: Titling, turn: Turn, owner: Member
) -> None:
    await in_database(Allowance.objects.create, person=owner, tokens=3)
    scripted.scenes.append(text("Done."))
    assert (await titling.answer(turn)).title_is_draft
    assert len(scripted.requests) == 1


async def test_the_tokens_count_for_the_person_and_in_the_chat(
    titling: Titling, turn: Turn, owner: Member, settings: Any
) -> None:
    settings.TITLE_MODEL = "scripted:small"
    scripted.scenes += [text("Done."), text("A title")]
    await titling.answer(turn)
    assert [request.model for request in scripted.requests] == ["model", "small"]
    used = await in_database(
        lambda: list(UsageOfDay.objects.order_by("model").values_list("model", "output_tokens"))
    )
    assert used == [("scripted:model", 5), ("scripted:small", 5)]
    step = await in_database(Step.objects.get, turn=turn)
    assert (step.output_tokens, step.summary_output_tokens) == (5, 5)


async def test_a_title_that_was_begun_is_made_after_the_next_answer_if_the_server_stops(
    titling: Titling, turn: Turn
) -> None:
    pause = Pause()
    scripted.scenes += [text("Done."), [TextDelta(text="A "), pause, *text("title")]]
    await wait_for_rest(titling.runtime, turn)
    await pause.reached.wait()
    await close_engine_runtime(titling.runtime)
    chat = await in_database(Conversation.objects.get, pk=turn.conversation_id)
    assert (chat.title, chat.title_is_draft) == (FIRST_WORDS, True)
    # What was used until then is counted.
    assert (await in_database(UsageOfDay.objects.get)).calls == 2


def page_with_title(conversation: Conversation) -> Tab:
    parts = [
        fragments.render_title(conversation),
        fragments.render_rename_form(conversation),
        fragments.render_conversation_link(conversation, ""),
    ]
    page = whole_page(conversation)
    return Tab(str(page.soup) + "".join(parts), page.last)


async def test_open_pages_show_the_title_at_once_and_after_a_reconnection(
    titling: Titling, turn: Turn
) -> None:
    chat = await in_database(Conversation.objects.get, pk=turn.conversation_id)
    tab, late = [await in_database(page_with_title, chat) for _each in range(2)]
    scripted.scenes += [text("Done."), text("Tidying <up>")]
    feed, _tab = await watched(turn, tab)
    try:
        chat = await titling.answer(turn)
        await told(feed, turn)
        await caught_up(tab, chat)
    finally:
        feed.close()
    feed, _late = await watched(turn, late)
    feed.close()
    for each in (tab, late):
        assert each.text(page_values.TITLE_ID) == "Tidying <up>"
        assert [field["value"] for field in each.soup.select("#title-chat")] == ["Tidying <up>"]
        assert "Tidying <up>" in each.text(page_values.link_id(chat.pk))
        await assert_as_reloaded(each, chat)


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Planning a trip to Rome", "Planning a trip to Rome"),
        ("“Planning a trip”.", "Planning a trip"),
        ("\n\n## Title: *Planning* a trip\nBecause you asked.", "Planning* a trip"),
        ("Titel: Reise nach Rom", "Reise nach Rom"),
        ("- Trip\t to   Rome", "Trip to Rome"),
        ("Trip\u202e to\x00 Rome\u200b", "Trip to Rome"),
        ("C# and F#", "C# and F#"),
        ("word " * 40, f"{('word ' * 12).strip()}…"),
        ("**", ""),
        ("", ""),
    ],
)
def test_a_title_is_one_clean_line(said: str, title: str) -> None:
    """Threat: `markup-in-titles`."""
    assert clean_title(said) == title


async def test_a_deleted_chat_gets_no_title(titling: Titling, turn: Turn) -> None:
    pause = Pause()
    scripted.scenes += [text("Done."), [pause, *text("Another title")]]
    await wait_for_rest(titling.runtime, turn)
    await pause.reached.wait()
    await in_database(chat_list.delete, turn.conversation)
    pause.ended.set()
    chat = await titling.answer(turn)
    assert (chat.title, chat.title_is_draft) == (FIRST_WORDS, True)
