"""The language of frames, of what pages show beside a chat, and of cached HTML."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils.translation import override

from chatapp.engine.runtime import EngineRuntime
from chatapp.live.hub import Viewer
from chatapp.models import Member, Turn
from chatapp.rendering.markdown.stream import render_markdown
from chatapp.server.languages import speaking
from mcpconfig.models import Service
from tests import scripted
from tests.chatapp.consumers.browser_socket import Socket, person_socket, session_of
from tests.pseudo_locales import LONG, is_translated
from tests.scripted import calls, text
from tests.turns.acts import DELETE, wait_for_rest

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
