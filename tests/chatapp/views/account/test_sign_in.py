"""The front door: passwords, one-time links, the first password, and who is turned away."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from html.parser import HTMLParser
from threading import Event, Lock
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.hashers import (
    UNUSABLE_PASSWORD_PREFIX,
    Argon2PasswordHasher,
    MD5PasswordHasher,
)
from django.db import connection
from django.test import Client
from django.utils import timezone

from chatapp import settings as django_settings
from chatapp.models import Member, SignInLink
from chatapp.people import password_hasher
from chatapp.people.password_hasher import InTurn, hashing_slot
from chatapp.people.sign_in_limits import COOKIE
from tests.conftest import signed_in

PASSWORD = "owner-password"
ELSEWHERE = [
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example/",
    "https:evil.example",
    "javascript:alert(1)",
    "/%0d%0aLocation: https://evil.example/\r\nX: y",
    "relative",
    "",
]


class Page(HTMLParser):
    """The fields, alerts and scripts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.inputs: dict[str, dict[str, str | None]] = {}
        self.ids: set[str | None] = set()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        self.ids.add(found.get("id"))
        if tag == "input":
            self.inputs[found.get("name") or ""] = found


def page(response: Any) -> Page:
    return Page(response.content.decode())


def post(client: Client, name: str = "owner", password: str = PASSWORD, **more: str) -> Any:
    return client.post("/sign-in/", {"username": name, "password": password, **more})


@pytest.fixture
def newcomer(db: Any) -> Member:
    """A member who has not chosen a password yet."""
    return Member.objects.create_user("newcomer")


def test_the_keyboard_begins_in_the_name_field(client: Client, db: Any) -> None:
    fields = page(client.get("/sign-in/")).inputs
    assert [name for name, found in fields.items() if "autofocus" in found] == ["username"]


def test_the_password_page_leads_back_unless_a_password_is_due(
    owner_client: Client, newcomer: Member
) -> None:
    def ways(client: Client) -> list[str | None]:
        return [found["href"] for tag, found in page(client.get("/password/")).tags if tag == "a"]

    first_time = Client()
    first_time.force_login(newcomer)
    assert ways(owner_client) == ["/"]
    assert ways(first_time) == []


def test_who_has_no_password_yet_gets_the_password_page_as_a_whole(newcomer: Member) -> None:
    client = signed_in(newcomer)
    answer = client.get("/", headers={"HX-Request": "true"})
    assert answer["HX-Redirect"] == "/password/"
    assert client.get("/")["Location"] == "/password/"


def test_the_right_password_signs_in_and_renews_the_session(client: Client, owner: Member) -> None:
    client.get("/sign-in/")
    client.session["kept"] = True
    client.session.save()
    before = client.session.session_key
    response = post(client)
    assert response.status_code == 302
    assert response["Location"] == "/"
    assert client.session["_auth_user_id"] == str(owner.pk)
    assert client.session.session_key != before


def test_an_unknown_name_and_a_wrong_password_get_the_same_answer(
    client: Client, owner: Member
) -> None:
    wrong = post(client, password="not this one")
    unknown = post(client, name="nobody", password="not this one")
    assert wrong.status_code == unknown.status_code == 422
    alerts = [error for response in (wrong, unknown) for error in response.context["form"].errors]
    assert alerts == ["__all__", "__all__"]
    assert wrong.context["form"].errors == unknown.context["form"].errors
    assert "_auth_user_id" not in client.session


def test_a_refused_form_keeps_the_name_and_never_the_password(
    client: Client, owner: Member
) -> None:
    inputs = page(post(client, password="not this one")).inputs
    assert inputs["username"]["value"] == "owner"
    assert "value" not in inputs["password"]


def test_an_empty_field_is_named_in_words_beside_it(client: Client, db: Any) -> None:
    response = client.post("/sign-in/", {"username": "", "password": ""})
    found = page(response)
    for name, sentence in (
        ("username", "Enter your username."),
        ("password", "Enter your password."),
    ):
        field = found.inputs[name]
        assert field["aria-invalid"] == "true"
        assert field["aria-describedby"] in found.ids
        assert sentence in response.content.decode()


@pytest.mark.parametrize("address", ELSEWHERE)
def test_signing_in_never_leads_to_another_site(
    client: Client, owner: Member, address: str
) -> None:
    assert post(client, next=address)["Location"] == "/"
    assert client.get("/sign-in/", {"next": address})["Location"] == "/"


def test_signing_in_leads_back_to_the_page_that_asked_for_it(client: Client, owner: Member) -> None:
    asked = client.get("/sign-in/", {"next": "/approvals/?a=1"})
    assert page(asked).inputs["next"]["value"] == "/approvals/?a=1"
    assert post(client, next="/approvals/?a=1")["Location"] == "/approvals/?a=1"


def test_a_switched_off_member_cannot_sign_in(client: Client, owner: Member) -> None:
    Member.objects.filter(pk=owner.pk).update(is_active=False)
    assert post(client).status_code == 422


def test_too_many_wrong_passwords_lock_the_name_with_a_page_in_words(
    client: Client, owner: Member, settings: Any
) -> None:
    settings.AXES_ENABLED = True
    settings.AXES_FAILURE_LIMIT = 3
    answers = [post(client, password="wrong").status_code for _ in range(3)]
    assert answers == [422, 422, 429]
    locked = post(client)
    assert locked.status_code == 429, "the right password must not open a locked name"
    assert "Wait a minute" in locked.content.decode()
    assert locked["Retry-After"] == "60"


@pytest.fixture
def limited(settings: Any) -> None:
    """Three failures for a name and five for an address, which is that of all clients here."""
    settings.AXES_ENABLED = True
    settings.AXES_FAILURE_LIMIT, settings.SIGN_IN_ADDRESS_FAILURE_LIMIT = 3, 5


def let_a_minute_pass() -> None:
    for attempt in AccessAttempt.objects.all():
        attempt.attempt_time -= timedelta(seconds=60)
        attempt.save()


def test_a_name_is_counted_whatever_its_case(owner: Member, limited: None) -> None:
    """A directory reads each of these as the same name."""
    names = ("owner", "Owner", "OWNER", "oWNER")
    answers = [post(Client(), name=name, password="wrong").status_code for name in names]
    assert answers == [422, 422, 429, 429]


def test_a_lock_is_over_after_a_minute_though_somebody_goes_on_guessing(
    client: Client, owner: Member, limited: None
) -> None:
    assert [post(Client(), password="wrong").status_code for _ in range(5)][2:] == [429] * 3
    let_a_minute_pass()
    assert post(client).status_code == 302


def test_a_browser_that_is_known_is_not_locked_by_a_stranger_at_its_address(
    client: Client, owner: Member, limited: None
) -> None:
    assert post(client).status_code == 302
    client.post("/sign-out/")
    for number in range(5):
        post(Client(), name="owner" if number % 2 else "nobody", password="wrong")
    assert post(Client()).status_code == 429
    assert post(client).status_code == 302


def test_a_known_browser_has_a_limit_of_its_own(
    client: Client, owner: Member, limited: None
) -> None:
    assert post(client).status_code == 302
    client.post("/sign-out/")
    answers = [post(client, password="wrong").status_code for _ in range(3)]
    assert answers == [422, 422, 429]
    assert post(client).status_code == 429
    assert post(Client()).status_code == 302, "the failures of this browser lock nobody else"


def test_a_browser_is_known_only_for_who_signed_in_there(
    client: Client, owner: Member, limited: None
) -> None:
    Member.objects.create_user("guest", password=PASSWORD)
    assert post(client, name="guest").status_code == 302
    client.post("/sign-out/")
    changed = client.cookies[COOKIE].value.replace(":", "0:", 1)
    for cookie in (client.cookies[COOKIE].value, changed):
        let_a_minute_pass()
        stranger = Client()
        stranger.cookies[COOKIE] = cookie
        for _ in range(3):
            post(stranger, password="wrong")
        assert post(Client()).status_code == 429, "these count as anybody's at this address"


def test_one_address_has_only_so_many_tries_for_all_names(
    client: Client, owner: Member, limited: None
) -> None:
    # Names that look like those of tokens in the counts are names, too.
    answers = [post(client, name=f" token {number}").status_code for number in range(6)]
    assert answers == [422] * 4 + [429] * 2
    assert post(client).status_code == 429
    elsewhere = Client(REMOTE_ADDR="192.0.2.9")
    assert post(elsewhere).status_code == 302


class CountingHasher(MD5PasswordHasher):
    """Counts how many passwords are hashed at once."""

    algorithm = "slow"
    lock, running, most = Lock(), 0, 0

    def encode(self, password: str, salt: str) -> str:
        kind = CountingHasher
        with self.lock:
            kind.running += 1
            kind.most = max(kind.most, kind.running)
        overlap.wait(0.05)
        with self.lock:
            kind.running -= 1
        return super().encode(password, salt)


class SlowHasher(InTurn, CountingHasher):
    pass


overlap = Event()  # never set: waiting for it lets other threads in


@pytest.mark.django_db(transaction=True)
def test_many_sign_ins_at_once_leave_cores_to_others(settings: Any) -> None:
    settings.PASSWORD_HASHERS = [f"{__name__}.SlowHasher"]
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: _try_unknown_name(), range(6)))
    assert answers == [422] * 6
    assert SlowHasher.most == max(1, (os.cpu_count() or 1) // 2)


def _try_unknown_name() -> int:
    try:
        return int(post(Client(), name="nobody", password="wrong").status_code)
    finally:
        connection.close()


@contextmanager
def all_slots_taken() -> Iterator[None]:
    with ExitStack() as slots:
        for _ in range(max(1, (os.cpu_count() or 1) // 2)):
            slots.enter_context(hashing_slot())
        yield


@pytest.fixture
def hashes(settings: Any, owner: Member, admin: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are hashed as in production, and nobody waits long for it."""
    settings.PASSWORD_HASHERS = django_settings.PASSWORD_HASHERS
    for person in (owner, admin):
        person.set_password(f"{person.username}-password")
        person.save()
    monkeypatch.setattr(password_hasher, "SLOT_WAIT_SECONDS", 0.01)


def test_when_too_many_sign_in_at_once_the_page_says_so(client: Client, hashes: None) -> None:
    with all_slots_taken():
        answer = post(client)
    assert answer.status_code == 503
    assert "Try again in a moment." in answer.content.decode()
    assert post(client).status_code == 302


def test_a_new_password_waits_for_its_turn_too(hashes: None, owner: Member) -> None:
    owner_client = signed_in(owner)
    chosen = "a long enough phrase"
    form = {"old_password": PASSWORD, "new_password1": chosen, "new_password2": chosen}
    with all_slots_taken():
        answer = owner_client.post("/password/", form)
    assert answer.status_code == 503
    assert "Try again in a moment." in answer.content.decode()
    assert owner_client.post("/password/", form).status_code == 302


@pytest.mark.parametrize("place", ["add/", "{owner}/password/", "password_change/"])
def test_a_password_form_of_the_admin_waits_for_its_turn_too(
    hashes: None, owner: Member, admin: Member, place: str
) -> None:
    admin_client, chosen = signed_in(admin), "a long enough phrase"
    form = {"username": "kim", "password": chosen, "usable_password": "true"}
    form |= {"password1": chosen, "password2": chosen, "old_password": "admin-password"}
    form |= {"new_password1": chosen, "new_password2": chosen}
    is_own = place == "password_change/"
    address = f"/admin/{'' if is_own else 'chatapp/member/'}{place.format(owner=owner.pk)}"
    confirmed = admin_client.post("/settings/confirm/", {"password": "admin-password"})
    assert confirmed.status_code == 302
    with all_slots_taken():
        answer = admin_client.post(address, form)
    assert answer.status_code == 503
    assert "Try again in a moment." in answer.content.decode()
    assert admin_client.post(address, form).status_code == 302


def test_a_hash_that_takes_all_cores_is_replaced_at_the_next_sign_in(
    client: Client, hashes: None, owner: Member
) -> None:
    owner.password = Argon2PasswordHasher().encode(PASSWORD, "salt" * 4)
    owner.save()
    assert "p=8" in owner.password
    assert post(client).status_code == 302
    owner.refresh_from_db()
    assert "p=1" in owner.password and owner.check_password(PASSWORD)


def test_looking_at_a_link_does_not_use_it_up(client: Client, newcomer: Member) -> None:
    address = f"/sign-in/{SignInLink.issue(newcomer)}/"
    for _ in range(3):
        shown = client.get(address)
        assert shown.status_code == 200
        assert "newcomer" in shown.content.decode()
    assert "_auth_user_id" not in client.session
    assert client.post(address).status_code == 302
    assert client.session["_auth_user_id"] == str(newcomer.pk)


def test_a_link_works_once(client: Client, newcomer: Member) -> None:
    address = f"/sign-in/{SignInLink.issue(newcomer)}/"
    client.post(address)
    for again in (Client().get(address), Client().post(address)):
        assert again.status_code == 410
        assert "Ask an admin for a new link." in again.content.decode()


def test_a_link_ends_after_a_day_and_with_the_next_one(client: Client, newcomer: Member) -> None:
    replaced = SignInLink.issue(newcomer)
    expired = SignInLink.issue(newcomer)
    assert client.post(f"/sign-in/{replaced}/").status_code == 410
    SignInLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert client.get(f"/sign-in/{expired}/").status_code == 410
    assert client.post(f"/sign-in/{expired}/").status_code == 410


def test_a_link_of_a_switched_off_member_does_not_work(client: Client, newcomer: Member) -> None:
    token = SignInLink.issue(newcomer)
    Member.objects.update(is_active=False)
    assert client.get(f"/sign-in/{token}/").status_code == 410
    assert client.post(f"/sign-in/{token}/").status_code == 410


def test_nothing_opens_before_the_first_password_is_set(client: Client, newcomer: Member) -> None:
    client.force_login(newcomer)
    for address in ("/", "/approvals/", "/admin/"):
        assert client.get(address)["Location"] == "/password/", address
    chosen = "a long enough phrase"
    fields = {"new_password1": chosen, "new_password2": chosen}
    assert client.post("/password/", fields)["Location"] == "/"
    newcomer.refresh_from_db()
    assert newcomer.check_password(chosen)
    assert client.session["_auth_user_id"] == str(newcomer.pk), "setting it must not sign out"
    assert client.get("/").status_code == 200


def test_a_weak_or_mistyped_password_is_refused_in_words(client: Client, newcomer: Member) -> None:
    client.force_login(newcomer)
    for first, second in (("12345", "12345"), ("a long phrase", "another phrase")):
        response = client.post("/password/", {"new_password1": first, "new_password2": second})
        assert response.status_code == 422
        assert page(response).inputs["new_password2"]["aria-invalid"] == "true"
    newcomer.refresh_from_db()
    assert newcomer.password.startswith(UNUSABLE_PASSWORD_PREFIX)


def test_a_new_password_needs_the_old_one(owner_client: Client, owner: Member) -> None:
    new = {"new_password1": "a long enough phrase", "new_password2": "a long enough phrase"}
    assert owner_client.post("/password/", new).status_code == 422
    wrong = owner_client.post("/password/", {**new, "old_password": "no"})
    assert wrong.status_code == 422
    assert owner_client.post("/password/", {**new, "old_password": PASSWORD}).status_code == 302


def test_signing_out_takes_a_post_and_ends_the_session(owner_client: Client) -> None:
    assert owner_client.get("/sign-out/").status_code == 405
    assert "_auth_user_id" in owner_client.session
    assert owner_client.post("/sign-out/")["Location"] == "/sign-in/"
    assert "_auth_user_id" not in owner_client.session


@pytest.mark.parametrize("address", ["/sign-in/", "/password/", "/sign-out/", "/sign-in/token/"])
def test_a_post_from_elsewhere_is_refused(owner: Member, address: str) -> None:
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(owner)
    assert careful.post(address, {"username": "owner", "password": PASSWORD}).status_code == 403


def test_the_door_is_never_cached_and_never_framed(client: Client, newcomer: Member) -> None:
    token = SignInLink.issue(newcomer)
    for address in ("/sign-in/", f"/sign-in/{token}/", "/sign-in/wrong/"):
        response = client.get(address)
        assert "no-store" in response["Cache-Control"], address
        assert response["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in response["Content-Security-Policy"]


def test_the_door_needs_no_inline_script_or_style(client: Client, newcomer: Member) -> None:
    token = SignInLink.issue(newcomer)
    for address in ("/sign-in/", f"/sign-in/{token}/", "/sign-in/wrong/"):
        for tag, attributes in page(client.get(address)).tags:
            assert tag != "style"
            # Data for a script is no script.
            is_data = attributes.get("type") == "application/json"
            assert tag != "script" or attributes.get("src") or is_data
            assert not [name for name in attributes if name == "style" or name.startswith("on")]


def test_the_admin_has_no_second_door(client: Client, owner: Member) -> None:
    sent = client.get("/admin/login/", {"next": "/admin/chatapp/"})
    assert sent["Location"] == "/sign-in/?next=/admin/chatapp/"
    assert client.post("/admin/login/", {"username": "owner", "password": PASSWORD})[
        "Location"
    ].startswith("/sign-in/")
    client.force_login(owner)
    assert client.get("/admin/login/").status_code == 403
