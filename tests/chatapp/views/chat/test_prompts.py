"""Prompts of services: found, filled in, put into the message, and never sent by themselves."""

import json
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from chatapp.models import Attachment, Member, Message, Turn
from chatapp.views.chat.prompts import build_text, list_files
from mcpconfig.models import Exchange, Service
from mcpconfig.values.results import PromptMessage, PromptResult
from tests.dom_tree import Element, parse
from tests.peers.reading_room import picture_block
from tests.peers.serving import Served
from tests.turns import rows

HTMX = {"HX-Request": "true"}
TRIP: dict[str, Any] = {"service": "room", "prompt": "trip"}


def make_prompt(client: Client, path: str, /, htmx: bool = True, **values: Any) -> HttpResponse:
    answer: Any = client.post(path, values, headers=HTMX if htmx else {})
    return answer  # type: ignore[no-any-return]


def step(client: Client, path: str, /, htmx: bool = True, **values: Any) -> Element:
    return parse(make_prompt(client, f"/attach/{path}", htmx, **values).content.decode())


def fill_in(**values: str) -> dict[str, Any]:
    """The fields of a form with these values in it."""
    return {f"value-{name}": value for name, value in values.items()}


def offers(page: Element) -> list[str]:
    return [
        each.one("b").text for each in page.all("ul", class_="offers") for each in each.all("li")
    ]


# --- the slash ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("/", ["Reading room"]),
        ("/ro", ["Reading room"]),
        ("/nobody", []),
        ("/room:", ["Plan a trip", "greet"]),
        ("/room:tri", ["Plan a trip"]),
        ("/room:hello", ["greet"]),
        ("/room:greet\n", ["greet"]),
        ("/room:nothing", []),
        ("/other:", []),
        ("/ room", []),
        ("Dear /room", []),
        ("", []),
    ],
)
def test_a_slash_lists_services_and_a_colon_their_prompts(
    owner_client: Client, room: Service, typed: str, found: list[str]
) -> None:
    assert offers(step(owner_client, "typed", text=typed)) == found


def test_a_name_asks_no_service_before_its_colon(
    owner_client: Client, room: Service, arrivals: Served
) -> None:
    step(owner_client, "typed", text="/room")
    assert arrivals.arrivals.seen == []


def test_a_list_that_opens_by_itself_takes_no_focus(owner_client: Client, room: Service) -> None:
    for typed in ("/", "/room:"):
        page = step(owner_client, "typed", text=typed)
        assert [each for each in page.all() if "autofocus" in each] == []


def test_a_list_goes_into_the_place_it_was_asked_from(owner_client: Client, room: Service) -> None:
    """A place that is gone by then gets nothing: a header would send it to the one that is new."""
    answer = make_prompt(owner_client, "/attach/typed", text="/room:trip")
    assert (answer.status_code, "HX-Retarget" in answer) == (200, False)


def test_words_that_are_no_command_close_the_list(owner_client: Client, room: Service) -> None:
    closed = step(owner_client, "typed", text="/room and more").elements[0]
    assert closed["hx-swap-oob"] == "innerHTML:#picker"


def test_a_service_of_somebody_else_is_not_named(stranger_client: Client, room: Service) -> None:
    room.visibility = Service.Visibility.PRIVATE
    room.save()
    assert offers(step(stranger_client, "typed", text="/")) == []
    assert offers(step(stranger_client, "typed", text="/room:")) == []


# --- the form ----------------------------------------------------------------------------------
def test_a_prompt_has_a_field_for_each_value(owner_client: Client, room: Service) -> None:
    form = step(owner_client, "prompt", **TRIP).one("form", class_="values-form")
    fields = form.all("input", maxlength="4000")
    assert [each["name"] for each in fields] == ["value-town", "value-days"]
    assert ["required" in each for each in fields] == [True, False]
    asked = json.loads(form.all("datalist")[0]["hx-vals"])
    assert asked == {"ref": "trip", "argument": "town"}


def test_values_of_a_prompt_are_proposed(owner_client: Client, room: Service) -> None:
    asked = {"ref": "trip", "argument": "town", **fill_in(town="Berl")}
    options = step(owner_client, "complete", service="room", **asked).all("option")
    assert [each["value"] for each in options] == ["Berlin"]


def test_a_prompt_that_is_not_there_is_named_and_others_are_offered(
    owner_client: Client, room: Service
) -> None:
    page = step(owner_client, "prompt", service="room", prompt="gone")
    assert page.one(role="alert").text == "Reading room has no prompt named “gone”."
    assert offers(page) == ["Plan a trip", "greet"]


# --- what it says ------------------------------------------------------------------------------
def test_its_messages_become_words_to_look_at(owner_client: Client, room: Service) -> None:
    page = step(owner_client, "fill", **TRIP, **fill_in(town="Bern", days="3"))
    text = "".join(page.one("pre")._words())
    assert text == "Plan 3 days in Bern.\n\n> By train?\n> Or by boat?"
    assert page.one("button", data_fill=text)
    assert Exchange.objects.filter(service=room, operation="get_prompt").exists()


def test_what_it_embeds_becomes_an_attachment(
    owner_client: Client, owner: Member, room: Service
) -> None:
    page = step(owner_client, "fill", **TRIP, **fill_in(town="Bern"))
    file = Attachment.objects.get(owner=owner)
    assert (file.uri, file.contents[0]["text"]) == ("room://guide", "All about Bern.")
    assert page.one("input", name="chosen")["value"] == str(file.pk)


def test_nothing_is_sent_by_filling_in_or_using_a_prompt(
    owner_client: Client, room: Service
) -> None:
    step(owner_client, "fill", **TRIP, **fill_in(town="Bern"))
    chosen = str(Attachment.objects.get().pk)
    step(owner_client, "use", prompt_text="Plan", chosen=chosen)
    step(owner_client, "use", htmx=False, prompt_text="Plan", chosen=chosen)
    assert not Message.objects.exists() and not Turn.objects.exists()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("/room:greet", "Say hello to everybody."),
        ("", "Say hello to everybody."),
        ("What I wrote.", "What I wrote.\n\nSay hello to everybody."),
        ("/shrug", "/shrug\n\nSay hello to everybody."),
        ("/etc/hosts is odd", "/etc/hosts is odd\n\nSay hello to everybody."),
    ],
)
def test_what_was_written_stays_before_it_unless_it_was_its_name(
    owner_client: Client, room: Service, written: str, expected: str
) -> None:
    offer: dict[str, Any] = {"service": "room", "prompt": "greet"}
    if written.startswith("/room:"):
        listed = step(owner_client, "typed", text=written)
        offer = dict(listed.one("form", action="/attach/prompt").fields())
        offer |= (
            step(owner_client, "prompt", text=written, **offer).one(class_="values-form").fields()
        )
    page = step(owner_client, "fill", **offer, text=written)
    assert "".join(page.one("pre")._words()) == expected
    button = page.one("button", class_="btn primary")
    assert button["data-fill"] == "Say hello to everybody."
    assert button["data-named"] == (written if written.startswith("/room:") else "")


def test_without_javascript_it_stands_in_the_box(owner_client: Client, room: Service) -> None:
    draft: dict[str, Any] = {"text": "/room:trip", "model": rows.MODEL}
    sent = make_prompt(owner_client, "/c/new/messages", htmx=False, **draft)
    asked = dict(parse(sent.content.decode()).one("form", class_="values-form").fields())
    page = step(owner_client, "fill", htmx=False, **asked | fill_in(town="Bern", days=""))
    form = next(each for each in page.all("form") if each["action"] == "/attach/use")
    chat = step(owner_client, "use", htmx=False, **dict[str, Any](form.fields()))
    fields = chat.one("form", id="composer").fields()
    assert fields["text"].startswith("Plan 2 days in Bern.")
    assert fields["attachments"] == str(Attachment.objects.get().pk)


@pytest.mark.parametrize("htmx", [True, False])
def test_a_missing_value_is_told_and_the_form_stays(
    owner_client: Client, room: Service, htmx: bool
) -> None:
    page = step(owner_client, "fill", htmx, **TRIP, **fill_in(days="3"))
    assert page.one(role="alert").text
    assert page.one("form", class_="values-form").fields()["value-days"] == "3"


# --- a message that is only a prompt's name ----------------------------------------------------
@pytest.mark.parametrize("htmx", [True, False])
def test_sending_only_a_prompts_name_opens_its_form(
    owner_client: Client, room: Service, htmx: bool
) -> None:
    data: dict[str, Any] = {"text": "/room:trip", "model": rows.MODEL}
    answer = make_prompt(owner_client, "/c/new/messages", htmx, **data)
    assert parse(answer.content.decode()).one("input", name="value-town")
    assert not Message.objects.exists()
    if htmx:  # 422, so that the page keeps what is in the box
        place = parse(answer.content.decode()).one("div", id="picker")
        assert (answer.status_code, place["hx-swap-oob"]) == (422, "true")


@pytest.mark.parametrize("text", ["/nobody:trip", "/room", "/room:", "/room:trip please", "a/b:c"])
def test_other_messages_with_a_slash_are_sent(
    owner_client: Client, room: Service, text: str
) -> None:
    make_prompt(owner_client, "/c/new/messages", htmx=False, text=text, model=rows.MODEL)
    assert Message.objects.get(role="user").parts.get().text == text


# --- a prompt's result as a message ------------------------------------------------------------
def result(*messages: tuple[str, dict[str, Any]]) -> PromptResult:
    told = tuple(PromptMessage(role=role, content=content) for role, content in messages)
    return PromptResult(description="", messages=told)


def test_a_link_is_told_by_its_address() -> None:
    link = {"type": "resource_link", "uri": "a://b", "name": "Book"}
    assert build_text(result(("user", link))) == "Book (a://b)"


def test_pictures_come_along_and_what_cannot_be_read_is_left_out() -> None:
    broken = {"type": "image", "mimeType": "image/png", "data": "%%%"}
    empty: dict[str, Any] = {"type": "resource", "resource": {}}
    odd: dict[str, Any] = {"type": "resource", "resource": None}
    found = list_files(
        result(*(("user", each) for each in (picture_block(), broken, empty, odd))), "p"
    )
    assert [(each.uri, each.name) for each in found] == [("prompt:p", "image/png from p")]
