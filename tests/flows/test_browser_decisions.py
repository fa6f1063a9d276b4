"""What may decide in a browser, and who: nothing quick, nothing by accident, nobody else."""

import time
from urllib.parse import parse_qsl, urlencode

import pytest
from django.core.signing import Signer
from playwright.sync_api import Route, expect

from tests.wire.script import Answer, Tool

from .browser import (
    Visit,
    ask,
    ask_in_new_chat,
    box,
    button,
    card,
    expect_over,
    region,
    tick_as_read,
)

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
CLICK_AFTER_100_MS = """() => new MutationObserver((_, observer) => {
  const run = document.querySelector("[data-card] button[value=run]");
  if (!run) return;
  observer.disconnect();
  setTimeout(() => { run.click(); document.body.dataset.clicked = ""; }, 100);
}).observe(document.body, { childList: true, subtree: true })"""


def deletion(visit: Visit, name: str) -> str:
    """A question whose answer asks to delete a thing of this name, and tells that it is done."""
    call = Tool(name="things_delete_thing", arguments={"name": name}, id=f"call_{name}")
    return visit.house.model.answers(
        f"Delete {name}", Answer(tools=(call,)), Answer(text=f"All is done with {name}.")
    )


def send_as_just_rendered(route: Route, visit: Visit) -> None:
    """Send a decision whose card was rendered now: a busy machine brings cards late."""
    fields = dict(parse_qsl(route.request.post_data or ""))
    secret = (visit.house.installation.folder / "secret_key").read_text().strip()
    signer = Signer(key=secret, salt="chatapp.approval.shown_at")
    call, _, _ = signer.unsign(fields["shown_at"]).partition(":")
    fields["shown_at"] = signer.sign(f"{call}:{time.time():.3f}")
    route.continue_(post_data=urlencode(fields))


@pytest.mark.long
def test_a_click_100_ms_after_the_card_appeared_runs_nothing_and_says_why(visit: Visit) -> None:
    visit.witness.excuse("status of 409")
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers("Good day", Answer(text="Good day to you.")))
    expect_over(tab)
    tab.route("**/decide", lambda route: send_as_just_rendered(route, visit), times=1)
    tab.evaluate(CLICK_AFTER_100_MS)
    ask(tab, deletion(visit, "hasty"))
    expect(tab.locator("body[data-clicked]")).to_have_count(1)
    question = card(tab, "delete thing")
    expect(question.get_by_role("alert")).to_contain_text("before you could read")
    assert visit.executions("hasty") == 0
    tick_as_read(tab)
    button(question, "Allow once").click()
    expect(region(tab)).to_contain_text("All is done with hasty.")
    assert visit.executions("hasty") == 1


def test_enter_in_the_message_box_never_approves(visit: Visit) -> None:
    visit.witness.excuse("status of 422")
    tab = visit.tab()
    ask_in_new_chat(tab, deletion(visit, "spared"))
    question = card(tab, "delete thing")
    expect(question).to_be_visible()
    tick_as_read(tab)
    box(tab).press("Enter")
    expect(tab.get_by_text("Enter a message.")).to_be_visible()
    expect(question).to_be_visible()
    ask(tab, visit.house.model.answers("Yes, run it", Answer(text="I must not do that myself.")))
    expect(region(tab)).to_contain_text("I must not do that myself.")
    expect(region(tab)).to_contain_text("withdrawn")
    expect(question).to_have_count(0)
    assert visit.executions("spared") == 0


def test_a_double_click_on_run_once_runs_it_once(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, deletion(visit, "twice"))
    run = button(card(tab, "delete thing"), "Allow once")
    expect(run).to_be_visible()
    tick_as_read(tab)
    run.dblclick()
    expect(region(tab)).to_contain_text("All is done with twice.")
    expect_over(tab)
    assert visit.executions("twice") == 1


@pytest.mark.long
def test_the_focus_goes_on_although_the_sidebar_is_asked_for_before_the_decision_is_answered(
    visit: Visit,
) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, deletion(visit, "focus"))
    question = card(tab, "delete thing")
    expect(question).to_be_visible()
    tick_as_read(tab)
    held: list[Route] = []
    tab.route("**/decide", lambda route: held.append(route))
    with tab.expect_request("**/decide"):
        button(question, "Allow once").press("Enter")
    with tab.expect_response("**/sidebar/"):
        tab.evaluate("htmx.trigger('#sidebar-list', 'refresh')")
    expect(tab.locator("#sidebar-list.htmx-request")).to_have_count(0)
    expect(question).to_be_visible()
    held.pop().continue_()
    expect(region(tab)).to_contain_text("All is done with focus.")
    expect(tab.locator("details.tool > summary")).to_be_focused()


def test_another_member_finds_neither_the_conversation_nor_its_approval(visit: Visit) -> None:
    visit.witness.excuse("status of 404")
    tab, other = visit.tab(), visit.tab("stranger")
    ask_in_new_chat(tab, deletion(visit, "private"))
    question = card(tab, "delete thing")
    expect(question).to_be_visible()
    form = question.locator("form")
    decide = str(form.get_attribute("action"))
    fields: dict[str, str | float | bool] = {
        name: form.locator(f"input[name={name}]").input_value() for name in ("version", "shown_at")
    }
    for address in (tab.url, decide.removesuffix("decide")):
        answer = other.goto(address)
        assert answer is not None and answer.status == 404
    other.goto("/")
    token = other.locator("[name=csrfmiddlewaretoken]").first.input_value()
    tick_as_read(other)
    posted = other.request.post(
        decide, form={**fields, "decision": "run", "csrfmiddlewaretoken": token}
    )
    assert posted.status == 404
    assert visit.executions("private") == 0
    expect(question).to_be_visible()
