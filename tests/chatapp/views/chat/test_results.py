"""Bytes, links and attachments over HTTP: who gets them, as what, and what is never fetched."""

import base64
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from chatapp.models import Attachment, Member, Message, Part, ToolCall
from mcpconfig.models import Exchange, Service, ToolDefinition
from tests.dom_tree import parse
from tests.peers.reading_room import PNG, SVG, WAV, ReadSwitch, picture_block
from tests.peers.serving import Served
from tests.turns import rows

HTMX = {"HX-Request": "true"}
NOTICE = {"type": "resource_link", "uri": "room://notice", "name": "Notice"}


def call_with(owner: Member, *blocks: dict[str, Any], **values: Any) -> ToolCall:
    return rows.call(rows.turn(owner), result={"content": list(blocks)}, **values)


def content(client: Client, call: ToolCall, index: int = 0, query: str = "") -> HttpResponse:
    answer: Any = client.get(f"/calls/{call.pk}/content/{index}{query}")
    return answer  # type: ignore[no-any-return]


def keep_attachment(owner: Member, *contents: dict[str, Any], **values: Any) -> Attachment:
    return Attachment.objects.create(
        owner=owner,
        service_name="Room",
        size=7,
        contents=list(contents),
        **{"uri": "room://a", "name": "A", **values},
    )


# --- bytes ---------------------------------------------------------------------------------
@pytest.mark.parametrize(("data", "media_type"), [(PNG, "image/png"), (WAV, "audio/wav")])
def test_bytes_are_served_as_what_they_are(
    owner_client: Client, owner: Member, data: bytes, media_type: str
) -> None:
    answer = content(owner_client, call_with(owner, picture_block(data, "text/html")))
    assert (answer.content, answer["Content-Type"]) == (data, media_type)
    assert "Content-Disposition" not in answer


@pytest.mark.parametrize("data", [SVG, b"<script>alert(1)</script>", b"%PDF-1.7"])
def test_what_is_no_picture_can_only_be_saved(
    owner_client: Client, owner: Member, data: bytes
) -> None:
    answer = content(owner_client, call_with(owner, picture_block(data)))
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == 'attachment; filename="resource.bin"'


def test_a_picture_can_be_saved_under_a_name_of_ours(owner_client: Client, owner: Member) -> None:
    answer = content(owner_client, call_with(owner, picture_block()), query="?save")
    assert answer["Content-Disposition"] == 'attachment; filename="resource.png"'


def test_bytes_have_no_origin_no_script_and_are_not_guessed_at(
    owner_client: Client, owner: Member
) -> None:
    call = call_with(owner, picture_block())
    file = keep_attachment(owner, {"uri": "a", "blob": base64.b64encode(PNG).decode()})
    for url in (f"/calls/{call.pk}/content/0", f"/attachments/{file.pk}/content/0"):
        answer = owner_client.get(url)
        policy = answer["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "sandbox" in policy
        assert "script-src" not in policy
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert "no-store" in answer["Cache-Control"]


@pytest.mark.parametrize(
    "block",
    [{"type": "text", "text": "x"}, {"type": "image", "data": "%%%"}, {"type": "resource"}, {}],
)
def test_where_there_are_no_bytes_nothing_is_there(
    owner_client: Client, owner: Member, block: dict[str, Any]
) -> None:
    call = call_with(owner, block)
    assert content(owner_client, call).status_code == 404
    assert content(owner_client, call, index=7).status_code == 404


LONG_SOUND = WAV + bytes(1_000)


@pytest.mark.parametrize(
    ("wanted", "first", "last"),
    [("0-1", 0, 1), ("40-", 40, len(LONG_SOUND) - 1), ("-9", len(LONG_SOUND) - 9, None)]
    + [("8-99999", 8, None), ("-99999", 0, None)],
)
def test_a_sound_is_sent_in_ranges(
    owner_client: Client, owner: Member, wanted: str, first: int, last: int | None
) -> None:
    call = call_with(owner, picture_block(LONG_SOUND))
    asked = {"Range": f"bytes={wanted}", "Accept-Encoding": "gzip"}
    answer = owner_client.get(f"/calls/{call.pk}/content/0", headers=asked)
    last = len(LONG_SOUND) - 1 if last is None else last
    assert (answer.status_code, answer.content) == (206, LONG_SOUND[first : last + 1])
    assert answer["Content-Range"] == f"bytes {first}-{last}/{len(LONG_SOUND)}"
    assert answer["Content-Encoding"] == "identity"


@pytest.mark.parametrize(
    "wanted", ["bytes=5-3", "bytes=-", "bytes=0-1,4-5", "lines=1-2", "bytes=٣-"]
)
def test_a_range_that_cannot_be_read_gets_the_whole_sound(
    owner_client: Client, owner: Member, wanted: str
) -> None:
    call = call_with(owner, picture_block(LONG_SOUND))
    answer = owner_client.get(f"/calls/{call.pk}/content/0", headers={"Range": wanted})
    assert (answer.status_code, answer.content) == (200, LONG_SOUND)
    assert answer["Accept-Ranges"] == "bytes"


def test_a_range_counts_for_get_only_and_not_with_a_condition(
    owner_client: Client, owner: Member
) -> None:
    address = f"/calls/{call_with(owner, picture_block(LONG_SOUND)).pk}/content/0"
    assert owner_client.head(address, headers={"Range": "bytes=0-1"}).status_code == 200
    conditional = {"Range": "bytes=0-1", "If-Range": '"x"'}
    assert owner_client.get(address, headers=conditional).content == LONG_SOUND


@pytest.mark.parametrize("wanted", [f"bytes={len(LONG_SOUND)}-", "bytes=-0"])
def test_a_range_behind_the_end_of_a_sound_gets_its_size(
    owner_client: Client, owner: Member, wanted: str
) -> None:
    call = call_with(owner, picture_block(LONG_SOUND))
    answer = owner_client.get(f"/calls/{call.pk}/content/0", headers={"Range": wanted})
    assert (answer.status_code, answer.content) == (416, b"")
    assert answer["Content-Range"] == f"bytes */{len(LONG_SOUND)}"


def test_embedded_bytes_are_served_too(owner_client: Client, owner: Member) -> None:
    resource = {"uri": "a", "blob": base64.b64encode(PNG).decode()}
    call = call_with(owner, {"type": "resource", "resource": resource})
    assert content(owner_client, call).content == PNG


# --- whose they are --------------------------------------------------------------------------
def test_a_stranger_and_an_admin_get_nothing_of_it(
    owner: Member, stranger_client: Client, admin_client: Client
) -> None:
    call = call_with(owner, picture_block(), NOTICE)
    file = keep_attachment(owner, {"uri": "a", "text": "secret"})
    for client in (stranger_client, admin_client):
        assert content(client, call).status_code == 404
        assert client.post(f"/calls/{call.pk}/links/1/open").status_code == 404
        assert client.get(f"/attachments/{file.pk}/").status_code == 404
        assert client.get(f"/attachments/{file.pk}/content/0").status_code == 404


def test_who_is_signed_out_is_shown_the_door(client: Client, owner: Member) -> None:
    call = call_with(owner, picture_block())
    assert content(client, call)["Location"].startswith("/sign-in/")


# --- an attachment's page ----------------------------------------------------------------------
def test_an_attachment_that_was_sent_leads_back_to_its_chat(
    owner_client: Client, owner: Member
) -> None:
    message = Message.objects.get(turns_asked=rows.turn(owner))
    part = Part.objects.create(message=message, position=1, kind=Part.Kind.FILE)
    file = keep_attachment(owner, {"uri": "room://a", "text": "<b>Hello</b>"}, part=part)
    page = parse(owner_client.get(f"/attachments/{file.pk}/").content.decode())
    assert page.one("a", href=f"/c/{message.conversation_id}/", class_="back")
    assert "".join(page.one("pre")._words()) == "<b>Hello</b>"
    assert not page.all("form", action="/attach/add")


# --- links -------------------------------------------------------------------------------------
@pytest.fixture
def link(owner: Member, room: Service) -> ToolCall:
    definition = ToolDefinition.objects.create(service=room, hash="h", name="t", input_schema={})
    return call_with(owner, NOTICE, service=room, definition=definition)


def open_link(client: Client, call: ToolCall, htmx: bool = True) -> HttpResponse:
    headers = HTMX if htmx else {}
    answer: Any = client.post(f"/calls/{call.pk}/links/0/open", headers=headers)
    return answer  # type: ignore[no-any-return]


def test_a_link_is_read_by_the_service_that_named_it_and_shown_as_source(
    owner_client: Client, link: ToolCall, arrivals: Served
) -> None:
    fragment = parse(open_link(owner_client, link).content.decode())
    assert fragment.one("pre").text.startswith("<h1 id=thread>Closed on Mondays</h1>")
    assert fragment.all("h1") == [] and fragment.all("script") == []
    assert "resources/read" in arrivals.arrivals.methods


def test_an_opened_link_leaves_a_trace_and_can_be_attached(
    owner_client: Client, link: ToolCall
) -> None:
    fragment = parse(open_link(owner_client, link).content.decode())
    file = Attachment.objects.get()
    assert (file.uri, file.name, file.part) == ("room://notice", "Notice", None)
    assert fragment.one("input", name="chosen")["value"] == str(file.pk)
    read = Exchange.objects.filter(service=link.service, operation="read_resource")
    assert set(read.values_list("round_id", flat=True)) == {str(link.pk)}


def test_without_htmx_an_opened_link_is_a_page(owner_client: Client, link: ToolCall) -> None:
    answer = open_link(owner_client, link, htmx=False)
    assert answer["Location"] == f"/attachments/{Attachment.objects.get().pk}/"


@pytest.mark.parametrize("htmx", [True, False])
def test_a_link_that_cannot_be_read_says_why(
    owner_client: Client, link: ToolCall, doors: ReadSwitch, htmx: bool
) -> None:
    doors.shut.set()
    page = parse(open_link(owner_client, link, htmx).content.decode())
    assert page.one(role="alert").text
    assert not Attachment.objects.exists()


@pytest.mark.parametrize("change", ["disabled", "moved", "private"])
def test_a_link_of_a_service_that_is_not_the_persons_any_more_asks_nobody(
    owner_client: Client, link: ToolCall, room: Service, arrivals: Served, change: str
) -> None:
    changes: dict[str, dict[str, Any]] = {
        "disabled": {"is_enabled": False},
        "moved": {"url": room.url.replace("127.0.0.1", "localhost")},
        "private": {"visibility": Service.Visibility.PRIVATE},
    }
    for field, value in changes[change].items():
        setattr(room, field, value)
    room.save()
    assert "or you cannot use it" in open_link(owner_client, link).content.decode()
    assert arrivals.arrivals.seen == []


def test_only_a_link_can_be_opened(owner_client: Client, owner: Member) -> None:
    call = call_with(owner, {"type": "text", "uri": "room://notice", "text": "x"})
    assert open_link(owner_client, call).status_code == 404
