"""Pictures of assistants: chosen in the form, shown in the pages, served to those who may use the
assistant."""

from typing import Any
from urllib.parse import urlencode

import pytest
from bs4 import BeautifulSoup, Tag
from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.http import HttpResponse, QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chatapp.conversations import assistants as saved
from chatapp.conversations.assistant_pictures import store_picture
from chatapp.models import Assistant, AssistantPicture, Conversation, Member
from chatapp.models.presets.sharing import Audience
from chatapp.views.presets.forms import AssistantForm
from tests.chatapp.files.drawings import (
    CAMERA,
    CORNERS,
    claim_png,
    draw,
    encode,
    photograph,
    read_corners,
)

pytestmark = pytest.mark.django_db(transaction=True)
NEW = "/assistants/new/"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
STORED = b"RIFF....WEBP and pixels"
FIELDS = {
    "name": "Handbook",
    "description": "Knows the rules",
    "instructions": "You work for {{team}}.",
    "tools": "off",
    "starters": ["What is new?", "Second"],
    "who": "owner",
}


@pytest.fixture
def drawn(owner: Member) -> Assistant:
    """An assistant with a picture."""
    assistant = Assistant.objects.create(owner=owner, name="Incident review")
    store_picture(assistant, STORED)
    return assistant


def upload(data: bytes, name: str = "cat.png", kind: str = "image/png") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, data, kind)


def save(client: Client, address: str, **values: Any) -> HttpResponse:
    answer: Any = client.post(address, {**FIELDS, **values})
    return answer  # type: ignore[no-any-return]


def find_field(answer: Any) -> Tag:
    """Return the field of the picture in the form."""
    page = BeautifulSoup(answer.content, "html.parser")
    found = page.select_one(".field:has(#id_picture)")
    assert found is not None
    return found


def find_address(assistant: Assistant) -> str:
    assistant.refresh_from_db()
    return f"/assistants/{assistant.pk}/picture/{assistant.picture_hash}"


def read_hidden(answer: Any) -> dict[str, str]:
    """Return the picture that the form keeps for its next version."""
    hidden = find_field(answer).select_one("[type=hidden]")
    return {str(hidden["name"]): str(hidden["value"])} if hidden else {}


# --- the form ------------------------------------------------------------------------------------
def test_a_photo_becomes_the_picture_of_a_new_assistant(owner_client: Client) -> None:
    field = find_field(owner_client.get(NEW))
    assert "at most 5.0 MB" in field.get_text().replace("\xa0", " ")
    assert not field.select("img, [name=removes_picture]")
    answer = save(owner_client, NEW, picture=upload(photograph(6)))
    assert answer.status_code == 302
    assistant = Assistant.objects.get()
    shown: Any = owner_client.get(find_address(assistant))
    assert read_corners(shown.content) == CORNERS
    assert CAMERA.encode() not in shown.content
    assert len(shown.content) < 20_000
    field = find_field(owner_client.get(f"/assistants/{assistant.pk}/edit/"))
    (image,) = field.select("img")
    assert image["src"] == find_address(assistant)


def test_a_form_without_a_file_keeps_the_picture(owner_client: Client, drawn: Assistant) -> None:
    before = find_address(drawn)
    assert save(owner_client, f"/assistants/{drawn.pk}/edit/").status_code == 302
    assert find_address(drawn) == before
    assert bytes(drawn.picture.data) == STORED


def test_another_picture_has_another_address(owner_client: Client, drawn: Assistant) -> None:
    before = find_address(drawn)
    edit = f"/assistants/{drawn.pk}/edit/"
    assert save(owner_client, edit, picture=upload(encode(draw()))).status_code == 302
    assert find_address(drawn) != before
    assert owner_client.get(find_address(drawn)).status_code == 200
    assert owner_client.get(before).status_code == 404
    assert AssistantPicture.objects.count() == 1


def test_a_removed_picture_is_gone(owner_client: Client, drawn: Assistant) -> None:
    before, edit = find_address(drawn), f"/assistants/{drawn.pk}/edit/"
    assert save(owner_client, edit, removes_picture="on").status_code == 302
    assert owner_client.get(before).status_code == 404
    assert not AssistantPicture.objects.exists()
    drawn.refresh_from_db()
    assert drawn.picture_hash == ""
    icon = find_field(owner_client.get(edit)).select_one(".service-icon")
    assert icon is not None and icon.get_text() == "H"


def test_a_new_file_counts_more_than_the_removal(owner_client: Client, drawn: Assistant) -> None:
    edit = f"/assistants/{drawn.pk}/edit/"
    save(owner_client, edit, removes_picture="on", picture=upload(encode(draw())))
    shown: Any = owner_client.get(find_address(drawn))
    assert read_corners(shown.content) == CORNERS


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (SVG, "This file is not a PNG, JPEG, WebP or GIF picture."),
        (b"Not a picture", "This file is not a PNG, JPEG, WebP or GIF picture."),
        (b"", "The file is empty."),
        (encode(draw())[:-100], "The picture is damaged."),
        (claim_png(30_000, 30_000), "The picture has more than 50 million pixels."),
        (b"\x89PNG\r\n\x1a\n" + bytes(5_300_000), "The picture has 5.1 MB. The limit is 5.0 MB."),
    ],
    ids=["svg", "text", "empty", "cut", "bomb", "large"],
)
def test_a_refused_picture_says_why_and_everything_typed_stays(
    owner_client: Client, drawn: Assistant, data: bytes, sentence: str
) -> None:
    before, edit = find_address(drawn), f"/assistants/{drawn.pk}/edit/"
    answer: Any = save(owner_client, edit, picture=upload(data))
    assert answer.status_code == 422
    page = BeautifulSoup(answer.content, "html.parser")
    problem = page.select_one("#id_picture-problem")
    assert problem is not None and sentence in problem.get_text()
    chooser = page.select_one("#id_picture")
    assert chooser is not None and chooser["aria-invalid"] == "true"
    assert "id_picture-problem" in chooser["aria-describedby"]
    assert page.select_one("#id_name")["value"] == FIELDS["name"]  # type: ignore[index]
    assert page.select_one("#id_description")["value"] == FIELDS["description"]  # type: ignore[index]
    assert page.select_one("#id_instructions").get_text() == FIELDS["instructions"]  # type: ignore[union-attr]
    assert page.select_one("[name=tools][value=off]").has_attr("checked")  # type: ignore[union-attr]
    starters = [each.get_text() for each in page.select("[name=starters]")]
    assert starters[:2] == FIELDS["starters"]
    # The stored picture stays, and the form shows it.
    assert [image["src"] for image in find_field(answer).select("img")] == [before]
    assert owner_client.get(before).status_code == 200


def test_a_picture_that_the_server_would_not_keep_is_too_large(
    owner_client: Client, settings: Any
) -> None:
    settings.FILE_MAX_BYTES = 2_000
    answer = save(owner_client, NEW, picture=upload(photograph(1)))
    assert "The limit is 2.0 KB." in find_field(answer).get_text().replace("\xa0", " ")


def test_a_good_picture_is_not_lost_with_another_refused_field(owner_client: Client) -> None:
    answer: Any = save(owner_client, NEW, name="", picture=upload(photograph(6)))
    assert answer.status_code == 422
    field, kept = find_field(answer), read_hidden(answer)
    assert "Your picture is not saved yet." in field.get_text()
    (image,) = field.select("img")
    assert str(image["src"]).startswith("data:image/webp;base64,")
    # It goes through any number of refusals, also of another picture.
    again = read_hidden(save(owner_client, NEW, picture=upload(SVG), **kept))
    assert again == kept
    assert save(owner_client, NEW, **again).status_code == 302
    shown: Any = owner_client.get(find_address(Assistant.objects.get()))
    assert read_corners(shown.content) == CORNERS


def test_a_picture_that_is_not_saved_yet_can_be_removed(owner_client: Client) -> None:
    kept = read_hidden(save(owner_client, NEW, name="", picture=upload(photograph(6))))
    assert save(owner_client, NEW, removes_picture="on", **kept).status_code == 302
    assert not AssistantPicture.objects.exists()


@pytest.mark.parametrize("change", ["changed", "unsigned", "of another person", "null"])
def test_only_a_picture_that_was_made_here_is_stored(
    owner_client: Client, stranger_client: Client, change: str
) -> None:
    maker = stranger_client if change == "of another person" else owner_client
    kept = read_hidden(save(maker, NEW, name="", picture=upload(photograph(6))))["kept_picture"]
    value = {
        "changed": f"A{kept}",
        "unsigned": kept.partition(":")[0],
        "of another person": kept,
        "null": "\x00",
    }[change]
    assert save(owner_client, NEW, kept_picture=value).status_code == 302
    assert not AssistantPicture.objects.exists()


def test_too_many_pictures_within_a_minute_are_refused(owner_client: Client, settings: Any) -> None:
    settings.UPLOADS_PER_MINUTE = 1
    save(owner_client, NEW, picture=upload(SVG))
    answer = save(owner_client, NEW, picture=upload(encode(draw())))
    assert "You added too many files within a minute." in find_field(answer).get_text()
    assert not Assistant.objects.exists()


def test_a_form_that_was_open_meanwhile_loses_no_picture(owner: Member) -> None:
    assistant = Assistant.objects.create(owner=owner, name="Review")
    sent = QueryDict(urlencode(FIELDS, doseq=True))
    form = AssistantForm(sent, {}, person=owner, row=assistant)
    assert form.is_valid()
    store_picture(Assistant.objects.get(), STORED)
    form.save()
    stored = Assistant.objects.get()
    assert (stored.name, bool(stored.picture_hash)) == ("Handbook", True)


# --- who sees it ---------------------------------------------------------------------------------
# Threat: `picture-of-another-person`.
def test_only_those_who_may_use_the_assistant_get_its_picture(
    owner_client: Client,
    stranger: Member,
    stranger_client: Client,
    admin_client: Client,
    client: Client,
    drawn: Assistant,
) -> None:
    address = find_address(drawn)
    assert owner_client.get(address).content == STORED
    assert [each.get(address).status_code for each in (stranger_client, admin_client)] == [404, 404]
    assert client.get(address)["Location"].startswith("/sign-in/")
    group = Group.objects.create(name="Platform team")
    Assistant.objects.update(audience=Audience.GROUP, group=group)
    assert stranger_client.get(address).status_code == 404
    stranger.groups.add(group)
    assert stranger_client.get(address).content == STORED
    assert admin_client.get(address).status_code == 404
    stranger.groups.remove(group)
    assert stranger_client.get(address).status_code == 404


def test_a_hash_that_is_not_the_pictures_finds_nothing(
    owner_client: Client, owner: Member, drawn: Assistant
) -> None:
    plain = Assistant.objects.create(owner=owner, name="Plain")
    wrong = "0" * 32
    for address in (
        f"/assistants/{drawn.pk}/picture/{wrong}",
        f"/assistants/{drawn.pk}/picture/",
        f"/assistants/{plain.pk}/picture/{drawn.picture_hash}",
    ):
        answer = owner_client.get(address)
        assert answer.status_code == 404
        assert "no-store" in answer["Cache-Control"]


def test_a_picture_has_its_own_type_no_origin_and_stays_in_its_browser(
    owner_client: Client, drawn: Assistant
) -> None:
    answer = owner_client.get(find_address(drawn))
    assert answer["Content-Type"] == "image/webp"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert {"default-src 'none'", "sandbox"} <= set(answer["Content-Security-Policy"].split("; "))
    assert answer["Cache-Control"] == "private, max-age=31536000, immutable"


# --- where it is shown ---------------------------------------------------------------------------
def find_images(client: Client, address: str, place: str) -> list[str]:
    answer: Any = client.get(address)
    assert answer.status_code == 200
    images = BeautifulSoup(answer.content, "html.parser").select(f"{place} img")
    assert all(image["alt"] == "" for image in images)
    return [str(image["src"]) for image in images]


def test_pages_show_it_in_the_place_of_the_initials(
    owner_client: Client, owner: Member, drawn: Assistant
) -> None:
    Assistant.objects.create(owner=owner, name="Plain one")
    address = find_address(drawn)
    chat = Conversation.objects.create(owner=owner, assistant=drawn)
    assert find_images(owner_client, "/assistants/", ".preset") == [address]
    assert find_images(owner_client, f"/?assistant={drawn.pk}", "#assistant-start") == [address]
    assert find_images(owner_client, f"/c/{chat.pk}/", "#chat-head") == [address]
    page = BeautifulSoup(owner_client.get("/assistants/").content, "html.parser")
    assert [each.get_text() for each in page.select(".preset .service-icon")] == ["", "PO"]


def test_lists_load_no_picture_and_need_no_more_statements(
    owner_client: Client, owner: Member
) -> None:
    for number in range(3):
        Assistant.objects.create(owner=owner, name=f"Review {number}")
    owner_client.get("/assistants/")
    with CaptureQueriesContext(connection) as plain:
        owner_client.get("/assistants/")
    for assistant in Assistant.objects.all():
        store_picture(assistant, STORED)
    with CaptureQueriesContext(connection) as drawn:
        assert len(find_images(owner_client, "/assistants/", ".preset")) == 3
    assert len(drawn) == len(plain)
    assert not any("assistantpicture" in each["sql"] for each in drawn)


def test_an_admin_sees_the_picture_of_a_shared_assistant_only(
    admin_client: Client, drawn: Assistant
) -> None:
    address = f"/admin/chatapp/assistant/{drawn.pk}/change/"
    assert find_images(admin_client, address, "#content") == []
    Assistant.objects.update(audience=Audience.EVERYONE)
    (source,) = find_images(admin_client, address, "#content")
    assert source.startswith("data:image/webp;base64,")
    AssistantPicture.objects.all().delete()
    assert find_images(admin_client, address, "#content") == []


# --- copies --------------------------------------------------------------------------------------
def test_a_duplicate_has_the_picture_also_after_the_original_is_deleted(
    stranger: Member, stranger_client: Client, drawn: Assistant
) -> None:
    Assistant.objects.update(audience=Audience.EVERYONE)
    copy = saved.duplicate(stranger, drawn)
    drawn.delete()
    assert AssistantPicture.objects.count() == 1
    answer: Any = stranger_client.get(find_address(copy))
    assert answer.content == STORED
    assert copy.picture_hash == drawn.picture_hash
