"""What came of a trial, shown as in the chat: results, failures, outcomes that nobody knows."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatapp.models import ToolCall, Trial
from mcpconfig.models import Service
from tests.chatapp.admin.conftest import service_at
from tests.dom_tree import Element
from tests.peers.bench import Bench
from tests.peers.effects import Effects
from tests.peers.effects import application as effects_application
from tests.peers.errands import Errands
from tests.peers.errands import application as errands_application
from tests.peers.questioner import QuestionLog, application
from tests.peers.serving import Served

from .try_tool_page import Desk, Page

pytestmark = [pytest.mark.gate, pytest.mark.timeout(40)]
State = ToolCall.State


@pytest.fixture(autouse=True)
def _database(transactional_db: None, settings: Any) -> None:
    settings.MCP_TOTAL_SECONDS, settings.MCP_IDLE_SECONDS = 20, 10


def run(client: Client, service: Service, tool: str, **values: str) -> tuple[Page, Trial]:
    done = Desk(client=client, service=service, tool=tool).run(**values)
    return done, Trial.objects.latest("sent_at")


def kinds(page: Page) -> list[str]:
    return [piece["data-kind"] for piece in page.dom.with_class("piece")]


def link(page: Page, name: str) -> Element:
    return next(each for each in page.dom.all("a") if each.text == name)


def test_words_pictures_and_links_are_shown_as_in_the_chat(
    admin_client: Client, shop: Service
) -> None:
    page, _ = run(admin_client, shop, "get_receipt")

    assert kinds(page) == ["text", "image", "link"]
    assert "<b>Paid</b> on Monday." in page.said
    picture = admin_client.get(page.dom.one("img", alt="Image from the service")["src"])
    assert (picture.status_code, picture["Content-Type"]) == (200, "image/png")
    assert "sandbox" in picture["Content-Security-Policy"]


@pytest.mark.parametrize("is_current", [True, False])
def test_a_link_is_read_from_the_service_that_named_it(
    admin_client: Client, shop: Service, is_current: bool
) -> None:
    _, trial = run(admin_client, shop, "get_receipt")
    shop.definitions.update(is_current=is_current)

    page = Page.of(admin_client.get(reverse_of(trial)))

    forms = [form for form in page.dom.all("form") if "Open Receipt" in form.buttons()]
    assert len(forms) == is_current
    for form in forms:
        opened = Page.of(admin_client.post(form["action"]))
        assert "bench://receipt" in opened.said and opened.status == 422


def test_a_structured_value_is_a_table(admin_client: Client, shop: Service) -> None:
    page, _ = run(admin_client, shop, "list_orders", limit="2")
    table = page.dom.with_class("piece")[0].one("table")
    cells = [[cell.text for cell in row.elements] for row in table.all("tr")]
    assert cells == [["order", "state"], ["A-0", "open"], ["A-1", "open"]]


def test_a_tool_that_fails_says_what_it_said(admin_client: Client, shop: Service) -> None:
    page, trial = run(admin_client, shop, "read_drawer")
    assert trial.state == State.FAILED
    assert "Failed" in page.said and "The drawer is stuck." in page.said


def test_a_service_that_is_not_there_is_a_plain_failure(
    admin_client: Client, shop: Service
) -> None:
    Service.objects.update(url="http://127.0.0.1:9/mcp")
    page, trial = run(admin_client, shop, "get_receipt")
    assert trial.state == State.FAILED and trial.error is not None
    assert str(trial.error["message"]) in page.said


def test_an_outcome_that_nobody_knows_is_said_and_never_sent_again(
    admin_client: Client, settings: Any, tmp_path: Path
) -> None:
    effects = Effects(tmp_path / "effects")
    with Served(effects_application(effects)) as served:
        service = service_at(served.url)
        settings.MCP_TOTAL_SECONDS = settings.MCP_IDLE_SECONDS = 1
        page, trial = run(admin_client, service, "slow_thing", name="lamp", seconds="30")
        again = Page.of(admin_client.get(reverse_of(trial)))

    assert trial.state == State.UNKNOWN
    for shown in (page, again):
        assert "Outcome unknown" in shown.said
        assert "may or may not have taken effect." in shown.said
        assert not shown.dom.one(id="content-main").all("form")
    assert effects.lines == ["slow_thing lamp"]


def reverse_of(trial: Trial) -> str:
    return reverse("admin:mcpconfig_service_trial", args=[trial.service_id, trial.pk])


@pytest.mark.parametrize(
    ("age", "state"), [(timedelta(seconds=5), State.SENDING), (timedelta(days=1), State.UNKNOWN)]
)
def test_a_trial_whose_process_died_has_an_unknown_outcome(
    admin_client: Client, shop: Service, age: timedelta, state: State
) -> None:
    trial = Trial.objects.create(
        service=shop, tool_id="x", tool_name="x", arguments="{}", risk="low", why="Because."
    )
    Trial.objects.update(sent_at=timezone.now() - age)

    page = Page.of(admin_client.get(reverse_of(trial)))

    trial.refresh_from_db()
    assert trial.state == state
    is_over = state == State.UNKNOWN
    assert ("The server stopped while this was running" in page.said) is is_over
    assert ("Running. Refresh" in page.said) is not is_over


@pytest.mark.parametrize(
    ("tool", "said"), [("visit", "asks a question before"), ("later", "not ready for this yet")]
)
def test_a_service_that_asks_first_has_not_run_it(
    admin_client: Client, tool: str, said: str
) -> None:
    diary = QuestionLog()
    with Served(application(diary)) as served:
        page, trial = run(admin_client, service_at(served.url), tool)
    assert trial.state == State.FAILED
    assert said in page.said and "did not run" in page.said
    assert diary.entries == []


class Prompt(Errands):
    """Its task has come to this end when it is first asked after."""

    def __init__(self, **end: Any) -> None:
        super().__init__()
        self.end = end
        self.asked = 0

    def start(self) -> dict[str, Any]:
        task = dict(super().start()) | {"pollIntervalMs": 10}
        self.goes_on(task["taskId"], **self.end)
        return task

    def _of_task(self, method: str, params: Any, headers: dict[str, str]) -> dict[str, Any]:
        """Once it stumbles, which says nothing of the task."""
        self.asked += 1
        if self.asked == 1:
            return {"error": {"code": -32603, "message": "Not now."}}
        return super()._of_task(method, params, headers)


WORDS = {"content": [{"type": "text", "text": "Fetched."}]}
END_OF_TASK = [
    ({"status": "completed", "result": WORDS}, State.SUCCEEDED, "Fetched."),
    ({"status": "failed", "error": {"message": "No shoes."}}, State.FAILED, "No shoes."),
    ({"status": "cancelled"}, State.FAILED, "cancelled"),
    ({"status": "input_required"}, State.UNKNOWN, "as a long task"),
    ({"status": "working"}, State.UNKNOWN, "continues this as a long task"),
]


@pytest.mark.parametrize(("end", "state", "said"), END_OF_TASK)
def test_a_long_task_is_followed_within_the_time_of_an_operation(
    admin_client: Client, settings: Any, end: dict[str, Any], state: State, said: str
) -> None:
    with Served(errands_application(Prompt(**end))) as served:
        service = service_at(served.url)
        settings.MCP_TOTAL_SECONDS = 4
        page, trial = run(admin_client, service, "errand")
    assert trial.state == state
    assert said in page.said


def test_a_tool_that_wants_a_sign_in_says_where(admin_client: Client, shop: Service) -> None:
    Service.objects.update(authentication="oauth_user")
    page, trial = run(admin_client, shop, "get_receipt")
    assert trial.state == State.FAILED
    assert link(page, "Sign in to the service")["href"] == "/services/"


def test_a_huge_answer_is_cut_and_says_so(
    admin_client: Client, shop: Service, bench: Bench
) -> None:
    page, trial = run(admin_client, shop, "list_orders", limit="1")
    assert trial.result is not None
    trial.result["content"] = [{"type": "text", "text": "x" * 30_000}]
    trial.result |= {"structured": None, "was_cut": True}
    trial.save()

    page = Page.of(admin_client.get(reverse_of(trial)))

    assert "10,000 more characters are not shown." in page.said
    assert "The rest was too large and was not saved." in page.said
    assert len(bench.ran) == 1
