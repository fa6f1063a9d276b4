"""Devices: what a browser may send, where this server sends to, and how many there may be."""

import json
from typing import Any

import pytest
from django.test import Client

from chatapp.models import LogEntry, Member, PushDevice
from chatapp.notifications import devices, outbound
from chatapp.people.refused import Refused
from tests.conftest import signed_in
from tests.peers.notice_board import FakeBrowser, NoticeBoard, encode

from .conftest import get_device, turn_on

pytestmark = pytest.mark.django_db(transaction=True)


def add(person: Member, text: str, session: str = "s" * 32) -> None:
    devices.add(person, session, "Chrome on Android", text, is_phone=True)


def change(browser: FakeBrowser, **values: Any) -> str:
    return json.dumps(json.loads(browser.subscription) | values)


def test_what_a_browser_said_is_sealed_and_logged(owner: Member, phone: FakeBrowser) -> None:
    device = get_device()
    stored = bytes(device.sealed_subscription)
    assert phone.address.encode() not in stored
    assert json.loads(device.read_subscription())["endpoint"] == phone.address
    entry = LogEntry.objects.latest("position")
    assert (entry.kind, entry.person_id) == ("notifications.changed", owner.pk)
    assert phone.address not in entry.data


@pytest.mark.parametrize(
    "text", ["x", "[]", "{}", '{"endpoint": 1}', "null", '{"endpoint":"https://a.example/"}']
)
def test_what_cannot_be_read_is_refused(owner: Member, text: str) -> None:
    with pytest.raises(Refused, match="can’t be read"):
        add(owner, text)
    assert not PushDevice.objects.exists()


def test_without_a_script_the_page_says_what_it_needs(owner: Member) -> None:
    with pytest.raises(Refused, match="JavaScript"):
        add(owner, "")


@pytest.mark.parametrize(
    "keys",
    [
        {"p256dh": "AAAA", "auth": "AAAA"},
        {"p256dh": "?", "auth": "?"},
        {
            "p256dh": encode(b"\4" + b"x" * 64),
            "auth": encode(b"sixteen bytes..."),
        },  # not on the curve
        {},
        "x",
    ],
)
def test_wrong_keys_are_refused(owner: Member, board: NoticeBoard, keys: Any) -> None:
    with pytest.raises(Refused, match="can’t be read"):
        add(owner, change(board.open_browser(), keys=keys))


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example/1",
        "https://127.0.0.1/1",
        "https://[::1]/1",
        "https://10.0.0.1/1",
        "https://169.254.169.254/latest",
        "https://localhost/1",
        "https://user:word@push.example/1",
        "ftp://push.example/1",
        "https://push.example:0/1",
        "https://push.example/ 1",
        "https://push.example/" + "x" * 3_000,
        "javascript:alert(1)",
        "",
    ],
)
def test_an_address_that_this_server_must_not_send_to_is_refused(
    owner: Member, endpoint: str
) -> None:
    browser = FakeBrowser("")
    with pytest.raises(Refused):
        add(owner, change(browser, endpoint=endpoint))
    assert not PushDevice.objects.exists()


def test_a_host_for_webhooks_is_none_for_push(
    owner: Member, board: NoticeBoard, settings: Any
) -> None:
    """Members name the one, admins the other."""
    settings.PUSH_PRIVATE_HOSTS = []
    with pytest.raises(Refused, match="not allowed"):
        add(owner, board.open_browser().subscription)


async def test_sending_checks_the_address_too() -> None:
    """The name may lead elsewhere by then."""
    for url in ("https://127.0.0.1/x", "https://localhost/x"):
        request = outbound.Outgoing(url=url, headers={}, body=b"x")
        with pytest.raises(outbound.NotSent, match="not allowed"):
            await outbound.send(request, [])


def test_a_person_has_ten_devices_at_most(owner: Member, board: NoticeBoard) -> None:
    clients = [signed_in(owner) for _ in range(devices.MAX_DEVICES)]
    for number, client in enumerate(clients):
        turn_on(board, owner, client, str(number))
    another = signed_in(owner)
    with pytest.raises(Refused, match="10 devices"):
        turn_on(board, owner, another, "another")
    assert PushDevice.objects.count() == devices.MAX_DEVICES
    # The same browser again is no other device.
    turn_on(board, owner, clients[0], "0")
    # Of one whose session ended unseen, only the row is left.
    PushDevice.objects.filter(session_key=clients[1].session.session_key).update(session_key="x")
    turn_on(board, owner, another, "another")
    assert PushDevice.objects.count() == devices.MAX_DEVICES


def test_a_browser_belongs_to_who_signed_in_there_last(
    owner: Member, stranger: Member, stranger_client: Client, board: NoticeBoard, phone: FakeBrowser
) -> None:
    key = stranger_client.session.session_key or ""
    devices.add(stranger, key, "Chrome", phone.subscription, is_phone=False)
    assert get_device().person == stranger


def test_a_session_that_ends_takes_its_device_along(
    owner: Member, owner_client: Client, board: NoticeBoard, phone: FakeBrowser
) -> None:
    other = signed_in(owner)
    turn_on(board, owner, other, "laptop")
    other.post("/sign-out/")
    assert get_device().session_key == owner_client.session.session_key


def test_a_person_removes_their_own_devices_only(
    owner: Member, stranger: Member, phone: FakeBrowser
) -> None:
    device = get_device()
    assert not devices.remove(stranger, device.pk)
    assert devices.remove(owner, device.pk)
    assert not devices.remove(owner, device.pk)
