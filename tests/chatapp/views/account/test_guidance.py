"""The page on which a person tells the assistant about a service: theirs alone, nothing lost."""

from typing import Any

import pytest
from django.test import Client

from chatapp.models import Guidance, Member
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.dom_tree import Element, parse

PLACE = "/services/told/memos/"


@pytest.fixture(autouse=True)
def memos(db: Any) -> Service:
    service = Service.objects.create(
        name="memos", url="https://memos.example/mcp", visibility="everyone"
    )
    for name in ("list", "search"):
        ToolDefinition.objects.create(service=service, hash=name, name=name)
    return service


def page(client: Client, **sent: str) -> Element:
    answer = client.post(PLACE, sent) if sent else client.get(PLACE)
    assert answer.status_code == (422 if sent else 200)
    return parse(answer.content.decode())


def texts(found: Element) -> list[str]:
    return [each.text for each in found.all("textarea")]


def stored() -> list[tuple[str, str, str]]:
    rows = Guidance.objects.order_by("tool", "person")
    return [(row.person.username, row.tool, row.text) for row in rows]


def test_a_text_is_kept_changed_and_taken_away(owner_client: Client) -> None:
    for text in ("Ask it first.\r\nAlways.", "Ask it last."):
        saved = owner_client.post(PLACE, {"tool": "", "text": text})
        assert (saved.status_code, saved["Location"]) == (302, PLACE)
        assert stored() == [("owner", "", text.replace("\r\n", "\n"))]
    owner_client.post(PLACE, {"tool": "search", "text": "Briefly."})
    assert texts(page(owner_client)) == ["Ask it last.", "Briefly.", ""]
    for tool in ("", "search"):
        owner_client.post(PLACE, {"tool": tool, "text": " \n "})
    assert stored() == []


def test_a_tool_that_has_a_text_is_not_offered_again(owner_client: Client) -> None:
    owner_client.post(PLACE, {"tool": "search", "text": "Briefly."})
    options = page(owner_client).one("select", name="tool").all("option")
    assert [each.text for each in options[1:]] == ["list"]


def test_what_was_said_of_a_tool_that_is_gone_is_listed_and_can_be_removed(
    owner_client: Client,
) -> None:
    owner_client.post(PLACE, {"tool": "search", "text": "Briefly."})
    ToolDefinition.objects.filter(name="search").update(is_current=False)
    section = page(owner_client).one("section", aria_labelledby="of-gone")
    assert "Briefly." in section.text
    form = section.one("form")
    sent = {each["name"]: each["value"] for each in form.all("input", type="hidden")}
    page(owner_client, **sent | {"text": "Still there?"})
    assert stored() == [("owner", "search", "Briefly.")], "nothing new is said of it"
    assert owner_client.post(PLACE, sent).status_code == 302
    assert stored() == []
    assert page(owner_client).all("section", aria_labelledby="of-gone") == []


@pytest.mark.parametrize(
    ("tool", "text", "sentence"),
    [
        ("", "x" * 1_001, "This text has 1001 characters. Shorten it to 1000."),
        ("search", "y" * 1_001, "This text has 1001 characters"),
        ("nothing", "Kept.", "The service has no tool with this name."),
    ],
)
def test_what_cannot_be_kept_is_said_and_stays_in_its_box(
    owner_client: Client, tool: str, text: str, sentence: str
) -> None:
    found = page(owner_client, tool=tool, text=text)
    assert sentence in found.one("p", role="alert").text
    assert text in texts(found)
    assert stored() == []


def test_what_admins_say_is_shown_beside_it(owner_client: Client, memos: Service) -> None:
    Service.objects.update(guidance="For the team.\nOnly.")
    ToolSetting.objects.create(service=memos, name="list", guidance="Not too often.")
    section = page(owner_client).one("section", aria_labelledby="of-admins")
    assert [each.text for each in section.all("dd")] == ["For the team.Only.", "Not too often."]
    assert "For the team." not in " ".join(texts(page(owner_client)))


def test_a_stranger_reads_and_changes_nothing_of_anothers(
    owner: Member, owner_client: Client, stranger_client: Client, memos: Service
) -> None:
    """Neither the texts of another person nor those about another person's service."""
    owner_client.post(PLACE, {"tool": "", "text": "The owner's word."})
    assert "The owner's word." not in str(stranger_client.get(PLACE).content)
    stranger_client.post(PLACE, {"tool": "", "text": ""})
    assert stored() == [("owner", "", "The owner's word.")]

    Service.objects.update(visibility="private", owner=owner)
    assert stranger_client.get(PLACE).status_code == 404
    assert stranger_client.post(PLACE, {"tool": "", "text": "Mine."}).status_code == 404
    assert stored() == [("owner", "", "The owner's word.")]


def test_tools_that_their_owner_keeps_to_himself_are_not_named(
    admin: Member, owner_client: Client
) -> None:
    Service.objects.update(shares_tools=False, owner=admin)
    found = page(owner_client)
    assert found.all("select", name="tool") == []
    page(owner_client, tool="search", text="Is it there?")
    assert stored() == []


def test_markup_stays_words(owner_client: Client) -> None:
    owner_client.post(PLACE, {"tool": "", "text": "</textarea><b id=zz>"})
    found = page(owner_client)
    assert "</textarea><b id=zz>" in texts(found)
    assert found.all(id="zz") == []


def test_the_page_of_services_leads_there(owner_client: Client) -> None:
    found = parse(owner_client.get("/services/").content.decode())
    link = found.one("a", href=PLACE)
    assert link.text.endswith("memos")
    assert owner_client.get(link["href"]).status_code == 200
