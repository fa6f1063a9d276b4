"""The language and time zone of frames, of what pages show beside a chat, and of cached HTML."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import override

from chatapp.engine.runtime import EngineRuntime
from chatapp.live.hub import Viewer
from chatapp.models import Approval, Member, Turn
from chatapp.rendering.markdown.stream import render_markdown
from chatapp.server.database import in_database
from chatapp.server.languages import speaking
from chatapp.server.time_zones import reading_in
from mcpconfig.models import Service
from tests import scripted
from tests.chatapp.consumers.browser_socket import Socket, person_socket, session_of
from tests.pseudo_locales import LONG, is_translated
from tests.scripted import calls, text
from tests.turns.acts import DELETE, wait_for_rest
from tests.turns.tabs import begin, latest, said

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("pseudo_locales"),
]


async def take_all(viewer: Viewer) -> str:
    frames = [await viewer.frames.get()]
    while not viewer.frames.empty():
        frames.append(viewer.frames.get_nowait())
    return "".join(frames).encode().decode("unicode_escape")


@pytest.mark.parametrize("language", ["en", LONG])
async def test_frames_are_in_the_language_of_the_tab(
    runtime: EngineRuntime, notebook: Service, turn: Turn, language: str
) -> None:
    with speaking(language):
        viewer = await runtime.hub.join(turn.conversation_id, 0)
    await take_all(viewer)  # the state when the tab joined
    scripted.scenes += [calls(DELETE), text("Done.")]
    await wait_for_rest(runtime, turn)
    shown = ""
    while "approval" not in shown:
        shown += await take_all(viewer)
    assert is_translated(shown) == (language == LONG)
    runtime.hub.leave(turn.conversation_id, viewer)


async def test_frames_change_to_the_language_of_a_later_tab(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    with speaking(LONG):
        first = await runtime.hub.join(turn.conversation_id, 0)
    with speaking("en"):
        second = await runtime.hub.join(turn.conversation_id, 0)
    assert is_translated(await take_all(first))
    scripted.scenes += [calls(DELETE), text("Done.")]
    await wait_for_rest(runtime, turn)
    shown = ""
    while "approval" not in shown:
        shown += await take_all(second)
    assert not is_translated(shown)
    for viewer in (first, second):
        runtime.hub.leave(turn.conversation_id, viewer)


async def test_text_is_in_the_language_of_the_latest_tab(
    runtime: EngineRuntime, turn: Turn
) -> None:
    """A block of code has a button with a label."""
    await in_database(begin, turn)
    viewers = []
    for language in (LONG, "en", LONG):
        with speaking(language):
            viewer = await runtime.hub.join(turn.conversation_id, await latest(turn.conversation))
        viewers.append(viewer)
        await in_database(said, turn, "```python\nx = 1\n```\n\n")
        async with asyncio.timeout(30):
            shown = await take_all(viewer)
        assert "<figure" in shown
        assert is_translated(shown) == (language == LONG)
    for viewer in viewers:
        runtime.hub.leave(turn.conversation_id, viewer)


async def open_tab(session: str, language: str) -> Socket:
    tab = person_socket(session, shows="waiting")
    tab.scope["headers"].append((b"accept-language", language.encode()))
    assert await tab.opens()
    return tab


async def test_two_browsers_of_a_person_each_have_their_language(
    runtime: EngineRuntime, owner: Member
) -> None:
    session = await sync_to_async(session_of)(owner)
    for language in ("en", LONG, "en"):
        tab = await open_tab(session, language)
        frame: dict[str, Any] = await tab.receive()
        said = frame["text"].encode().decode("unicode_escape")
        assert is_translated(said) == (language == LONG)
        await tab.leave()


def test_cached_markdown_is_of_one_language() -> None:
    for source in ("![](https://example.com/a.png)", "- ![x](https://example.com/b.png) y"):
        for language in ("en", LONG, "en"):
            with override(language):
                assert is_translated(render_markdown(source)) == (language == LONG)


# --- time zones --------------------------------------------------------------------------------
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "UTC"])
async def test_frames_have_the_times_of_the_tab(
    runtime: EngineRuntime, notebook: Service, turn: Turn, zone: str
) -> None:
    """A card says when it expires, with the day and time of its reader."""
    with reading_in(zone):
        viewer = await runtime.hub.join(turn.conversation_id, 0)
    await take_all(viewer)
    scripted.scenes += [calls(DELETE), text("Done.")]
    await wait_for_rest(runtime, turn)
    shown = ""
    while "approval" not in shown:
        shown += await take_all(viewer)
    approval = await Approval.objects.aget()
    assert approval.expires_at is not None
    with reading_in(zone):
        moment = date_format(localtime(approval.expires_at), "c")
    assert moment in shown
    runtime.hub.leave(turn.conversation_id, viewer)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", ""])
async def test_fragments_have_the_times_of_the_person(
    runtime: EngineRuntime, notebook: Service, turn: Turn, zone: str
) -> None:
    owner = turn.conversation.owner
    await Member.objects.filter(pk=owner.pk).aupdate(time_zone=zone)
    scripted.scenes += [calls(DELETE), text("Done.")]
    await wait_for_rest(runtime, turn)
    approval = await Approval.objects.aget()
    tab: Socket = person_socket(await sync_to_async(session_of)(owner), shows="inbox")
    assert await tab.opens()
    shown = ""
    while "expires" not in shown:
        shown += str(await tab.receive())
    assert approval.expires_at is not None
    with reading_in(zone):
        moment = date_format(localtime(approval.expires_at), "c")
    assert moment in shown
    await tab.leave()
