"""The admin of webhooks: addresses and secrets are checked, sealed and never shown again."""

import json
from typing import Any

import pytest
from django.test import Client

from chatapp.models import LogEntry, Member, Webhook
from tests.chatapp.notifications.conftest import board
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.peers.notice_board import MATRIX_TOKEN, ROOM, SECRET, NoticeBoard

__all__ = ["board"]
pytestmark = pytest.mark.django_db(transaction=True)
ADD = "/admin/chatapp/webhook/add/"
HOOK = "https://hooks.slack.example/services/T000/B000/token-that-is-secret"


def fill(**values: Any) -> dict[str, Any]:
    return {
        **{"name": "Operations", "format": "slack", "is_enabled": "on", "address": HOOK},
        **{"secret": "", "room": "", "audience": "everyone", "sends_waiting": "on"},
        **values,
    }


def read_errors(answer: Any) -> str:
    assert answer.status_code == 200
    return str(answer.context["errors"])


def test_an_address_is_sealed_masked_and_logged_as_set(admin_client: Client) -> None:
    assert admin_client.post(ADD, fill()).status_code == 302
    webhook = Webhook.objects.get()
    assert (webhook.read_address(), webhook.host) == (HOOK, "hooks.slack.example")
    assert HOOK.encode() not in bytes(webhook.sealed_address)
    page = admin_client.get(f"/admin/chatapp/webhook/{webhook.pk}/change/").content.decode()
    assert "hooks.slack.example …cret" in page
    assert "token-that-is" not in page
    for entry in LogEntry.objects.all():
        assert "token-that-is" not in entry.data
    changed = [json.loads(each.data).get("changed", {}) for each in LogEntry.objects.all()]
    assert {"before": "not set", "after": "set"} in [each.get("sealed_address") for each in changed]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"address": ""}, "Enter the address."),
        ({"address": "http://hooks.example/1"}, "must begin with https://"),
        ({"address": "nonsense"}, "must begin with https://"),
        ({"secret": "a secret of some length"}, "The address is the secret."),
        ({"format": "json"}, "Enter the secret."),
        ({"format": "json", "secret": "short"}, "too short"),
        ({"format": "json", "secret": "whsec_?"}, "must be base64"),
        ({"format": "matrix", "secret": MATRIX_TOKEN}, "It begins with an exclamation mark."),
        ({"audience": "chosen"}, "Otherwise nothing is posted."),
        ({"sends_waiting": ""}, "Choose what is posted."),
    ],
)
def test_bad_input_gets_a_sentence(
    admin_client: Client, values: dict[str, Any], sentence: str
) -> None:
    assert sentence in read_errors(admin_client.post(ADD, fill(**values)))
    assert not Webhook.objects.exists()


def test_an_empty_field_keeps_the_secret_and_a_new_place_does_not(
    admin_client: Client,
) -> None:
    form = fill(format="json", secret=SECRET, address="https://one.example/")
    admin_client.post(ADD, form)
    webhook = Webhook.objects.get()
    address = f"/admin/chatapp/webhook/{webhook.pk}/change/"
    admin_client.post(address, form | {"secret": "", "address": "", "name": "Renamed"})
    webhook.refresh_from_db()
    assert (webhook.name, webhook.read_secret()) == ("Renamed", SECRET)
    moved = form | {"secret": "", "address": "https://two.example/"}
    assert "not reused" in read_errors(admin_client.post(address, moved))


@pytest.mark.parametrize("status", [0, 500])
def test_a_test_message_says_what_happened(
    admin_client: Client, board: NoticeBoard, status: int
) -> None:
    webhook = Webhook.objects.create(name="Room", format="matrix", room=ROOM)
    webhook.set_address(board.address)
    webhook.set_secret(MATRIX_TOKEN)
    board.status = status
    form = {"action": "send_test", "_selected_action": webhook.pk}
    page = admin_client.post("/admin/chatapp/webhook/", form, follow=True).content.decode()
    if status:
        assert "Room: the test failed. 127.0.0.1 answered with the status 500." in page
        assert "Failed: 127.0.0.1 answered" in page
    else:
        assert "Room: the test was accepted." in page
        assert "Countersign can post here." in board.posted[0]["body"]


def test_the_list_costs_few_statements(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        Webhook.objects.create(name=f"Channel {number}", format="slack")
    admin_client.get("/admin/chatapp/webhook/")
    with django_assert_max_num_queries(25):
        admin_client.get("/admin/chatapp/webhook/")


def test_an_admin_without_the_right_sees_no_webhook(db: Any) -> None:
    helper = Member.objects.create_user("helper", password="helper-password", is_staff=True)
    client = Client()
    client.force_login(helper)
    assert client.get("/admin/chatapp/webhook/").status_code == 403


def test_an_admin_who_sees_no_members_still_adds_a_webhook(db: Any) -> None:
    keeper = Member.objects.create_user(
        "keeper", password="keeper-password", is_staff=True, rights=["system"]
    )
    chosen = Member.objects.create_user("hidden-name")
    client = signed_in(keeper)
    page = parse(client.get(ADD).content.decode())
    assert page.all("select", name="members") == []
    assert client.post(ADD, fill(members=[chosen.pk])).status_code == 302
    webhook = Webhook.objects.get()
    assert not webhook.members.exists()
    webhook.members.add(chosen)
    address = f"/admin/chatapp/webhook/{webhook.pk}/change/"
    assert "hidden-name" not in client.get(address).content.decode()
    assert client.post(address, fill(name="Renamed", audience="chosen")).status_code == 302
    webhook.refresh_from_db()
    assert (webhook.name, list(webhook.members.all())) == ("Renamed", [chosen])
