"""The pages that an answer cites: listed below it, each once, and only with safe links."""

import pytest

from chatapp.context.history import build_history
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, Part, Turn
from chatapp.providers.events import Finished, ProviderError, SourceCited, TextDelta
from chatapp.server.database import in_database
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.turns.acts import wait_for_rest
from tests.turns.tabs import assert_shown_live

pytestmark = pytest.mark.django_db(transaction=True)
END = Finished(reason="stop")


def cited(url: str, title: str = "") -> SourceCited:
    return SourceCited(url=url, title=title)


def sources(person: Member, turn: Turn) -> list[Element]:
    html = signed_in(person).get(f"/c/{turn.conversation_id}/").content.decode()
    found = [e for e in parse(html).all("section") if e.attributes.get("class") == "sources"]
    return [link for section in found for link in section.all("a")]


async def test_sources_are_listed_live_and_after_a_reload(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    scripted.scenes.append(
        [
            TextDelta(text="It rains."),
            cited("https://weather.example/today"),
            cited("https://weather.example/today", "Weather\ntoday"),
            cited("http://other.example/", "<b>Other</b>\u202e"),
            TextDelta(text=" Much."),
            END,
        ]
    )
    await assert_shown_live(runtime, turn)
    first, second = await in_database(sources, owner, turn)
    assert (first["href"], first.text) == ("https://weather.example/today", "Weather today")
    assert first["rel"] == "noopener noreferrer nofollow"
    assert "U+202E" in second.text
    assert "<b>Other</b>" in second.text
    html = (await in_database(signed_page, owner, turn)).replace("\n", "")
    assert "<small>weather.example</small>" in html
    assert html.index("It rains. Much.") < html.index("weather.example/today")


async def test_sources_of_a_call_that_is_repeated_are_dropped(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    busy = ProviderError(kind="overloaded", message="Busy.", retry_after=0.01)
    first, second = "https://first.example/", "https://second.example/"
    scripted.scenes.append([cited(first, "First"), busy])
    scripted.scenes.append([cited(second, "Second"), TextDelta(text="It rains."), END])
    await wait_for_rest(runtime, turn)
    assert [each["href"] for each in await in_database(sources, owner, turn)] == [second]


def signed_page(person: Member, turn: Turn) -> str:
    return str(signed_in(person).get(f"/c/{turn.conversation_id}/").content.decode())


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//host/x",
        "/c/new",
        "",
        "https://",
        "https://bank.example@evil.example/",
        "https://x.example/\u202egpj",
        "https://x.example/a b",
        "https:\\\\x.example",
        "http://[x",
        "https://x.example/" + "x" * 2_000,
    ],
)
async def test_what_is_no_safe_link_is_not_listed(
    runtime: EngineRuntime, turn: Turn, owner: Member, url: str
) -> None:
    scripted.scenes.append([TextDelta(text="Hm."), cited(url, "Title"), END])
    await wait_for_rest(runtime, turn)
    assert not await in_database(sources, owner, turn)
    assert not await in_database(Part.objects.filter(kind="sources").exists)


async def test_many_sources_are_bounded_and_the_model_does_not_read_them_again(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    many = [cited(f"https://x.example/{number}", "t" * 500) for number in range(100)]
    scripted.scenes.append([TextDelta(text="Hm."), *many, END])
    await wait_for_rest(runtime, turn)
    found = await in_database(sources, owner, turn)
    assert len(found) == 20
    assert found[0].text == "t" * 200
    assert "x.example" not in str(await in_database(build_history, turn))
