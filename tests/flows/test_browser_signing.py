"""Two people and one call, in real browsers: one asks on a laptop, the other signs on a phone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from .browser import (
    Visit,
    ask_in_new_chat,
    button,
    card,
    expect_over,
    fill_house,
    region,
    tick_as_read,
)
from .test_browser_decisions import deletion
from .test_browser_looks import LAPTOP, PHONE, SIDEWAYS

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
TWO_SIGN = """
from django.contrib.auth.models import Group
from chatapp.models import Member, PolicyRule, SecondSignature
operations, _ = Group.objects.get_or_create(name="Operations")
operations.user_set.add(Member.objects.get(username="approver"))
second, _ = SecondSignature.objects.get_or_create(name="Operations", approvers=operations)
PolicyRule.objects.create(name="Two sign", effect="ask", tool="delete_thing", second=second)
"""
ONE_DOES = """
from chatapp.models import PolicyRule
PolicyRule.objects.filter(name="Two sign").delete()
"""


@pytest.fixture
def two_sign(visit: Visit) -> Iterator[None]:
    """An approver, and a rule by which a thing is deleted only if they sign, too."""
    if "approver" not in visit.house.states:
        fill_house(
            visit.house.installation, ["member", "add", "approver", "--password-env", "PASSWORD"]
        )
    visit.house.installation.manage("shell", "-v", "0", "-c", TWO_SIGN)
    yield
    visit.house.installation.manage("shell", "-v", "0", "-c", ONE_DOES)


def sign_first(visit: Visit, tab: Page, name: str) -> None:
    ask_in_new_chat(tab, deletion(visit, name))
    question = card(tab, "delete thing")
    expect(question).to_contain_text("someone from “Operations” has 24 hours")
    tick_as_read(tab)
    button(question, "Allow once").click()
    waiting = tab.get_by_role("group", name=re.compile("^Waiting for a second approval"))
    expect(waiting).to_contain_text("You approved this.")
    assert visit.executions(name) == 0


@pytest.mark.long
def test_one_signs_on_a_laptop_the_other_on_a_phone_and_then_it_runs(
    visit: Visit, two_sign: None
) -> None:
    tab, phone = visit.tab(viewport=LAPTOP), visit.tab("approver", viewport=PHONE)
    phone.goto("/approvals/")
    sign_first(visit, tab, "signed")
    expect(tab.get_by_text("Waiting for a second approval", exact=True)).to_be_visible()
    line = phone.get_by_role("link", name=re.compile("Delete thing signed"))
    expect(line).to_contain_text("requested by owner")
    line.click()
    name = re.compile("For owner, the assistant wants to run")
    expect(phone.get_by_role("heading", name=name)).to_be_visible()
    question = card(phone, "delete thing")
    expect(question).to_contain_text("signed")
    assert phone.evaluate(SIDEWAYS) == []
    tick_as_read(phone)
    button(question, "Allow once").click()
    expect(phone.locator("details.tool")).to_contain_text("approved by approver")
    expect(region(tab)).to_contain_text("All is done with signed.")
    expect_over(tab)
    assert visit.executions("signed") == 1


@pytest.mark.long
def test_other_pages_of_the_requester_show_that_it_is_signed(visit: Visit, two_sign: None) -> None:
    tab, phone = visit.tab(viewport=LAPTOP), visit.tab(viewport=PHONE)
    ask_in_new_chat(tab, deletion(visit, "signed-elsewhere"))
    phone.goto(tab.url)
    expect(card(phone, "delete thing")).to_be_visible()
    tick_as_read(tab)
    button(card(tab, "delete thing"), "Allow once").click()
    waiting = phone.get_by_role("group", name=re.compile("^Waiting for a second approval"))
    expect(waiting).to_contain_text("You approved this.")
    expect(card(phone, "delete thing")).to_have_count(0)
    button(waiting, "Withdraw approval").click()
    expect(region(tab)).to_contain_text("denied by owner")
    assert visit.executions("signed-elsewhere") == 0


@pytest.mark.long
def test_the_other_says_no_with_a_word_and_the_requester_reads_it(
    visit: Visit, two_sign: None
) -> None:
    tab, phone = visit.tab(), visit.tab("approver", viewport=PHONE)
    sign_first(visit, tab, "refused-by-two")
    phone.goto("/approvals/")
    phone.get_by_role("link", name=re.compile("Delete thing refused-by-two")).click()
    question = card(phone, "delete thing")
    question.get_by_text("Deny with a reason").click()
    question.get_by_label("Tell the assistant why").fill("Not before Friday.")
    button(question, "Deny").click()
    expect(region(tab)).to_contain_text("Not before Friday.")
    expect(region(tab)).to_contain_text("denied by approver")
    assert visit.executions("refused-by-two") == 0


@pytest.mark.long
def test_an_approver_names_a_stand_in_by_keyboard(visit: Visit, two_sign: None) -> None:
    visit.witness.excuse("status of 422")
    phone = visit.tab("approver", viewport=PHONE)
    phone.goto("/stand-ins/")
    phone.get_by_label("Username").fill("stranger")
    phone.get_by_label("First day").fill("2026-01-01")
    phone.get_by_label("Last day").fill("2099-01-01")
    phone.get_by_label("Last day").press("Enter")
    expect(phone.get_by_role("alert")).to_contain_text("one year at most")
    expect(phone.get_by_label("Username")).to_have_value("stranger")
    assert phone.evaluate(SIDEWAYS) == []
