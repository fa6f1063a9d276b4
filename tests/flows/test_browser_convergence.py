"""Two people, three devices and actions in a random order: in the end every page is what a reload
shows. The seed of a run is in its name, so that it can be played again."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import unified_diff
from random import Random

import pytest
from playwright.sync_api import Error, Locator, Page, expect

from tests.wire.script import Answer, Tool

from .browser import Visit, ask, ask_in_new_chat, button, card, expect_over, tick_as_read
from .server import eventually
from .test_browser_looks import LAPTOP, PHONE
from .test_browser_signing import two_sign
from .test_browser_tabs_many import bytes_of, tale

__all__ = ["two_sign"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
ACTIONS = 40
# An element may go while an action waits for it: another device was faster.
TRY_MS = 2_000
QUIET_LOOKS = 40
CHATS = "#sidebar-list"
LEAST_DONE = ACTIONS // 4
# What a page has got of everything that may still change it.
OPEN = "#thread [aria-busy], #queue li, #thread [data-card]"
PER_DEVICE = re.compile(
    r' open=""| autofocus=""| data-keep="\w*"|<span class="saved">.*?</span>', re.DOTALL
)
AGO = re.compile(r"\b(?:now|\w+ (?:second|minute)s? ago)\b")
LOSE_NEXT_CHANGES = """() => document.querySelector("[data-stream]").addEventListener(
  "changes", (event) => event.stopImmediatePropagation(), { capture: true, once: true })"""


@dataclass
class Devices:
    """The owner's laptop and phone in one chat, and the inbox of who signs second."""

    visit: Visit
    random: Random
    laptop: Page
    phone: Page
    approver: Page
    name: str
    asked: int = 0
    done: Counter[str] = field(default_factory=Counter)

    def pick(self) -> Page:
        return self.random.choice([self.laptop, self.phone])

    def make_question(self) -> str:
        """A message that nobody sent before, with answers for it and for its repetitions."""
        self.asked += 1
        name = f"{self.name}-{self.asked}"
        kind = self.random.choice(["words", "tale", "call", "two calls"])
        if kind == "words":
            answers = [Answer(text=f"Answer {n} to **{name}**.") for n in range(3)]
        elif kind == "tale":
            answers = [Answer(text=tale(), chunk=60, delay_ms=5)]
        else:
            calls = tuple(
                Tool(name="things_delete_thing", arguments={"name": f"{name}-{n}"}, id=f"call_{n}")
                for n in range(kind.count("two") + 1)
            )
            answers = [Answer(text="Let me see.", tools=calls), Answer(text=f"That was {name}.")]
        return self.visit.house.model.answers(f"Do {name}", *answers)

    # --- what a person may do ---
    def send(self) -> None:
        tab = self.pick()
        message = tab.get_by_role("textbox", name="Message", exact=True)
        message.fill(self.make_question(), timeout=TRY_MS)
        # The form to edit a message has a button of the same name.
        way = self.random.choice(["Send", "Queue"])
        button(tab.locator(".composer-actions"), way).click(timeout=TRY_MS)

    def stop(self) -> None:
        button(self.pick(), "Stop").click(timeout=TRY_MS)

    def answer(self) -> None:
        tab = self.pick()
        question = card(tab, "delete thing").first
        question.wait_for(timeout=TRY_MS)
        tick_as_read(tab)
        self.answer_card(question)

    def sign(self) -> None:
        tab = self.approver
        to_sign(tab).first.click(timeout=TRY_MS)
        question = card(tab, "delete thing").first
        question.wait_for(timeout=TRY_MS)
        tick_as_read(tab)
        self.answer_card(question)

    def answer_card(self, question: Locator) -> None:
        button(question, self.random.choice(["Allow once", "Deny"])).click(timeout=TRY_MS)

    def regenerate(self) -> None:
        self.press_last("Regenerate answer")

    def show_other_version(self) -> None:
        self.press_last(self.random.choice(["Previous version", "Next version"]))

    def rate(self) -> None:
        self.press_last(self.random.choice(["Good answer", "Bad answer"]))

    def press_last(self, name: str) -> None:
        self.pick().get_by_role("button", name=name).last.click(timeout=TRY_MS)

    def edit(self) -> None:
        tab = self.pick()
        tab.get_by_role("link", name="Edit message").last.click(timeout=TRY_MS)
        place = tab.get_by_role("textbox", name="Edit message").last
        place.fill(self.make_question(), timeout=TRY_MS)
        place.locator("xpath=ancestor::form").get_by_role("button", name="Send").click(
            timeout=TRY_MS
        )

    def remove_queued(self) -> None:
        """A message in the queue waits for a person once an answer was stopped."""
        remove = self.laptop.get_by_role("button", name="Remove queued message")
        remove.first.click(timeout=TRY_MS)

    def close_form(self) -> None:
        """A form whose message was refused stays open on its device."""
        for tab in (self.laptop, self.phone):
            cancel = tab.locator("form.edit").get_by_role("link", name="Cancel")
            for left in reversed(range(cancel.count())):
                cancel.first.click(timeout=TRY_MS)
                expect(cancel).to_have_count(left)

    def reload(self) -> None:
        self.pick().reload()

    def lose_connection(self) -> None:
        tab = self.pick()
        tab.context.set_offline(True)
        tab.wait_for_timeout(self.random.choice([100, 1_500]))
        tab.context.set_offline(False)

    def act(self, ways: list[Callable[[], None]]) -> None:
        """One action; it is not counted where the page changed under it."""
        way = self.random.choice(ways)
        try:
            way()
        except Error as error:
            assert "Timeout" in error.message or "detached" in error.message, error
        else:
            self.done[way.__name__] += 1

    def finish(self) -> None:
        """Answer, sign and remove what is open, until nothing goes on any more."""

        def is_quiet() -> bool:
            if card(self.laptop, "delete thing").count():
                self.act([self.answer])
            if to_sign(self.approver).count():
                self.act([self.sign])
            if self.laptop.locator("#queue .held").count():
                self.act([self.remove_queued])
            return not any(tab.locator(OPEN).count() for tab in (self.laptop, self.phone))

        def stays_quiet() -> bool:
            # Between two answers of a queue nothing goes on for a moment.
            return all(is_quiet() for _ in range(QUIET_LOOKS))

        def explain() -> str:
            return "\n".join(map(list_open, (self.laptop, self.phone)))

        eventually(stays_quiet, "quiet pages", seconds=120, explain=explain)
        self.close_form()


def open_devices(visit: Visit, seed: int) -> Devices:
    visit.witness.excuse(
        "ERR_INTERNET_DISCONNECTED", "^htmx: htmx:error", r"status of (409|422)", "WebSocket"
    )
    laptop, phone = visit.tab(viewport=LAPTOP), visit.tab(viewport=PHONE)
    random = Random(seed)  # noqa: S311 - a run can be played again
    devices = Devices(visit, random, laptop, phone, visit.tab("approver"), f"seed-{seed}")
    ask_in_new_chat(laptop, devices.make_question())
    phone.goto(laptop.url)
    devices.approver.goto("/approvals/")
    return devices


def list_open(tab: Page) -> str:
    """What still goes on, as this page shows it."""
    found = tab.locator(OPEN).evaluate_all("all => all.map((each) => each.outerHTML.slice(0, 700))")
    return "\n".join(["Still open:", *found])


def to_sign(tab: Page) -> Locator:
    """The lines of the inbox that wait for a second signature. The line whose card is open stays
    when its request is over."""
    waiting = re.compile("Delete thing.* waiting for a second approval")
    return tab.locator(".inbox").get_by_role("link", name=waiting)


def read_thread(tab: Page) -> str:
    """The conversation without what each device has of its own: which details are open, where a
    form was closed, what it saved, and the version of an element, which counts the changes that it
    got at once."""
    return PER_DEVICE.sub("", bytes_of(tab))


def expect_same_threads(one: Page, other: Page) -> None:
    """Wait until both pages show the same; a failure says where they differ."""

    def explain() -> str:
        left, right = (read_thread(tab).replace("><", ">\n<").splitlines() for tab in (one, other))
        return "\n".join(unified_diff(left, right, lineterm=""))

    eventually(lambda: read_thread(one) == read_thread(other), "the same page", explain=explain)


def read(tab: Page, selector: str) -> str:
    """The text of this part of the page, also where a phone does not show it."""
    return " ".join((tab.locator(selector).text_content() or "").split())


def read_inbox(tab: Page) -> str:
    """The inbox without how long ago something was: a minute may end between two looks."""
    return AGO.sub("ago", read(tab, ".inbox"))


@pytest.mark.parametrize("seed", range(4))
def test_pages_converge_whatever_was_done_on_which_device(
    visit: Visit, two_sign: None, seed: int
) -> None:
    devices = open_devices(visit, seed)
    ways = [
        *(devices.send, devices.send, devices.answer, devices.answer, devices.sign),
        *(devices.stop, devices.regenerate, devices.show_other_version, devices.edit),
        *(devices.rate, devices.reload, devices.lose_connection),
    ]
    for _ in range(ACTIONS):
        devices.act(ways)
    devices.finish()
    laptop, phone, approver = devices.laptop, devices.phone, devices.approver
    expect_same_threads(laptop, phone)
    eventually(lambda: read(laptop, CHATS) == read(phone, CHATS), "the same list of chats")
    shown, chats, inbox = read_thread(laptop), read(laptop, CHATS), read_inbox(approver)
    for tab in (laptop, approver):
        tab.reload()
    assert read_thread(laptop) == shown
    assert read(laptop, CHATS) == chats
    assert read_inbox(approver) == inbox
    assert devices.done.total() >= LEAST_DONE, devices.done


def test_a_page_that_lost_one_change_is_told_apart(visit: Visit, two_sign: None) -> None:
    devices = open_devices(visit, seed=100)
    devices.finish()
    devices.phone.evaluate(LOSE_NEXT_CHANGES)
    ask(devices.laptop, visit.house.model.answers("Do one more", Answer(text="It is done.")))
    expect_over(devices.laptop)
    eventually(lambda: "It is done" in devices.phone.inner_text("#thread"), "the rest of it")
    assert read_thread(devices.phone) != read_thread(devices.laptop)
