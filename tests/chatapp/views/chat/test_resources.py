"""Attaching a resource: found, looked at, put beside the message, sent; with and without htmx."""

import uuid
from typing import Any

import pytest
from django.test import Client

from chatapp.models import Attachment, Conversation, Member, Part, Turn
from mcpconfig.models import Exchange, Service
from tests.dom_tree import Element, parse
from tests.peers.reading_room import ReadSwitch
from tests.peers.serving import Served
from tests.turns import rows

HTMX = {"HX-Request": "true"}
DRAFT = {"text": "My draft\nin two lines", "model": rows.MODEL, "chat": ""}
ADDRESS = "room://{town}/{street}"


def step(client: Client, path: str, /, htmx: bool = True, **values: Any) -> Element:
    """One step of the picker, as htmx or as a page that carries a draft along."""
    data = {"service": "room", **values} | ({} if htmx else DRAFT)
    answer = client.post(f"/attach/{path}", data, headers=HTMX if htmx else {})
    assert answer.status_code in (200, 422), answer.status_code
    return parse(answer.content.decode())


def fill_in(**values: str) -> dict[str, Any]:
    """The fields of a form with these values in it."""
    return {f"value-{name}": value for name, value in values.items()}


def offers(page: Element) -> list[str]:
    return [
        each.one("b").text for each in page.all("ul", class_="offers") for each in each.all("li")
    ]


# --- finding ---------------------------------------------------------------------------------
def test_the_menu_offers_the_services_that_this_person_may_use(
    owner_client: Client, room: Service
) -> None:
    Service.objects.create(
        name="hidden", url="builtin:x", visibility=Service.Visibility.PRIVATE, title="Hidden"
    )
    menu = step(owner_client, "")
    assert offers(menu) == ["Reading room"]
    assert menu.one("button", formaction="/attach/resources")
    assert menu.one("form", action="/attach/prompts")


@pytest.mark.parametrize("name", ["resources", "template", "read", "complete", "prompts", "prompt"])
def test_a_service_of_somebody_else_does_not_exist(
    stranger_client: Client, room: Service, arrivals: Served, name: str
) -> None:
    room.visibility = Service.Visibility.PRIVATE
    room.save()
    data = {"service": "room", "uri": "room://notice", "prompt": "greet"}
    assert stranger_client.post(f"/attach/{name}", data).status_code == 404
    assert arrivals.arrivals.seen == []


def test_resources_come_in_pages_with_templates_after_them(
    owner_client: Client, room: Service
) -> None:
    first = step(owner_client, "resources")
    assert len(offers(first)) == 20 + 1
    assert "Page 1 of 2" in first.text and "Address" in offers(first)
    second = step(owner_client, "resources", page="2")
    assert offers(second)[:9] == [
        *(f"letter-{number}" for number in range(20, 25)),
        "Notice <b>board</b>",
        "Picture",
        "Drawing",
        "Archive",
    ]


@pytest.mark.parametrize("page", ["999", "-1", "x"])
def test_a_page_that_is_not_there_is_the_nearest_one(
    owner_client: Client, room: Service, page: str
) -> None:
    assert offers(step(owner_client, "resources", page=page))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("LETTER-7", ["letter-7"]),
        ("door what", ["Notice <b>board</b>"]),
        ("room://arch", ["Archive"]),
        ("{street}", ["Address"]),
        ("nothing like it", []),
    ],
)
def test_a_search_looks_at_names_titles_descriptions_and_addresses(
    owner_client: Client, room: Service, query: str, found: list[str]
) -> None:
    page = step(owner_client, "resources", q=query)
    assert offers(page) == found
    assert page.one("input", name="q")["value"] == query


# --- reading ---------------------------------------------------------------------------------
def test_looking_reads_the_resource_now_and_keeps_what_it_held(
    owner_client: Client, owner: Member, room: Service
) -> None:
    page = step(owner_client, "read", uri="letter://3", name="Letter three")
    assert "Dear reader 3." in page.one("pre").text
    file = Attachment.objects.get(owner=owner)
    assert (file.service, file.uri, file.name) == (room, "letter://3", "Letter three")
    assert (file.mime_type, file.size, len(file.hash)) == ("text/plain", 14, 64)
    assert Exchange.objects.filter(service=room, operation="read_resource").exists()


def test_a_template_is_filled_in(owner_client: Client, room: Service) -> None:
    form = step(owner_client, "template", template=ADDRESS, name="Address")
    assert {"value-town", "value-street"} <= set(form.one("form", class_="values-form").fields())
    page = step(owner_client, "read", template=ADDRESS, **fill_in(town="Bern", street="Weg 1/2"))
    assert Attachment.objects.get().uri == "room://Bern/Weg%201%2F2"
    assert "in Bern" in page.one("pre").text


@pytest.mark.parametrize("htmx", [True, False])
def test_a_missing_value_is_named_and_the_others_stay(
    owner_client: Client, room: Service, arrivals: Served, htmx: bool
) -> None:
    page = step(owner_client, "read", htmx, template=ADDRESS, **fill_in(town="Bern"))
    assert page.one(role="alert").text == "Fill in these fields: street"
    fields = page.one("form", class_="values-form").fields()
    assert (fields["value-town"], fields["value-street"]) == ("Bern", "")
    assert arrivals.arrivals.seen == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"uri": "room://nowhere"}, ""),
        ({"uri": ""}, "The URI is empty"),
        ({"uri": "room://a b"}, "The URI is empty, too long, or has invalid characters"),
        ({"template": "room://{a", "value-a": "1"}, "can’t be read"),
        ({"template": ADDRESS, "value-town": "a", "value-street": "b", "value-x": "c"}, "“x”"),
    ],
)
@pytest.mark.parametrize("htmx", [True, False])
def test_what_cannot_be_read_says_so_in_a_sentence(
    owner_client: Client, room: Service, values: dict[str, Any], words: str, htmx: bool
) -> None:
    problem = step(owner_client, "read", htmx, **values).one(role="alert").text
    assert problem and words in problem
    assert not Attachment.objects.exists()


@pytest.mark.parametrize("name", ["resources", "prompts", "read"])
def test_a_service_that_is_away_says_so_and_what_was_written_is_still_there(
    owner_client: Client, room: Service, name: str
) -> None:
    Service.objects.update(url="http://127.0.0.1:9/mcp")
    page = step(owner_client, name, htmx=False, uri="letter://1")
    assert page.one(role="alert").text
    back = page.one("form", class_="leave-picker")
    assert back.fields()["text"] == DRAFT["text"]


def test_a_resource_that_is_too_large_is_kept_in_part_and_says_so(
    owner_client: Client, room: Service
) -> None:
    page = step(owner_client, "read", uri="room://archive")
    assert page.with_class("left-out")
    file = Attachment.objects.get()
    assert file.was_cut and file.size == 2 * 1024 * 1024


def test_a_picture_is_looked_at_and_a_drawing_only_saved(
    owner_client: Client, room: Service
) -> None:
    picture = step(owner_client, "read", uri="room://picture").one("img")["src"]
    assert owner_client.get(picture)["Content-Type"] == "image/png"
    assert step(owner_client, "read", uri="room://drawing").all("img") == []


def test_a_service_that_wants_a_sign_in_says_where(owner_client: Client, room: Service) -> None:
    room.authentication = Service.Authentication.OAUTH_USER
    room.save()
    problem = step(owner_client, "resources").one(role="alert")
    assert problem.one("a")["href"] == "/services/"


@pytest.mark.parametrize("given", ["theirs", "6f6d2f0e-5f0e-4a77-9d0e-0b6d6c1f2a11", "x"])
def test_a_step_in_the_chat_of_somebody_else_asks_nobody(
    owner_client: Client, stranger: Member, room: Service, arrivals: Served, given: str
) -> None:
    chat = str(rows.turn(stranger).conversation_id) if given == "theirs" else given
    data = {"service": "room", "uri": "letter://1", "chat": chat}
    assert owner_client.post("/attach/read", data, headers=HTMX).status_code == 404
    assert arrivals.arrivals.seen == []


# --- proposals -------------------------------------------------------------------------------
def test_values_are_proposed_by_the_service(owner_client: Client, room: Service) -> None:
    asked = {"ref": ADDRESS, "argument": "town", **fill_in(town="Ber")}
    options = step(owner_client, "complete", **asked).all("option")
    assert [each["value"] for each in options] == ["Bergen", "Berlin", "Bern"]


def test_a_service_without_proposals_leaves_the_field_plain(
    owner_client: Client, room: Service
) -> None:
    Service.objects.update(url="http://127.0.0.1:9/mcp")
    assert step(owner_client, "complete", ref=ADDRESS, argument="town").all("option") == []


# --- attaching and sending -------------------------------------------------------------------
@pytest.fixture
def draft(owner_client: Client, owner: Member, room: Service) -> Attachment:
    step(owner_client, "read", uri="letter://1", name="Letter <one>")
    return Attachment.objects.get(owner=owner)


def test_an_attachment_appears_beside_the_message_and_the_picker_closes(
    owner_client: Client, draft: Attachment
) -> None:
    fragment = step(owner_client, "add", chosen=str(draft.pk))
    closed, added = fragment.elements
    assert (closed["hx-swap-oob"], closed.elements) == ("innerHTML:#picker", [])
    assert added["hx-swap-oob"] == "beforeend:#composer-attachments"
    box = added.one("input", name="attachments")
    assert (box["value"], box["form"], "checked" in box) == (str(draft.pk), "composer", True)


def test_without_javascript_the_way_back_keeps_what_was_written(
    owner_client: Client, draft: Attachment
) -> None:
    page = step(owner_client, "read", htmx=False, uri="letter://2")
    forms = [each for each in page.all("form") if each["action"] == "/attach/add"]
    chat = step(owner_client, "add", htmx=False, **dict[str, Any](forms[0].fields()))
    fields = chat.one("form", id="composer").fields()
    assert fields["text"] == DRAFT["text"]
    assert fields["attachments"] == forms[0].fields()["chosen"]


def test_a_sent_attachment_is_part_of_the_message_and_opens(
    owner_client: Client, draft: Attachment
) -> None:
    data = {"text": "Read this", "model": rows.MODEL, "attachments": [str(draft.pk)]}
    owner_client.post("/c/new/messages", data)
    draft.refresh_from_db()
    assert draft.part is not None and draft.part.kind == Part.Kind.FILE
    conversation = Conversation.objects.get()
    page = parse(owner_client.get(f"/c/{conversation.pk}/").content.decode())
    chip = page.one("li", data_role="user").one("a", class_="chip")
    assert chip["href"] == f"/attachments/{draft.pk}/"
    assert "Letter <one>" in chip.text
    assert page.one("li", data_role="user").one("div", class_="bubble").text == "Read this"


def test_after_sending_the_box_holds_no_attachments(
    owner_client: Client, owner: Member, draft: Attachment
) -> None:
    conversation = rows.turn(owner, Turn.State.DONE).conversation
    data = {"text": "Read this", "model": rows.MODEL, "attachments": [str(draft.pk)]}
    answer = owner_client.post(f"/c/{conversation.pk}/messages", data, headers=HTMX)
    box = parse(answer.content.decode()).one(id="composer-attachments")
    assert (answer.status_code, box["hx-swap-oob"], box.elements) == (200, "true", [])


@pytest.mark.parametrize("whose", ["sent", "somebody's", "nobody's"])
def test_what_is_no_draft_of_this_person_is_refused(
    owner_client: Client, stranger: Member, draft: Attachment, whose: str
) -> None:
    data = {"text": "Read this", "model": rows.MODEL, "attachments": [str(draft.pk)]}
    if whose == "sent":
        owner_client.post("/c/new/messages", data)
    elif whose == "somebody's":
        Attachment.objects.update(owner=stranger)
    else:
        data["attachments"] = [str(uuid.uuid4())]
    before = Turn.objects.count()
    answer = owner_client.post("/c/new/messages", data)
    assert answer.status_code == 422
    page = parse(answer.content.decode())
    assert page.one(id="composer-notice").text
    assert page.one("form", id="composer").fields()["text"] == "Read this"
    assert Turn.objects.count() == before


def test_a_refused_message_keeps_its_attachments(owner_client: Client, draft: Attachment) -> None:
    data = {"text": "", "model": rows.MODEL, "attachments": [str(draft.pk)]}
    page = parse(owner_client.post("/c/new/messages", data).content.decode())
    assert page.one("form", id="composer").fields()["attachments"] == str(draft.pk)


def test_a_stranger_cannot_put_it_beside_a_message(
    stranger_client: Client, draft: Attachment
) -> None:
    assert step(stranger_client, "add", chosen=str(draft.pk)).all("input") == []


@pytest.mark.parametrize("ids", [["x"], ["7", "6f6d2f0e-5f0e-4a77-9d0e-0b6d6c1f2a12"]])
def test_ids_that_are_none_are_refused_in_a_sentence(
    owner_client: Client, draft: Attachment, ids: list[str]
) -> None:
    data = {"text": "Hi", "model": rows.MODEL, "attachments": ids}
    answer = owner_client.post("/c/new/messages", data)
    assert answer.status_code == 422
    assert parse(answer.content.decode()).one(id="composer-notice").text


def test_a_room_that_closes_between_is_told_apart(
    owner_client: Client, room: Service, doors: ReadSwitch
) -> None:
    doors.shut.set()
    page = step(owner_client, "read", uri="room://notice")
    assert page.one(role="alert").text
    assert offers(page)  # the list is still there to choose from
