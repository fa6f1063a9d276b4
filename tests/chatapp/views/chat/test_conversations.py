"""The chat page: a new chat, a conversation as it is now, and the list beside it."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.staticfiles import finders
from django.test import Client

from chatapp.api import access_tokens
from chatapp.conversations import intake
from chatapp.live import page_view
from chatapp.models import Conversation, Member, Turn
from chatapp.rendering import page_values as ids
from tests.dom_tree import Element, parse
from tests.turns import rows


def open_page(client: Client, url: str, **data: Any) -> Element:
    answer = client.get(url, data)
    assert answer.status_code == 200
    return parse(answer.content.decode())


# --- a new chat ----------------------------------------------------------------------------
def test_a_new_chat_has_what_a_person_needs_by_name(owner_client: Client) -> None:
    page = open_page(owner_client, "/")
    assert page.one("label", for_="message").text == "Message"
    assert page.button("Send")["form"] == page.one("form", action="/c/new/messages")["id"]
    assert page.all("a", href="/") or page.all("form", action="/")
    assert page.one(aria_label="Conversation").text.startswith("Hello, owner.")
    assert page.one("label", class_="pick").text.startswith("Model")


def test_each_new_chat_has_an_id_of_its_own_for_its_message(owner_client: Client) -> None:
    first, second = (
        open_page(owner_client, "/").one("form", id="composer").fields()["client_id"]
        for _ in range(2)
    )
    assert first != second


def test_a_starter_fills_the_box_with_or_without_javascript(owner_client: Client) -> None:
    starters = open_page(owner_client, "/").with_class("starter")
    assert len(starters) == 6
    for starter in starters:
        page = open_page(owner_client, "/", **{starter["name"]: starter["value"]})
        assert page.one("textarea").text == starter["data-fill"] == starter.one("b").text


def test_the_starters_of_the_demo_are_not_shown_with_a_real_model(
    owner_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    assert open_page(owner_client, "/").with_class("starter") == []


@pytest.mark.parametrize("start", ["0", "7", "x", "-1", "²", "1" * 4_301])
def test_a_starter_that_there_is_not_leaves_the_box_empty(owner_client: Client, start: str) -> None:
    assert open_page(owner_client, "/", start=start).one("textarea").text == ""


def test_without_the_demo_there_are_no_starters(
    owner_client: Client, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DEMO = False
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    assert open_page(owner_client, "/").with_class("starter") == []


def test_a_page_says_when_no_model_is_set_up(
    owner_client: Client, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DEMO = False
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    options = open_page(owner_client, "/").one("select").all("option")
    assert [option["value"] for option in options] == [""]


# --- a conversation ------------------------------------------------------------------------
def test_a_conversation_shows_what_was_said_and_where_its_frames_go_on(
    owner_client: Client, owner: Member
) -> None:
    turn = rows.turn(owner, Turn.State.DONE, "What is new?")
    rows.said(turn, "Nothing *much*.")
    page = open_page(owner_client, f"/c/{turn.conversation_id}/")
    region = page.one("section", aria_label="Conversation")
    thread = region.one("ol", id=ids.THREAD_ID)
    assert [each["data-role"] for each in thread.elements] == ["user", "assistant"]
    assert "What is new?" in thread.elements[0].text
    assert thread.elements[1].one("em").text == "much"
    assert (region["data-stream"], region["data-after"]) == (
        f"/ws/c/{turn.conversation_id}/?shows=waiting,tools-button,more-requests&after=",
        "7",
    )
    assert page.one("h1", id=ids.TITLE_ID).text == "What is new?"
    assert page.one("title").text == "What is new? · Countersign"


@pytest.mark.parametrize("state", Turn.State.values)
def test_only_a_page_on_which_work_goes_on_reloads_itself_without_javascript(
    owner_client: Client, owner: Member, state: str
) -> None:
    turn = rows.turn(owner, state)
    address = f"/c/{turn.conversation_id}/"
    reloads = [
        each.one("meta")["content"] for each in open_page(owner_client, address).all("noscript")
    ]
    # One that waits for a person would take away what they are writing.
    assert reloads == ([] if turn.rests else [f"3; url={address}"])


@pytest.mark.parametrize(
    ("headers", "is_live"),
    [
        ({"Host": "chat.example"}, True),
        ({"Host": "127.0.0.1"}, False),
        ({"Host": "127.0.0.1", "X-Forwarded-Proto": "https"}, True),  # a proxy has changed the host
    ],
)
def test_a_page_at_an_address_without_live_answers_says_so_and_reloads_itself(
    owner_client: Client,
    owner: Member,
    settings: LazySettings,
    headers: dict[str, str],
    is_live: bool,
) -> None:
    settings.PUBLIC_URL, settings.ALLOWED_HOSTS = "https://chat.example", ["*"]
    settings.ALLOWED_ORIGINS = [settings.PUBLIC_URL]
    address = f"/c/{rows.turn(owner, Turn.State.RUNNING).conversation_id}/"
    page = parse(owner_client.get(address, headers=headers).content.decode())
    assert len(page.one("head").all("noscript")) == is_live
    assert page.one("meta", http_equiv="refresh")["content"] == f"3; url={address}"
    assert bool(page.all("script")) == is_live
    links = [link["href"] for link in page.one("p", class_="link-state").all("a")]
    assert links == ([] if is_live else [f"https://chat.example{address}"])


def test_a_card_on_the_page_can_be_decided_without_javascript(
    owner_client: Client, owner: Member
) -> None:
    call = rows.question(rows.turn(owner))
    page = open_page(owner_client, f"/c/{call.turn.conversation_id}/")
    form = page.one(id=ids.tool_call_id(call.pk)).one("form")
    assert (form["method"], form["action"]) == ("post", f"/approvals/{call.pk}/decide")
    assert len(form.fields()["csrfmiddlewaretoken"]) > 30


def test_a_conversation_keeps_its_model_although_nobody_offers_it(
    owner_client: Client, owner: Member
) -> None:
    turn = rows.turn(owner, Turn.State.DONE)
    Conversation.objects.update(model="openai:gone")
    form = open_page(owner_client, f"/c/{turn.conversation_id}/").one("form", id="composer")
    assert form.fields()["model"] == "openai:gone"
    assert rows.MODEL in [option["value"] for option in form.all("option")]


def test_models_are_grouped_by_who_provides_them(
    owner_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    groups = open_page(owner_client, "/").all("optgroup")
    assert [group["label"] for group in groups] == ["OpenAI", "Demo"]
    assert all(option["value"].startswith("openai:") for option in groups[0].all("option"))


def test_every_id_on_a_page_is_there_once(owner_client: Client, owner: Member) -> None:
    turn = rows.turn(owner)
    rows.question(turn)
    rows.question(turn)
    found = [
        each["id"]
        for each in open_page(owner_client, f"/c/{turn.conversation_id}/").all()
        if "id" in each
    ]
    assert len(found) == len(set(found))


def test_every_button_of_an_icon_has_a_name(owner_client: Client, owner: Member) -> None:
    turn = rows.turn(owner)
    rows.question(turn)
    page = open_page(owner_client, f"/c/{turn.conversation_id}/")
    assert all(page.buttons())
    assert all(each.name for each in page.all("a"))


# --- the list of conversations ---------------------------------------------------------------
def test_the_list_has_this_persons_conversations_and_marks_the_open_one(
    owner_client: Client, owner: Member, stranger: Member
) -> None:
    here, waiting = rows.turn(owner, "done", "Here"), rows.turn(owner, "waiting", "Waiting")
    rows.question(waiting)
    rows.turn(stranger, text="Not yours")
    page = parse(
        owner_client.get(
            "/sidebar/", headers={"HX-Current-URL": f"http://testserver/c/{here.conversation_id}/"}
        ).content.decode()
    )
    names = {each.one(class_="name").text: each for each in page.with_class("link")}
    assert set(names) == {"Here", "Waiting"}
    assert names["Here"]["aria-current"] == "page"
    assert names["Waiting"].one(class_="dot")["data-state"] == "waiting"
    assert [group.text for group in page.all("h2")] == ["Projects", "Today"]


def test_chats_that_programs_began_stand_at_the_end_under_the_names_of_their_tokens(
    owner_client: Client, owner: Member, django_assert_num_queries: Any
) -> None:
    token = access_tokens.create(owner, name="Night job", scopes=["chat"], days=7)[0]
    rows.turn(owner, "done", "Mine")
    for number in range(page_view.PROGRAMS_LENGTH + 5):
        turn = rows.turn(owner, "done", f"Report {number}")
        Conversation.objects.filter(pk=turn.conversation_id).update(token=token)
    assert [group.text for group in open_page(owner_client, "/sidebar/").all("h2")] == [
        *("Projects", "Today", "From programs")
    ]
    links = open_page(owner_client, "/sidebar/").with_class("link")
    assert [link.one(class_="name").text for link in links[:2]] == ["Mine", "Report 24"]
    assert len(links) == 1 + page_view.PROGRAMS_LENGTH
    assert "Night job" in links[1].name and "Night job" not in links[0].name
    with django_assert_num_queries(1):
        for group in page_view.load_sidebar(owner):
            assert [str(link.conversation.token) for link in group.links]


def test_a_programs_chat_that_its_person_writes_in_is_theirs(owner: Member) -> None:
    token = access_tokens.create(owner, name="Night job", scopes=["chat"], days=7)[0]
    chat = rows.turn(owner, "done", "Report").conversation
    Conversation.objects.filter(pk=chat.pk).update(token=token)
    assert [group.label for group in page_view.load_sidebar(owner)] == ["From programs"]
    intake.receive(owner, chat, text="And then?", model=rows.MODEL)
    assert [group.label for group in page_view.load_sidebar(owner)] == ["Today"]


def test_every_page_leads_to_the_inbox_with_the_number_of_what_waits(
    owner_client: Client, owner: Member, stranger: Member
) -> None:
    rows.question(rows.turn(stranger))
    for address in ["/", "/approvals/", "/consents/"]:
        page = open_page(owner_client, address)
        assert page.one("a", id=ids.WAITING_ID).name == "Inbox"
        assert not page.one("title").text.startswith("(")
    turn = rows.turn(owner)
    rows.question(turn)
    assert open_page(owner_client, "/").one("a", id=ids.WAITING_ID)["data-keep"] == "1"
    rows.question(turn)
    page = open_page(owner_client, f"/c/{turn.conversation_id}/")
    badge = page.one("a", id=ids.WAITING_ID)
    assert (badge["data-keep"], badge["href"]) == ("2", "/approvals/")
    assert "2" in badge.name
    assert page.one("title").text == "(2) Hello · Countersign"


def test_every_page_has_one_line_to_the_server(owner_client: Client, owner: Member) -> None:
    turn = rows.turn(owner)
    for address in ["/", "/approvals/", "/consents/", f"/c/{turn.conversation_id}/"]:
        elements = open_page(owner_client, address).all()
        assert len([each for each in elements if "data-stream" in each]) == 1


def test_the_list_is_the_one_that_the_page_came_with(owner_client: Client, owner: Member) -> None:
    turn = rows.turn(owner, "done")
    address = f"/c/{turn.conversation_id}/"
    box = open_page(owner_client, address).one(id="sidebar-list")
    again = parse(
        owner_client.get(
            box["hx-get"], headers={"HX-Current-URL": f"http://testserver{address}"}
        ).content.decode()
    )
    assert [each.one("a")["href"] for each in again.all("li")] == [
        each.one("a")["href"] for each in box.all("li")
    ]
    assert again.one("a", aria_current="page")["href"] == f"/c/{turn.conversation_id}/"


def test_only_admins_are_offered_the_settings(owner_client: Client, admin_client: Client) -> None:
    assert open_page(owner_client, "/").all("a", href="/admin/") == []
    assert open_page(admin_client, "/").one("a", href="/admin/").name == "Admin"


def test_the_account_menu_has_the_settings_and_the_way_out(owner_client: Client) -> None:
    page = open_page(owner_client, "/")
    opener = page.one("button", popovertarget="account-menu")
    assert opener.name == "Your account: owner"
    menu = page.one(id="account-menu")
    assert "popover" in menu
    assert menu.one("a", href="/settings/").name
    assert len(menu.one("form", action="/sign-out/").buttons()) == 1


# --- what it weighs --------------------------------------------------------------------------
def test_the_chat_weighs_at_most_45_kb_and_our_scripts_12(owner_client: Client) -> None:
    page = open_page(owner_client, "/")
    names = [each["src"] for each in page.all("script")]
    names += [each["href"] for each in page.all("link", rel="stylesheet")]
    files = [Path(str(finders.find(name.removeprefix("/static/")))) for name in names]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) <= 45 * 1024
    ours = [path for path in files if path.parent.name == "js"]
    assert [path.name for path in ours] == ["countersign.js", "copy.js"]
    assert ours[0].stat().st_size <= 12 * 1024
