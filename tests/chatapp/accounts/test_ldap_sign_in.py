"""Sign-in with the names and passwords of a real directory, and attacks on it."""

import json
import logging
import socket
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth import authenticate
from django.contrib.auth.models import Group
from django.test import Client

from chatapp.management.diagnostics.sign_in import check_directory
from chatapp.models import LogEntry, Member
from chatapp.server.sign_in_providers import LDAP_BACKEND
from mcpconfig.values.lazy_module import LazyModule
from tests.conftest import make_recent, signed_in
from tests.peers.installing import Unavailable
from tests.peers.ldap_directory import (
    BASE,
    GROUPS,
    PEOPLE,
    Directory,
    extra_library,
    running_directory,
)

from .ldap_setting import configure
from .test_invitations import invite
from .test_provider_sign_in import find_person
from .test_second_factor import make_code, set_up_app

if TYPE_CHECKING:
    import ldap

    from chatapp.accounts import ldap_sign_in
else:
    ldap = LazyModule("ldap")
    ldap_sign_in = LazyModule("chatapp.accounts.ldap_sign_in")

pytestmark = [pytest.mark.long, pytest.mark.django_db]
Kind = LogEntry.Kind
WRONG = "The username or password is wrong. Try again."
FAILS = "Company can’t check passwords at the moment. Accounts of this server still work."
PASSWORD = "ada-password"


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    try:
        with extra_library(), running_directory(tmp_path_factory.mktemp("slapd")) as found:
            yield found
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(autouse=True)
def directory(slapd: Directory, settings: Any) -> Directory:
    """The directory with one person and her group, and the setting that leads there."""
    slapd.empty()
    slapd.add_person("ada", PASSWORD, givenName="Ada", sn="Lovelace")
    slapd.add_group("chat", "ada")
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, LDAP_BACKEND]
    point_at(settings, slapd)
    return slapd


def point_at(settings: Any, directory: Directory, server: Any = None, **more: Any) -> Any:
    found = {"addresses": (directory.plain,), **(server or {})}
    return configure(settings, found, **more)


def sign_in(client: Client, name: str, password: str, target: str = "") -> Any:
    fields = {"username": name, "password": password, "next": target}
    return client.post("/sign-in/", fields)


def come_in(name: str = "ada", password: str = PASSWORD) -> tuple[Client, Member]:
    """Sign in. Return the browser and its member."""
    client = Client()
    answer = sign_in(client, name, password)
    assert answer.status_code == 302, answer.content.decode()
    return client, Member.objects.get(pk=find_person(client) or "")


def assert_refused(client: Client, answer: Any, status: int, words: str) -> None:
    assert (answer.status_code, find_person(client)) == (status, None)
    assert words in answer.content.decode()


# --- coming in -----------------------------------------------------------------------------------
def test_a_first_sign_in_makes_an_account(
    client: Client, directory: Directory, settings: Any
) -> None:
    point_at(
        settings, directory, emails_are_verified=True, groups={"chat": "Chat", "staff": "Staff"}
    )
    answer = sign_in(client, "ada", PASSWORD, "/memory/")
    assert (answer.status_code, answer["Location"]) == (302, "/memory/"), answer.content.decode()
    member = Member.objects.get()
    assert (member.username, member.email) == ("ada", "ada@example.com")
    assert (member.display_name, member.has_usable_password()) == ("Ada Lovelace", False)
    assert not (member.is_staff or member.is_superuser)
    assert [each.name for each in member.groups.all()] == ["Chat"]
    assert client.get("/memory/").status_code == 200  # no password is asked for
    account = SocialAccount.objects.get()
    assert uuid.UUID(account.uid)
    assert account.extra_data["login"] == "ada"
    entries = LogEntry.objects.filter(kind=Kind.SIGNED_IN)
    assert [json.loads(each.data)["of"] for each in entries] == ["company"]
    assert LogEntry.objects.filter(kind=Kind.PROVIDER_ADDED).exists()


def test_a_name_with_other_letters_takes_nobody_elses(directory: Directory) -> None:
    directory.add_person("a. o'neill", givenName="Ada")
    assert come_in("a. o'neill", "a. o'neill-password")[1].username == "a._o_neill"
    assert come_in()[1].username == "ada"


def test_each_sign_in_takes_the_groups(directory: Directory, settings: Any) -> None:
    point_at(settings, directory, groups={"chat": "Chat", "staff": "Staff"})
    _client, member = come_in()
    member.groups.add(Group.objects.create(name="Own"))
    directory.delete(f"cn=chat,{GROUPS}")
    directory.add_group("staff", "ada")
    come_in()
    assert sorted(each.name for each in member.groups.all()) == ["Own", "Staff"]
    assert Member.objects.count() == 1


@pytest.mark.parametrize("kind", ["nestedGroupOfNames", "posixGroup"])
def test_groups_of_other_types_count(directory: Directory, settings: Any, kind: str) -> None:
    directory.add_posix_group("unix", "ada")
    directory.add_group("outer")
    server = {"group_type": kind}
    wanted = {"nestedGroupOfNames": "chat", "posixGroup": "unix"}[kind]
    point_at(settings, directory, server, required_groups=(wanted,))
    come_in()


def test_a_name_can_be_part_of_a_template(directory: Directory, settings: Any) -> None:
    """Without a name of its own, this server reads as the person."""
    server = {
        **{"user_base": "", "user_dn": f"uid=%(user)s,{PEOPLE}"},
        **{"bind_dn": "", "bind_password": "", "group_base": ""},
    }
    point_at(settings, directory, server)
    _client, member = come_in()
    assert member.username == "ada"


def test_the_second_factor_is_asked_for(client: Client) -> None:
    first, _member = come_in()
    secret = set_up_app(make_recent(first))
    answer = sign_in(client, "ada", PASSWORD)
    assert (answer["Location"], find_person(client)) == ("/sign-in/code/", None)
    client.post("/sign-in/code/", {"code": make_code(secret, 1)})
    assert find_person(client)


@pytest.mark.django_db(transaction=True)
def test_an_invitation_lets_somebody_in(
    admin_client: Client, client: Client, directory: Directory, settings: Any
) -> None:
    point_at(settings, directory, creates_accounts=False)
    address = invite(admin_client, email="ada@example.com")
    answer = sign_in(client, "ada", PASSWORD, address)
    assert answer["Location"] == address
    assert find_person(client)


# --- staying out ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "password", ["wrong", PASSWORD.upper(), f"{PASSWORD} ", " ", "\0", f"{PASSWORD}\0"]
)
def test_a_wrong_password_signs_nobody_in(client: Client, password: str) -> None:
    assert sign_in(client, "ada", password).status_code == 422
    assert find_person(client) is None
    assert not Member.objects.exists()


@pytest.mark.parametrize("password", ["", None, "\0", "\0ada"])
def test_an_empty_password_is_never_sent(
    rf: Any, password: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """This directory answers it with success. threat: `ldap-empty-password`"""
    caplog.set_level(logging.DEBUG, "django_auth_ldap")
    request = rf.post("/sign-in/")
    assert authenticate(request, username="ada", password=password) is None
    assert "Binding as" not in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        "*",
        "a*",
        "a)(uid=*",
        "ada)(objectClass=*",
        "x)(|(uid=ada)",
        "*)(uid=ada))(|(uid=*",
        "\\61da",
        "ada\0",
    ],
)
@pytest.mark.parametrize("by_template", [False, True])
def test_a_name_is_no_filter(
    client: Client, directory: Directory, settings: Any, name: str, by_template: bool
) -> None:
    """threat: `ldap-filter-injection`"""
    if by_template:
        server = {"user_base": "", "user_dn": f"uid=%(user)s,{PEOPLE}"}
        point_at(settings, directory, server)
    assert_refused(client, sign_in(client, name, PASSWORD), 422, "")
    assert not Member.objects.exists()


def test_a_name_does_not_leave_its_place(
    client: Client, directory: Directory, settings: Any
) -> None:
    """threat: `ldap-filter-injection`"""
    point_at(settings, directory, {"user_base": "", "user_dn": f"uid=%(user)s,{BASE}"})
    answer = sign_in(client, "ada,ou=people", PASSWORD)
    assert_refused(client, answer, 422, WRONG)


def test_two_entries_of_one_name_sign_nobody_in(
    client: Client, directory: Directory, settings: Any
) -> None:
    directory.add_person("grace", PASSWORD, mail="ada@example.com")
    point_at(settings, directory, {"user_filter": "(mail=%(user)s)"})
    assert_refused(client, sign_in(client, "ada@example.com", PASSWORD), 422, WRONG)


def test_no_account_is_made_where_the_setting_does_not_say_so(
    client: Client, directory: Directory, settings: Any
) -> None:
    point_at(settings, directory, creates_accounts=False)
    answer = sign_in(client, "ada", PASSWORD)
    assert_refused(client, answer, 403, "No account here is connected with this sign-in.")
    assert not Member.objects.exists()
    assert LogEntry.objects.get().kind == Kind.SIGN_IN_REFUSED


@pytest.mark.parametrize(
    ("limits", "comes_in"),
    [
        ({"required_groups": ("chat", "staff")}, True),
        ({"required_groups": ("staff",)}, False),
        ({"allowed_domains": ("example.com",), "emails_are_verified": True}, True),
        ({"allowed_domains": ("example.com",)}, False),
        ({"allowed_domains": ("example.org",), "emails_are_verified": True}, False),
    ],
)
def test_only_those_whom_the_setting_lets_in_come_in(
    client: Client, directory: Directory, settings: Any, limits: Any, comes_in: bool
) -> None:
    point_at(settings, directory, **limits)
    answer = sign_in(client, "ada", PASSWORD)
    if comes_in:
        assert find_person(client)
    else:
        assert_refused(client, answer, 403, "You are not signed in")
        assert not Member.objects.exists()


def test_a_deactivated_member_stays_out(client: Client) -> None:
    come_in()
    Member.objects.update(is_active=False)
    answer = client.get(sign_in(client, "ada", PASSWORD)["Location"])
    assert_refused(client, answer, 403, "Your account is deactivated")


# --- whose account -------------------------------------------------------------------------------
def test_an_equal_name_opens_no_account(client: Client) -> None:
    """threat: `ldap-account-by-name`"""
    local = Member.objects.create_user("Ada", password="local-password")
    answer = sign_in(client, "ada", PASSWORD)
    assert_refused(client, answer, 403, "No account here is connected with this sign-in.")
    assert (Member.objects.get(), SocialAccount.objects.count()) == (local, 0)
    assert sign_in(client, "Ada", "local-password").status_code == 302
    assert find_person(client) == str(local.pk)


def test_a_renamed_person_keeps_the_account(directory: Directory) -> None:
    _client, member = come_in()
    directory.rename("ada", "countess")
    assert come_in("countess")[1] == member
    assert SocialAccount.objects.get().extra_data["login"] == "countess"


def test_a_new_person_of_an_old_name_gets_no_old_account(
    client: Client, directory: Directory
) -> None:
    """threat: `ldap-account-by-name`"""
    come_in()
    directory.delete_person("ada")
    directory.add_person("ada", PASSWORD)
    answer = sign_in(client, "ada", PASSWORD)
    assert_refused(client, answer, 403, "No account here is connected with this sign-in.")
    assert Member.objects.count() == 1


def test_an_address_opens_only_the_account_that_the_setting_says(
    directory: Directory, settings: Any, client: Client
) -> None:
    member = Member.objects.create_user("lovelace", email="ada@example.com")
    point_at(settings, directory, emails_are_verified=True)
    answer = sign_in(client, "ada", PASSWORD)
    assert_refused(client, answer, 403, "No account here is connected with this sign-in.")
    point_at(settings, directory, emails_are_verified=True, links_by_email=True)
    assert come_in()[1] == member


def test_a_member_connects_their_account(owner: Member, client: Client) -> None:
    here = make_recent(signed_in(owner))
    wrong = here.post(
        "/settings/providers/connect/", {"username": "ada", "password": "owner-password"}
    )
    assert wrong.status_code == 422
    fields = {"username": "ada", "password": PASSWORD}
    answer = here.post("/settings/providers/connect/", fields)
    assert answer["Location"] == "/settings/#security"
    assert come_in()[1] == owner
    assert sign_in(client, "owner", "owner-password").status_code == 302


def test_a_member_connects_with_the_same_name_and_password(
    directory: Directory, settings: Any
) -> None:
    """The password of this server is right first, and the directory is asked all the same."""
    settings.AXES_ENABLED, settings.AXES_FAILURE_LIMIT = True, 2
    member = Member.objects.create_user("ada", password=PASSWORD)
    here = make_recent(signed_in(member))
    fields = {"username": "ada", "password": PASSWORD}
    answer = here.post("/settings/providers/connect/", fields)
    assert answer["Location"] == "/settings/#security"
    assert SocialAccount.objects.get().user == member
    # Passwords that are right here and not there are counted as guesses.
    directory.add_person("grace", "other-password")
    grace = Member.objects.create_user("grace", password="grace-password")
    here = make_recent(signed_in(grace))
    fields = {"username": "grace", "password": "grace-password"}
    statuses = [here.post("/settings/providers/connect/", fields).status_code for _ in range(3)]
    assert statuses == [422, 429, 429]


def test_the_entry_of_another_member_is_not_connected(owner: Member) -> None:
    _client, ada = come_in()
    fields = {"username": "ada", "password": PASSWORD}
    here = make_recent(signed_in(owner))
    answer = here.post("/settings/providers/connect/", fields)
    assert answer.status_code == 403
    assert "already connected to another account" in answer.content.decode()
    assert SocialAccount.objects.get().user == ada
    # A password of this server is right, and connects nothing.
    fields = {"username": "owner", "password": "owner-password"}
    assert here.post("/settings/providers/connect/", fields).status_code == 422


# --- confirming ----------------------------------------------------------------------------------
def test_a_member_confirms_by_the_password_of_the_directory(
    directory: Directory, settings: Any
) -> None:
    _client, member = come_in()
    # The name here may change; the one of the directory counts.
    Member.objects.update(username="countess")
    directory.add_person("countess", "other-password")
    client = signed_in(member)
    for wrong in ("other-password", "wrong", " "):
        assert client.post("/settings/confirm/", {"password": wrong}).status_code == 422
    answer = client.post("/settings/confirm/", {"password": PASSWORD, "next": "/memory/"})
    assert (answer.status_code, answer["Location"]) == (302, "/memory/")
    point_at(settings, directory, {"addresses": ("ldap://127.0.0.1:1",)})
    answer = signed_in(member).post("/settings/confirm/", {"password": PASSWORD})
    assert answer.status_code == 503
    assert FAILS in answer.content.decode()


# --- a directory that fails ----------------------------------------------------------------------
@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def find_address(listening: socket.socket, scheme: str = "ldap") -> str:
    return f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize(
    "fault", ["closed", "silent", "silent TLS", "silent StartTLS", "name", "certificate"]
)
def test_a_directory_that_fails_is_no_wrong_password(
    client: Client,
    directory: Directory,
    settings: Any,
    silent: socket.socket,
    fault: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults: dict[str, dict[str, Any]] = {
        "closed": {"addresses": ("ldap://127.0.0.1:1",)},
        "silent": {"addresses": (find_address(silent),)},
        "silent TLS": {"addresses": (find_address(silent, "ldaps"),)},
        "silent StartTLS": {"addresses": (find_address(silent),), "uses_start_tls": True},
        "name": {"bind_password": "wrong"},
        "certificate": {"addresses": (directory.secure,), "ca_file": __file__},
    }
    Member.objects.create_user("local", password="local-password")
    point_at(settings, directory, {"timeout_seconds": 1.0, **faults[fault]})
    assert_refused(client, sign_in(client, "ada", PASSWORD), 503, FAILS)
    assert PASSWORD not in caplog.text
    (finding,) = check_directory()
    assert finding.state == "wrong"
    assert sign_in(client, "local", "local-password").status_code == 302


def test_an_account_of_the_server_that_is_refused_is_no_wrong_password(
    client: Client, directory: Directory, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """With `user_dn`, the server signs in only after the password was right."""
    server = {"user_base": "", "user_dn": f"uid=%(user)s,{PEOPLE}", "bind_password": "wrong"}
    point_at(settings, directory, server)
    assert_refused(client, sign_in(client, "ada", PASSWORD), 503, FAILS)
    assert "INVALID_CREDENTIALS" in caplog.text
    assert_refused(client, sign_in(client, "ada", "wrong"), 422, WRONG)


def test_each_connection_is_closed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Any] = []
    kind = ldap.ldapobject.SimpleLDAPObject
    unbind = kind.unbind_s

    def note(connection: Any) -> None:
        closed.append(connection)
        unbind(connection)

    monkeypatch.setattr(kind, "unbind_s", note)
    sign_in(client, "ada", "wrong")
    come_in()
    assert len(closed) == 2


def test_the_next_address_is_tried(directory: Directory, settings: Any) -> None:
    point_at(settings, directory, {"addresses": ("ldap://127.0.0.1:1", directory.plain)})
    come_in()


def test_an_entry_without_an_id_signs_nobody_in(
    client: Client, directory: Directory, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    point_at(settings, directory, attributes={"uid": "employeeNumber"})
    assert_refused(client, sign_in(client, "ada", PASSWORD), 503, FAILS)
    assert "The entry has no readable id" in caplog.text
    directory.add_person("grace", employeeNumber="7", employeeType=["a", "b"])
    point_at(settings, directory, attributes={"uid": "employeeType"})
    assert_refused(client, sign_in(client, "grace", "grace-password"), 503, FAILS)
    point_at(settings, directory, attributes={"uid": "employeeNumber"})
    come_in("grace", "grace-password")
    assert SocialAccount.objects.get().uid == "7"


def test_guessing_is_counted(client: Client, settings: Any) -> None:
    settings.AXES_ENABLED = True
    for _ in range(settings.AXES_FAILURE_LIMIT):
        sign_in(client, "ada", "wrong")
    assert_refused(client, sign_in(client, "ada", PASSWORD), 429, "")


def test_guessing_is_counted_while_the_directory_fails(
    client: Client, directory: Directory, settings: Any
) -> None:
    """threat: `ldap-outage-uncounted`"""
    settings.AXES_ENABLED = True
    Member.objects.create_user("local", password="local-password")
    point_at(settings, directory, {"addresses": ("ldap://127.0.0.1:1",)})
    for _ in range(settings.AXES_FAILURE_LIMIT):
        sign_in(client, "local", "wrong")
    assert_refused(client, sign_in(client, "local", "local-password"), 429, "")


# --- encryption ----------------------------------------------------------------------------------
def test_encrypted_connections_work(directory: Directory, settings: Any) -> None:
    ca = {"ca_file": str(directory.certificate)}
    point_at(settings, directory, {**ca, "addresses": (directory.secure,)})
    _client, member = come_in()
    point_at(settings, directory, {**ca, "uses_start_tls": True})
    assert come_in()[1] == member
    (finding,) = check_directory()
    assert finding.state == "good"


@pytest.fixture
def lenient() -> Iterator[None]:
    """What the environment or /etc/ldap/ldap.conf may say for all programs."""
    before = ldap.get_option(ldap.OPT_X_TLS_REQUIRE_CERT)
    ldap.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_NEVER)
    yield
    ldap.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, before)


@pytest.mark.parametrize("fault", ["unknown signer", "unknown signer by StartTLS", "other name"])
def test_a_directory_that_is_another_one_gets_no_password(
    client: Client,
    directory: Directory,
    settings: Any,
    lenient: None,
    fault: str,
) -> None:
    """threat: `ldap-unencrypted`"""
    faults: dict[str, dict[str, Any]] = {
        "unknown signer": {"addresses": (directory.secure,)},
        "unknown signer by StartTLS": {"uses_start_tls": True},
        "other name": {
            "addresses": (directory.secure_by_another_name,),
            "ca_file": str(directory.certificate),
        },
    }
    point_at(settings, directory, faults[fault])
    assert_refused(client, sign_in(client, "ada", PASSWORD), 503, FAILS)


def test_a_directory_that_refuses_encryption_gets_no_password(
    client: Client,
    settings: Any,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """threat: `ldap-unencrypted`"""
    caplog.set_level(logging.DEBUG, "django_auth_ldap")
    with running_directory(tmp_path_factory.mktemp("plain"), has_tls=False) as plain:
        plain.add_person("ada", PASSWORD)
        point_at(settings, plain, {"uses_start_tls": True})
        assert_refused(client, sign_in(client, "ada", PASSWORD), 503, FAILS)
    assert "Initiating TLS" in caplog.text


def test_a_referral_leads_nowhere(
    directory: Directory, settings: Any, silent: socket.socket
) -> None:
    """A directory may name another server for some of its people."""
    directory.add_referral("elsewhere", f"{find_address(silent)}/{PEOPLE}")
    come_in()
    silent.setblocking(False)
    with pytest.raises(BlockingIOError):
        silent.accept()


# --- ids -----------------------------------------------------------------------------------------
def test_ids_of_active_directory_are_read_whatever_their_bytes() -> None:
    """django-auth-ldap gives bytes that are UTF-8 by chance as text."""
    binary = uuid.uuid4().bytes[:15] + b"\xff"
    assert ldap_sign_in._read_id("objectGUID", [binary]) == str(uuid.UUID(bytes_le=binary))
    text = "sixteen letters!"
    assert ldap_sign_in._read_id("objectguid", [text]) == str(uuid.UUID(bytes_le=text.encode()))
    for values in ([], [text, text], [b"short"]):
        with pytest.raises(ldap_sign_in.EntryError):
            ldap_sign_in._read_id("objectGUID", values)
