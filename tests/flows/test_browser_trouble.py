"""Whatever goes wrong, the page says what to do, and what was not accepted stays in the box."""

from collections.abc import Iterator

import pytest
from django.conf import LazySettings
from playwright.sync_api import Locator, Page, expect

from chatapp.engine.steps import NO_SUCH_TOOL
from chatapp.models import Part, ToolCall, Turn
from chatapp.providers.account import ProviderNames
from chatapp.providers.events import ErrorKind
from chatapp.providers.failures import provider_error
from mcpconfig.values.errors import timeout_error
from tests.peers.hostile import Hostile
from tests.wire.script import Answer, Tool

from .browser import (
    House,
    Visit,
    ask_in_new_chat,
    box,
    button,
    card,
    expect_over,
    fill_house,
    region,
    tick_as_read,
    write,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
SENTENCE = "Please look into the lighthouse keys. "


# --- what is not accepted ----------------------------------------------------------------------
def tamper_with_the_model(tab: Page, name: str) -> None:
    tab.locator("select[name=model] option").first.evaluate(
        "(option, name) => { option.value = name; option.selected = true; }", name
    )


@pytest.mark.parametrize("has_javascript", [True, False], ids=["scripts", "no scripts"])
@pytest.mark.parametrize(
    ("text", "model", "cause"),
    [
        ("  \n ", "", "message"),
        (SENTENCE * 5_265, "", "{most:,}"),
        (SENTENCE, "nobody:gpt", "nobody:gpt"),
    ],
    ids=["empty", "200,000 characters", "unknown model"],
)
def test_a_message_that_is_refused_stays_in_the_box_and_the_page_says_why(
    visit: Visit,
    settings: LazySettings,
    text: str,
    model: str,
    cause: str,
    has_javascript: bool,
) -> None:
    visit.witness.excuse("status of 422")
    tab = visit.tab(java_script_enabled=has_javascript)
    tab.goto("/")
    if model:
        tamper_with_the_model(tab, model)
    box(tab).fill(text)
    button(tab, "Send").click()
    cause = cause.format(most=settings.MESSAGE_MAX_CHARACTERS)
    expect(tab.get_by_role("alert")).to_contain_text(cause)
    kept = box(tab).input_value()
    assert len(kept) == len(text)
    assert kept == text


def test_a_message_to_a_server_that_is_gone_stays_in_the_box(visit: Visit) -> None:
    visit.witness.excuse("ERR_FAILED", "ERR_CONNECTION", "Failed to fetch")
    tab = visit.tab()
    tab.goto("/")
    tab.route("**/messages", lambda route: route.abort("connectionrefused"))
    write(tab, SENTENCE)
    unreachable = tab.locator("[data-unreachable]").get_attribute("data-unreachable")
    assert unreachable
    expect(tab.get_by_role("alert")).to_contain_text(unreachable)
    expect(box(tab)).to_have_value(SENTENCE)
    tab.unroute("**/messages")
    visit.house.model.answers(SENTENCE, Answer(text="They hang behind the door."))
    box(tab).press("Enter")
    tab.wait_for_url("**/c/*/")
    expect(region(tab)).to_contain_text("They hang behind the door.")


def test_a_form_of_somebody_who_signed_out_meanwhile_leads_to_the_door(visit: Visit) -> None:
    context = visit.context()
    tab = context.new_page()
    tab.goto("/")
    context.clear_cookies(name="sessionid")
    write(tab, SENTENCE)
    expect(tab.get_by_role("heading", name="Sign in")).to_be_visible()


# --- a model that fails ------------------------------------------------------------------------
WRITTEN = "Some words come first, and more words follow them. " * 3
ERROR = {"message": "The server had an error", "type": "server_error", "code": "server_error"}
NAMES = ProviderNames(
    label="the model server (127.0.0.1)",
    key_variable="OPENAI_API_KEY",
    url_variable="OPENAI_BASE_URL",
)
# The answers of the model, the kind of the failure, and what is kept of the text.
FAILURES: dict[str, tuple[list[Answer], ErrorKind, str]] = {
    "wrong key": (
        [Answer(status=401, error={"message": "Incorrect API key provided: sk-secret-123"})],
        "auth",
        "",
    ),
    "unknown to it": (
        [Answer(status=404, error={"message": "No such model", "code": "model_not_found"})],
        "not_found",
        "",
    ),
    "error before": ([Answer(status=500, error=ERROR)] * 6, "server", ""),
    "error in the middle": (
        [Answer(text=WRITTEN, in_stream_error=ERROR)],
        "server",
        "more words follow",
    ),
    "line breaks": (
        [Answer(text=WRITTEN, cut="reset", cut_after=12)] * 6,
        "network",
        "Some words come first",
    ),
    "a web page": (
        [Answer(document="<h1>Welcome to the proxy</h1>", content_type="text/html")] * 6,
        "protocol",
        "",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_model_that_fails_ends_the_answer_with_what_to_do(visit: Visit, failure: str) -> None:
    answers, kind, kept = FAILURES[failure]
    expected = provider_error(kind, NAMES)
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers(f"Fail by {failure}", *answers))
    notice = tab.locator(f".notice[data-kind={Part.NoticeKind.ERROR}]")
    expect(notice).to_contain_text(expected.message)
    expect(notice).to_contain_text(expected.hint)
    if kept:
        expect(region(tab)).to_contain_text(kept)
        expect(notice).to_contain_text("The text so far is kept.")
    expect_over(tab)
    expect(tab.locator(".status").last).to_have_attribute("data-state", Turn.State.FAILED)
    shown = region(tab).inner_text()
    assert "sk-secret-123" not in shown
    assert "Welcome to the proxy" not in shown
    assert "Traceback" not in shown
    tab.reload()
    assert region(tab).inner_text() == shown
    expect(button(tab, "Send")).to_be_enabled()


# --- a tool that fails -------------------------------------------------------------------------
@pytest.fixture(scope="module")
def services(house: House) -> Iterator[None]:
    """Three services that listed their tools properly: one answers calls with a web page, one never
    answers them, and one is gone by now."""
    with Hostile() as bad:
        with Hostile() as gone:
            where = {"page": bad.url("html"), "stuck": bad.url("hang"), "gone": gone.url("html")}
            added = [["mcp", "add", name, url, "--allow-private"] for name, url in where.items()]
            fill_house(house.installation, *added, *(["mcp", "confirm", name] for name in where))
        yield
    fill_house(house.installation, *(["mcp", "remove", name] for name in where))


def call_of(visit: Visit, tab: Page, service: str) -> None:
    """Have the model call this service's tool, and allow it."""
    call = Tool(name=f"{service}_act", id=f"call_{service}")
    model = visit.house.model
    ask_in_new_chat(
        tab, model.answers(f"Act at {service}", Answer(tools=(call,)), Answer(text="I see."))
    )
    question = card(tab, "act", service)
    expect(question).to_be_visible()
    tick_as_read(tab)
    button(question, "Allow once").click()
    expect(question).to_have_count(0)


def failed_row(tab: Page) -> Locator:
    """The row of the only call, which failed; opened."""
    found = tab.locator("details.tool")
    expect(found).to_have_attribute("data-state", ToolCall.State.FAILED)
    found.locator("summary").click()
    return found


def test_a_service_that_is_down_fails_the_call_and_the_row_says_what_to_do(
    visit: Visit, services: None
) -> None:
    tab = visit.tab()
    call_of(visit, tab, "gone")
    expect_over(tab)
    expect(failed_row(tab)).to_contain_text("Check the port, and that the service is running.")


@pytest.mark.parametrize(
    ("service", "reason"),
    [("page", "not an MCP service"), ("stuck", timeout_error().message)],
    ids=["page", "stuck"],
)
def test_a_service_that_answers_badly_leaves_the_outcome_to_a_person(
    visit: Visit, services: None, service: str, reason: str
) -> None:
    tab = visit.tab()
    call_of(visit, tab, service)
    question = tab.get_by_role("group", name="Outcome unknown: Act")
    expect(question).to_be_visible()
    expect(question).to_contain_text("The call is never repeated automatically.")
    expect(question).to_contain_text(reason)
    tick_as_read(tab)
    button(question, "It did not").click()
    expect(region(tab)).to_contain_text("I see.")
    expect_over(tab)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("things_delete_thing", '{"name": oops', "JSON"),
        ("nothing_here", "{}", NO_SUCH_TOOL % {"name": "nothing_here"}),
    ],
    ids=["not JSON", "unknown tool"],
)
def test_a_call_that_cannot_be_read_is_not_made_and_the_row_says_why(
    visit: Visit, name: str, arguments: str, words: str
) -> None:
    before = len(visit.house.effects.lines)
    tab = visit.tab()
    call = Tool(name=name, arguments=arguments, id="call_unreadable")
    model = visit.house.model
    ask_in_new_chat(
        tab, model.answers(f"Say {arguments}", Answer(tools=(call,)), Answer(text="I see."))
    )
    expect(region(tab)).to_contain_text("I see.")
    expect_over(tab)
    expect(failed_row(tab)).to_contain_text(words)
    assert len(visit.house.effects.lines) == before
