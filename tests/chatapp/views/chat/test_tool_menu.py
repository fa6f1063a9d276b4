"""The Tools menu shows what a person may use and switches it, for one chat or for all of theirs."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.models import Conversation, Member, Message, PolicyRule, ToolCall, ToolSwitch, Turn
from chatapp.rendering import page_values
from chatapp.tool_menu.menu import MenuRequest, build_menu
from chatapp.tool_menu.paging import MAX_LINES, MAX_OPEN, MAX_SERVICES
from chatapp.tool_menu.use_counts import Uses, count_uses
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.dom_tree import Element, parse
from tests.turns.acts import create_offered_service

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
NOWHERE = "https://nowhere.invalid/mcp"


@pytest.fixture
def memos(db: Any) -> Service:
    return create_offered_service("memos", NOWHERE, "list_memos", "delete_memo", title="Memos")


@pytest.fixture
def mail(db: Any) -> Service:
    return create_offered_service("mail", NOWHERE, "send_mail", title="Mail")


@pytest.fixture
def chat(owner: Member) -> Conversation:
    return Conversation.objects.create(owner=owner, title="Hello", model="demo:assistant")


def post(client: Client, path: str = "/tools/switch", **values: object) -> Element:
    answer = client.post(path, {"scope": "all", **values}, headers=HTMX)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def switches(found: Element) -> dict[str, str]:
    """Whether each switch is on, by the value that it sends: `service/` or `service/tool`."""
    buttons = [
        each
        for each in found.all("button")
        if each.attributes.get("role") in ("switch", "checkbox")
    ]
    return {each["value"]: each["aria-checked"] for each in buttons}


def test_a_service_that_waits_for_a_sign_in_says_so(
    owner_client: Client, memos: Service, mail: Service
) -> None:
    mail.authentication = Service.Authentication.OAUTH_USER
    mail.save()
    found = parse(owner_client.post("/tools/", headers=HTMX).content.decode())
    said = [each["id"] for each in found.all("li") if "sign-in needed" in each.text]
    assert said == ["tools-of-mail"]


def test_the_menu_lists_services_with_what_is_on_and_what_it_weighs(
    owner_client: Client, memos: Service, mail: Service
) -> None:
    found = parse(owner_client.post("/tools/", headers=HTMX).content.decode())
    assert switches(found) == {"memos/": "true", "mail/": "true"}
    assert re.match(r"From services: 3 of 3 .*\d+", found.one("p", class_="sum").text)
    assert found.one("input", name="q")["id"] == "tools-q"


def test_an_open_service_shows_its_tools_with_risk_state_and_figures(
    owner_client: Client, owner: Member, memos: Service
) -> None:
    ToolSetting.objects.filter(name="delete_memo").update(level="high", confirmed_hash="older")
    ToolSetting.objects.filter(name="list_memos").delete()
    ToolDefinition.objects.create(service=memos, name="off", hash="off", input_schema={})
    ToolSetting.objects.create(service=memos, name="off", is_enabled=False)
    found = post(owner_client, opens="memos")
    assert len({each.text for each in found.with_class("state")}) == 3
    why = found.one("summary", data_risk="high").parent
    assert why and why.one("small").text, "readable without hovering"
    assert set(switches(found)) == {"memos/", "memos/delete_memo",
                                    "memos/list_memos"}  # fmt: skip
    assert found.one("button", id="tools-open-memos")["aria-expanded"] == "true"


def test_what_a_rule_forbids_is_shown_as_such_without_a_switch(
    owner_client: Client, memos: Service
) -> None:
    PolicyRule.objects.create(name="No", effect="deny", tool="delete_memo")
    PolicyRule.objects.create(name="No clock", effect="deny", is_core=True, tool="current-time")
    for found in (post(owner_client, opens="memos"), post(owner_client, "/tools/found", q="memo")):
        assert len(found.with_class("state")) == 1
        assert set(switches(found)) >= {"memos/", "memos/list_memos"}
        assert "memos/delete_memo" not in switches(found)
    own = post(owner_client, opens="our.own")
    assert "current-time" in own.text
    assert not any("current-time" in name for name in switches(own))


def test_a_service_that_fails_says_why(owner_client: Client, memos: Service) -> None:
    memos.last_error = {"kind": "refused", "message": "Nothing answers there.", "hint": ""}
    memos.save()
    found = parse(owner_client.post("/tools/", headers=HTMX).content.decode())
    assert "Nothing answers there." in found.one("p", class_="reason").text


def test_a_switch_counts_for_all_chats_or_for_one(
    owner_client: Client, owner: Member, memos: Service, mail: Service, chat: Conversation
) -> None:
    found = post(owner_client, off="memos/delete_memo", opens="memos")
    assert switches(found) == {
        "memos/": "mixed",
        "mail/": "true",
        "memos/delete_memo": "false",
        "memos/list_memos": "true",
    }
    here = post(owner_client, off="mail/", scope="chat", chat=chat.pk, open="memos")
    assert switches(here)["mail/"] == "false"
    assert switches(here)["memos/delete_memo"] == "false"
    assert here.one("button", id="tools-as-elsewhere")
    assert switches(post(owner_client, "/tools/found"))["mail/"] == "true"
    there = post(owner_client, scope="chat", chat=chat.pk, **{"as-elsewhere": "1"})
    assert switches(there)["mail/"] == "true"
    assert set(ToolSwitch.objects.values_list("person", "tool", "is_on")) == {
        (owner.pk, "delete_memo", False)
    }


def test_the_scope_is_chosen_with_a_button(
    owner_client: Client, memos: Service, chat: Conversation
) -> None:
    found = parse(
        owner_client.post("/tools/", {"chat": str(chat.pk)}, headers=HTMX).content.decode()
    )
    assert found.one("input", name="scope")["value"] == "chat"
    found = post(owner_client, scope="chat", to="all", chat=chat.pk)
    assert found.one("input", name="scope")["value"] == "all"
    assert found.one("button", id="tools-everywhere")["aria-pressed"] == "true"


def test_a_chat_without_tools_says_so_in_the_menu_and_on_its_button(
    owner_client: Client, memos: Service, chat: Conversation
) -> None:
    found = post(owner_client, scope="chat", chat=chat.pk, **{"chat-tools": "off"})
    assert found.one("button", id="tools-chat")["aria-checked"] == "false"
    shown = parse(owner_client.get(f"/c/{chat.pk}/").content.decode())
    assert shown.one("div", id=page_values.TOOLS_ID).text.split() == ["Tools", "off"]
    post(owner_client, scope="chat", chat=chat.pk, **{"chat-tools": "on"})
    shown = parse(owner_client.get(f"/c/{chat.pk}/").content.decode())
    assert shown.one("div", id=page_values.TOOLS_ID).text.split() == ["Tools", "2"]


def test_only_a_chat_that_is_not_begun_has_both_words_for_its_button(
    owner_client: Client, memos: Service, chat: Conversation
) -> None:
    """Which of the two is seen follows the box that says so; the style sheet picks it."""

    def counts(address: str) -> list[str]:
        place = parse(owner_client.get(address).content.decode()).one(
            "div", id=page_values.TOOLS_ID
        )
        return [button.with_class("num")[0].text for button in place.all("button")]

    assert counts("/") == ["2", "off"]
    assert counts(f"/c/{chat.pk}/") == ["2"]


def test_a_search_finds_by_all_its_words_in_names_and_descriptions(
    owner_client: Client, memos: Service, mail: Service
) -> None:
    ToolDefinition.objects.filter(name="send_mail").update(description="Write a letter.")
    found = post(owner_client, "/tools/found", q="MAIL letter")
    assert set(switches(found)) == {"mail/", "mail/send_mail"}
    nothing = post(owner_client, "/tools/found", q="xylophone \x00")
    assert nothing.with_class("nothing") and switches(nothing) == {}


def test_a_search_with_many_hits_says_that_there_are_more(owner: Member) -> None:
    create_offered_service("big", NOWHERE, *(f"list_{n}" for n in range(MAX_LINES + 5)))
    menu = build_menu(owner, MenuRequest(query="list"))
    assert (len(menu.services[0].tools or ()), menu.more) == (MAX_LINES, 5)


def test_a_large_service_shows_its_first_tools_and_how_many_it_has_besides(
    owner: Member, owner_client: Client
) -> None:
    names = [f"tool_{n:03}" for n in range(MAX_OPEN + 50)]
    create_offered_service("big", NOWHERE, *names)
    ToolSetting.objects.filter(name__gte="tool_140").update(is_enabled=False)
    (line,) = build_menu(owner, MenuRequest(opened="big")).services
    assert (len(line.tools or ()), line.rest, line.all) == (MAX_OPEN, 50, 140)
    answer = owner_client.post("/tools/switch", {"opens": "big", "scope": "all"}, headers=HTMX)
    assert "It has 50 more tools." in answer.content.decode()
    assert len(answer.content) < 150_000
    found = post(owner_client, "/tools/found", q="tool_139", open="big")
    assert list(switches(found)) == ["big/", "big/tool_139"]
    assert "more tool" not in found.one("ul", class_="tool-lines").text
    (off,) = build_menu(owner, MenuRequest(query="_145")).services[0].tools or ()
    assert (off.name, off.is_on) == ("tool_145", None)


def test_a_search_that_fits_many_services_shows_the_first_of_them(owner: Member) -> None:
    Service.objects.bulk_create(
        Service(name=f"many-{n:03}", url=NOWHERE, visibility="everyone")
        for n in range(MAX_SERVICES + 5)
    )
    assert len(build_menu(owner, MenuRequest(query="many")).services) == MAX_SERVICES
    assert len(build_menu(owner, MenuRequest()).services) == MAX_SERVICES + 5


def test_without_htmx_the_menu_is_a_page_that_carries_the_message_along(
    owner_client: Client, memos: Service, chat: Conversation
) -> None:
    draft = {"text": "Half a thought", "chat": str(chat.pk)}
    first = parse(owner_client.post("/tools/", draft).content.decode())
    form = first.one("form", id="tools-form")
    assert form.one("input", name="text")["value"] == "Half a thought"
    assert form.one("input", name="csrfmiddlewaretoken") is not None
    after = owner_client.post("/tools/switch", {**draft, "scope": "chat", "off": "memos/"})
    shown = parse(after.content.decode())
    assert switches(shown)["memos/"] == "false"
    assert shown.one("form", id="tools-form").one("input", name="text")["value"] == draft["text"]
    assert owner_client.get("/tools/").status_code == 200


def test_a_page_without_an_open_menu_is_told_nothing(owner_client: Client) -> None:
    assert owner_client.post("/tools/found", headers=HTMX).status_code == 204


def test_strangers_switch_and_see_nothing_of_anothers(
    stranger_client: Client, client: Client, owner: Member, memos: Service, chat: Conversation
) -> None:
    """A guessed id leads neither to another person's chat nor to another person's service."""
    Service.objects.filter(pk=memos.pk).update(visibility="private", owner=owner)
    tries: list[dict[str, str]] = [
        {"off": "memos/"},
        {"off": "memos/list_memos"},
        {"chat": str(chat.pk), "scope": "chat", "chat-tools": "off"},
        {"chat": str(chat.pk), "scope": "chat", "as-elsewhere": "1"},
        {"chat": str(chat.pk), "scope": "chat", "off": "memos/"},
        {"chat": "nonsense", "scope": "chat"},
    ]
    for values in tries:
        answer = stranger_client.post("/tools/switch", values, headers=HTMX)
        assert answer.status_code == 404, values
        assert client.post("/tools/switch", values).status_code == 302
    assert "Memos" not in post(stranger_client, "/tools/found", q="memos").one("ul").text
    assert not ToolSwitch.objects.exists()
    chat.refresh_from_db()
    assert chat.uses_tools


@pytest.mark.parametrize("place", ["memos/nothing", "nothing/", "", "/", "memos/list_memos\x00"])
def test_a_switch_of_nothing_is_refused(owner_client: Client, memos: Service, place: str) -> None:
    answer = owner_client.post("/tools/switch", {"off": place}, headers=HTMX)
    assert answer.status_code == 404
    assert not ToolSwitch.objects.exists()


def test_tools_that_an_owner_keeps_to_themselves_are_neither_shown_nor_switched_one_by_one(
    stranger_client: Client, owner_client: Client, owner: Member, memos: Service
) -> None:
    Service.objects.filter(pk=memos.pk).update(owner=owner, shares_tools=False)
    for values in ({"opens": "memos"}, {"q": "list"}):
        assert "list_memos" not in post(stranger_client, **values).text
    assert "list_memos" in post(owner_client, opens="memos").text
    answer = stranger_client.post("/tools/switch", {"off": "memos/list_memos"}, headers=HTMX)
    assert answer.status_code == 404
    assert switches(post(stranger_client, off="memos/")) == {"memos/": "false"}


# --- the assistant's own tools
def own_switches(found: Element) -> dict[str, str]:
    return {name: on for name, on in switches(found).items() if name.startswith("our.own/")}


def test_our_own_tools_are_shown_with_figures_and_switched_one_by_one(
    owner_client: Client, owner: Member, chat: Conversation
) -> None:
    question = Message.objects.create(conversation=chat, role="user")
    answer = Message.objects.create(conversation=chat, role="assistant")
    turn = Turn.objects.create(conversation=chat, question=question, answer=answer)
    for place, state in enumerate(["succeeded", "failed"]):
        values = {"tool_id": "recall", "tool_name": "recall", "sent_at": timezone.now()}
        ToolCall.objects.create(turn=turn, step=1, position=place, state=state, **values)
    closed = post(owner_client)
    assert own_switches(closed) == {}
    opened = post(owner_client, opens="our.own", scope="chat", chat=chat.pk)
    assert set(own_switches(opened).values()) == {"true"}
    (recall,) = [each for each in opened.all("li") if each.text.strip().startswith("Recall")]
    assert "used 2 times in 30 days · 1 failed" in " ".join(recall.text.split())
    assert recall.one("details").one("small").text
    off = post(owner_client, off="our.own/recall", open="our.own", scope="chat", chat=chat.pk)
    assert own_switches(off)["our.own/recall"] == "false"
    assert own_switches(post(owner_client, opens="our.own"))["our.own/recall"] == "true"
    row = ToolSwitch.objects.get()
    assert (row.person, row.conversation, row.service, row.tool) == (owner, chat, None, "recall")
    post(owner_client, on="our.own/recall", scope="chat", chat=chat.pk)
    assert ToolSwitch.objects.get().is_on


def test_our_own_tools_are_found_by_words(owner_client: Client, memos: Service) -> None:
    found = post(owner_client, "/tools/found", q="time zone")
    assert own_switches(found) == {"our.own/current-time": "true"}
    assert found.with_class("nothing")


@pytest.mark.parametrize("tool", ["", "nothing", "find-tools", "add-service", "recall\x00"])
def test_what_a_person_is_not_offered_of_our_own_has_no_switch(
    owner_client: Client, tool: str
) -> None:
    answer = owner_client.post("/tools/switch", {"off": f"our.own/{tool}"}, headers=HTMX)
    assert answer.status_code == 404
    assert not ToolSwitch.objects.exists()


def test_uses_and_failures_are_counted_from_the_calls_of_the_person(
    owner: Member, stranger: Member, memos: Service, mail: Service
) -> None:
    from_now = timezone.now()
    for person, states in ((owner, ["succeeded", "failed", "unknown"]), (stranger, ["failed"])):
        past_calls(person, memos, states, from_now)
    past_calls(owner, mail, ["succeeded"], from_now - timedelta(days=40))
    past_calls(owner, mail, ["failed"], None)
    both = [memos.pk, mail.pk]
    assert count_uses(both, owner) == {(memos.pk, "list_memos"): Uses(calls=3, failures=1)}
    assert count_uses(both) == {(memos.pk, "list_memos"): Uses(calls=4, failures=2)}
    shown = build_menu(owner, MenuRequest(opened="memos")).services[1].tools or ()
    assert {tool.name: tool.uses.calls for tool in shown} == {"list_memos": 3, "delete_memo": 0}


def test_admins_see_how_often_everybody_used_each_definition(
    admin_client: Client, owner_client: Client, owner: Member, stranger: Member, memos: Service
) -> None:
    for person in (owner, stranger):
        past_calls(person, memos, ["succeeded", "failed"], timezone.now())
    listed = definition_of(memos)
    ToolCall.objects.update(definition=listed)
    address = f"/admin/mcpconfig/tooldefinition/?q={listed.name}"
    shown = parse(admin_client.get(address).content.decode())
    assert shown.with_class("field-uses")[0].text == "4"
    assert shown.with_class("field-failures")[0].text == "2"
    assert owner_client.get(address).status_code != 200


def definition_of(service: Service) -> ToolDefinition:
    return service.definitions.get(name="list_memos")


def past_calls(person: Member, service: Service, states: list[str], sent_at: Any) -> None:
    """A finished turn with calls of the service's list, that were sent then or never."""
    chat = Conversation.objects.create(owner=person)
    question = Message.objects.create(conversation=chat, role="user")
    answer = Message.objects.create(conversation=chat, role="assistant")
    turn = Turn.objects.create(
        conversation=chat, question=question, answer=answer, model="demo:assistant", state="done"
    )
    for position, state in enumerate(states):
        ToolCall.objects.create(
            turn=turn, step=1, position=position, provider_call_id=f"c{position}",
            tool_id=f"{service.name}_list_memos", service=service, tool_name="list_memos",
            arguments="{}", state=state, sent_at=sent_at,
        )  # fmt: skip
