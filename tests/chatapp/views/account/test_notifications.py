"""The notifications on the settings page: choices, devices, and what the page needs."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django_tasks_db.models import DBTaskResult

from chatapp.approvals import reminders
from chatapp.models import Member, NotificationPreference, PushDevice, PushKey, Webhook
from chatapp.views.account import notifications
from tests.chatapp.notifications.conftest import board, get_device, phone, run_ready, turn_on
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.peers.notice_board import FakeBrowser, NoticeBoard

__all__ = ["board", "phone"]
pytestmark = pytest.mark.django_db(transaction=True)
SAVE = "/settings/notifications"
DEVICES = "/settings/notifications/devices"
PAGES = "/settings/notifications/pages"


def read_section(client: Client) -> Any:
    return parse(client.get("/settings/").content.decode()).one("section", id="notifications")


def test_the_page_has_one_key_for_browsers(owner_client: Client) -> None:
    keys = {
        next(
            each["data-key"]
            for each in read_section(owner_client).all("button")
            if "data-key" in each
        )
        for _ in range(2)
    }
    assert keys == {PushKey.objects.get().public_key}


def test_a_browser_turns_push_on_and_the_page_shows_it(
    owner: Member, owner_client: Client, board: NoticeBoard
) -> None:
    browser = board.open_browser()
    agent = "Mozilla/5.0 (Linux; Android 14) Chrome/131 Mobile"
    answer = owner_client.post(
        DEVICES, {"subscription": browser.subscription}, headers={"User-Agent": agent}
    )
    assert answer["Location"] == "/settings/#notifications"
    section = read_section(owner_client)
    assert "Chrome on Android" in section.text
    assert "This device" in section.text
    assert "Push on this device" not in section.text
    assert browser.address not in str(owner_client.get("/settings/").content)


def test_a_test_reaches_the_device(
    owner_client: Client, board: NoticeBoard, phone: FakeBrowser
) -> None:
    answer = owner_client.post(f"{DEVICES}/{get_device().pk}/test", follow=True)
    assert "A test was sent." in answer.content.decode()
    run_ready()
    ((_headers, message),) = board.pushed
    assert message["body"] == "Push messages reach this device."


def test_tests_are_limited(owner_client: Client, phone: FakeBrowser) -> None:
    address = f"{DEVICES}/{get_device().pk}/test"
    for _ in range(notifications.TESTS_PER_MINUTE):
        assert owner_client.post(address).status_code == 302
    answer = owner_client.post(address)
    assert answer.status_code == 429
    assert "Wait" in answer.content.decode()
    assert DBTaskResult.objects.count() == notifications.TESTS_PER_MINUTE


def test_turning_on_is_limited_because_it_looks_up_hosts(owner_client: Client) -> None:
    for _ in range(notifications.TESTS_PER_MINUTE):
        assert owner_client.post(DEVICES, {"subscription": "x"}).status_code == 422
    assert owner_client.post(DEVICES, {"subscription": "x"}).status_code == 429


def test_a_stranger_touches_no_device(stranger_client: Client, phone: FakeBrowser) -> None:
    for act in ("test", "remove"):
        assert stranger_client.post(f"{DEVICES}/{get_device().pk}/{act}").status_code == 404
    assert not DBTaskResult.objects.exists()


def test_a_device_is_turned_off(owner_client: Client, phone: FakeBrowser) -> None:
    address = f"{DEVICES}/{get_device().pk}/remove"
    assert owner_client.post(address).status_code == 302
    assert not PushDevice.objects.exists()
    assert owner_client.post(address).status_code == 404


def test_without_javascript_the_page_says_what_it_needs(owner_client: Client) -> None:
    answer = owner_client.post(DEVICES, {"subscription": ""})
    assert answer.status_code == 422
    section = parse(answer.content.decode()).one("section", id="notifications")
    assert "Notifications need JavaScript." in section.one("p", role="alert").text


def test_an_admin_of_the_server_switches_push_off(
    owner_client: Client, board: NoticeBoard, settings: Any
) -> None:
    settings.PUSH_NOTIFICATIONS = False
    section = read_section(owner_client)
    assert "switched off on this server" in section.text
    # What open pages show needs no push.
    (button,) = section.all("button")
    assert button["data-key"] == ""
    subscription = board.open_browser().subscription
    assert owner_client.post(DEVICES, {"subscription": subscription}).status_code == 404
    assert not PushKey.objects.exists()


def test_pages_of_a_browser_notify_its_person_only(owner: Member, owner_client: Client) -> None:
    def has_script(client: Client) -> bool:
        return "js/notify" in client.get("/usage/").content.decode()

    assert not has_script(owner_client)
    answer = owner_client.post(PAGES)
    assert answer["Location"] == "/settings/#notifications"
    assert has_script(owner_client)
    assert "Turn off" in read_section(owner_client).text
    # Another person at the same browser has not asked for them.
    other = signed_in(Member.objects.create_user("other"))
    other.cookies["notify"] = owner_client.cookies["notify"].value
    assert not has_script(other)
    owner_client.post(PAGES, {"off": "yes"})
    assert not has_script(owner_client)


def test_push_takes_the_place_of_the_notifications_of_pages(
    owner_client: Client, board: NoticeBoard
) -> None:
    owner_client.post(PAGES)
    assert "Push on this device" in read_section(owner_client).text
    subscription = board.open_browser().subscription
    owner_client.post(DEVICES, {"subscription": subscription})
    section = read_section(owner_client)
    assert "Push on since" in section.text
    assert "Notifications of open pages" not in section.text


def test_without_push_the_notifications_of_pages_have_the_choices(
    owner: Member, owner_client: Client, settings: Any
) -> None:
    settings.PUSH_NOTIFICATIONS = False
    owner_client.post(SAVE, {"hides_titles": "on"})
    assert NotificationPreference.of(owner).shows_titles  # nothing of this was on the page
    owner_client.post(PAGES)
    section = read_section(owner_client)
    assert [each.text for each in section.all("button")] == ["Save notifications", "Turn off"]
    assert "Open pages" in section.one("thead").text
    owner_client.post(SAVE, {"hides_titles": "on"})
    assert not NotificationPreference.of(owner).shows_titles


def test_without_push_and_javascript_the_page_says_what_it_needs(
    owner_client: Client, settings: Any
) -> None:
    settings.PUSH_NOTIFICATIONS = False
    answer = owner_client.post(DEVICES, {"subscription": ""})
    assert answer.status_code == 422
    assert "Notifications need JavaScript." in answer.content.decode()


def test_one_person_does_not_turn_off_the_notifications_of_another(owner_client: Client) -> None:
    owner_client.post(PAGES)
    other = signed_in(Member.objects.create_user("other"))
    other.cookies["notify"] = owner_client.cookies["notify"].value
    assert "notify" not in other.post(PAGES, {"off": "yes"}).cookies


def test_choices_are_saved_and_shown(owner: Member, owner_client: Client) -> None:
    owner_client.post(SAVE, {"pushes_answers": "on", "hides_titles": "on"})
    saved = NotificationPreference.of(owner)
    assert (saved.pushes_waiting, saved.pushes_answers, saved.shows_titles) == (False, True, False)
    boxes = {
        each["name"]: "checked" in each
        for each in read_section(owner_client).all("input")
        if "type" in each and each["type"] == "checkbox"
    }
    assert boxes == {"pushes_waiting": False, "pushes_answers": True, "hides_titles": True}
    # What the page did not show stays.
    assert saved.uses_webhooks


def test_mail_is_chosen_beside_push(owner: Member, owner_client: Client, settings: Any) -> None:
    settings.SENDS_MAIL = True
    owner_client.post(SAVE, {"mails_waiting": "on"})
    assert not reminders.is_on(owner)  # no address
    Member.objects.update(email="owner@chat.example")
    owner_client.post(SAVE, {"mails_waiting": "on"})
    assert reminders.is_on(owner)
    assert "owner@chat.example" in read_section(owner_client).text
    owner_client.post(SAVE, {})
    assert not reminders.is_on(owner)


def test_only_who_is_posted_about_may_opt_out(
    owner: Member, owner_client: Client, stranger_client: Client
) -> None:
    group = Group.objects.create(name="Operations")
    owner.groups.add(group)
    webhook = Webhook.objects.create(
        name="Ops channel", format="slack", host="x", audience=Webhook.Audience.CHOSEN
    )
    webhook.groups.add(group)
    assert "Ops channel" in read_section(owner_client).text
    assert "Team channels" not in read_section(stranger_client).text
    owner_client.post(SAVE, {})
    assert not NotificationPreference.of(owner).uses_webhooks


def test_the_page_costs_no_more_with_many_devices(
    owner: Member, owner_client: Client, board: NoticeBoard, django_assert_max_num_queries: Any
) -> None:
    owner_client.get("/settings/")
    for number in range(6):
        turn_on(board, owner, signed_in(owner), str(number))
    with django_assert_max_num_queries(25):
        owner_client.get("/settings/")
