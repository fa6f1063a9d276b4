"""What all steps of adding something to a message share: who gets in, and the way back."""

import pytest
from django.test import Client

from chatapp.models import Member
from mcpconfig.models import Service
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.turns import rows

HTMX = {"HX-Request": "true"}
STEPS = [
    *("", "back", "add", "complete", "files", "resources", "template", "read"),
    *("prompts", "prompt", "fill", "use", "typed"),
]


@pytest.mark.django_db
@pytest.mark.parametrize("step", STEPS)
def test_who_is_signed_out_is_led_to_the_door(client: Client, step: str) -> None:
    assert client.post(f"/attach/{step}")["Location"].startswith("/sign-in/")
    assert "/sign-in/" in client.post(f"/attach/{step}", headers=HTMX)["HX-Redirect"]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_never_an_address_that_somebody_else_can_make_one_open(
    owner: Member, owner_client: Client, step: str
) -> None:
    assert owner_client.get(f"/attach/{step}").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    assert strict.post(f"/attach/{step}").status_code == 403


def test_the_way_back_is_the_chat_with_what_was_written(
    owner: Member, owner_client: Client
) -> None:
    conversation = rows.turn(owner, "done").conversation
    draft = {"text": "A line\n<b>two</b>", "model": "demo:assistant", "chat": conversation.pk}
    page = parse(owner_client.post("/attach/back", draft).content.decode())
    form = page.one("form", id="composer")
    assert form["action"] == f"/c/{conversation.pk}/messages"
    assert form.fields()["text"] == draft["text"]


def test_with_htmx_the_way_back_only_closes_the_step(owner_client: Client) -> None:
    fragment = parse(owner_client.post("/attach/back", headers=HTMX).content.decode())
    assert [each["hx-swap-oob"] for each in fragment.elements] == ["innerHTML:#picker"]


def test_the_chat_of_somebody_else_is_no_way_back(owner: Member, stranger: Member) -> None:
    chat = {"chat": rows.turn(owner).conversation_id}
    assert signed_in(stranger).post("/attach/back", chat).status_code == 404


def test_every_form_of_a_page_carries_what_was_written(owner_client: Client) -> None:
    rows.service()
    draft = {"text": "Keep me", "model": "demo:assistant", "attachments": ["x", "y"]}
    page = parse(owner_client.post("/attach/", draft).content.decode())
    forms = page.one(class_="picker").all("form")
    assert len(forms) == 3
    for form in forms:
        carried = [(each["name"], each.attributes.get("value")) for each in form.all("input")]
        assert {("text", "Keep me"), ("attachments", "x"), ("attachments", "y")} <= set(carried)


def test_a_fragment_carries_nothing_for_the_box_is_still_there(owner_client: Client) -> None:
    rows.service()
    html = owner_client.post("/attach/", {"text": "Keep me"}, headers=HTMX).content.decode()
    assert "Keep me" not in html


def test_where_no_service_is_set_up_the_menu_says_so(owner_client: Client) -> None:
    Service.objects.all().delete()
    page = parse(owner_client.post("/attach/", headers=HTMX).content.decode())
    assert page.with_class("nothing")
