"""The everyday way through the chat in another browser: sign in, ask, read, allow, find."""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.wire.script import Answer, Tool

from .browser import House
from .firefox import ENTER, TAB, Firefox, open_firefox

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
CARD = "Approve: Delete thing · things"


class Screen(NamedTuple):
    name: str
    dark: bool
    width: int
    height: int


SCREENS = [Screen("desk", False, 1280, 800), Screen("phone", True, 390, 844)]


def sign_in(firefox: Firefox, password: str) -> None:
    firefox.visit("/sign-in/")
    firefox.fill("Username", f"owner{TAB}{password}{ENTER}")
    firefox.expect_text("Hello, owner.")


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.name)
def test_a_call_is_asked_allowed_and_answered(house: House, tmp_path: Path, screen: Screen) -> None:
    thing = f"firefox-{screen.name}"
    question = house.model.answers(
        f"Delete {thing}",
        Answer(
            text="I **look** first.\n\n| a | b |\n|---|--:|\n| x | 1 |",
            tools=(Tool(name="things_delete_thing", arguments={"name": thing}, id="call_fox"),),
        ),
        Answer(text=f"All of {thing} is gone. $x^2$", chunk=4, delay_ms=5),
    )
    house.clear_drafts()
    host = urlsplit(house.server.address).netloc
    with open_firefox(
        tmp_path / "profile", host, dark=screen.dark, width=screen.width, height=screen.height
    ) as firefox:
        sign_in(firefox, house.installation.password)
        firefox.fill("Message", question + ENTER)
        firefox.find("group", CARD)
        firefox.click("button", "Allow once")
        firefox.expect_text(f"All of {thing} is gone.")
        firefox.press_with_control("k")
        firefox.type(thing)
        firefox.expect_text(question)
        firefox.assert_clean()
    assert sum(line.endswith(f" {thing}") for line in house.effects.lines) == 1


def test_a_diagram_is_drawn_in_its_frame(house: House, tmp_path: Path) -> None:
    text = "```mermaid\nflowchart LR\n  A[Ask] --> B[Approve]\n```\n"
    question = house.model.answers("Draw it in Firefox", Answer(text=text))
    house.clear_drafts()
    host = urlsplit(house.server.address).netloc
    with open_firefox(tmp_path / "profile", host, dark=False, width=1280, height=800) as firefox:
        sign_in(firefox, house.installation.password)
        firefox.fill("Message", question + ENTER)
        firefox.click("link", "Show diagram")
        firefox.wait(lambda: len(firefox.find_frames()) == 1, "the frame")
        (frame,) = firefox.find_frames()
        drawn = "document.querySelector('#drawing svg')?.textContent ?? ''"
        firefox.wait(lambda: "Approve" in firefox.read(drawn, frame), "the diagram")
        assert firefox.read("origin", frame) == "null"
        assert firefox.strangers == []


def test_the_way_to_the_latest_words_is_offered_above_them(house: House, tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {number}." for number in range(80))
    question = house.model.answers("Much to read in Firefox", Answer(text=text, chunk=400))
    house.clear_drafts()
    host = urlsplit(house.server.address).netloc
    seen = "getComputedStyle(document.querySelector('.to-latest')).visibility"
    with open_firefox(tmp_path / "profile", host, dark=False, width=1280, height=800) as firefox:
        sign_in(firefox, house.installation.password)
        firefox.fill("Message", question + ENTER)
        is_over = "Boolean(document.querySelector('[data-state=done]'))"
        firefox.wait(lambda: bool(firefox.read(is_over)), "the whole answer")
        firefox.wait(lambda: firefox.read(seen) == "hidden", "no button at the end")
        firefox.read("document.querySelector('.scroller').scrollTo(0, 0)")
        firefox.wait(lambda: firefox.read(seen) == "visible", "the button")
        firefox.click("link", "Jump to latest")
        firefox.wait(lambda: firefox.read(seen) == "hidden", "the end")
        firefox.assert_clean()
