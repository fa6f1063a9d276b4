"""Sign-in by a provider, against a provider that signs real tokens, and attacks on it."""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client

from chatapp.accounts.openid import GitHubClient
from chatapp.models import LogEntry, Member
from chatapp.people.sign_in_links import make_first_sign_in_link
from chatapp.server.sign_in_providers import SignInProvider, build_allauth_settings
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.peers.openid_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    OTHER_KEY,
    OpenIDProvider,
    running_provider,
)

from .test_second_factor import make_code, set_up_app

PERSON = {
    "sub": "person-1",
    "email": "ada@example.com",
    "email_verified": True,
    "given_name": "Ada",
    "family_name": "Lovelace",
    "preferred_username": "ada",
    "groups": ["chat"],
}
Kind = LogEntry.Kind


@pytest.fixture
def provider() -> Iterator[OpenIDProvider]:
    with running_provider() as found:
        found.claims = dict(PERSON)
        yield found


def configure(settings: Any, provider: OpenIDProvider, **more: Any) -> None:
    configured = SignInProvider(
        **{
            "id": "company",
            "name": "Company",
            "kind": "oidc",
            "issuer": provider.issuer,
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "creates_accounts": True,
            **more,
        }
    )
    settings.SIGN_IN_PROVIDERS = (configured,)
    settings.SOCIALACCOUNT_PROVIDERS = build_allauth_settings((configured,))


def find_link(
    client: Client, address: str = "/sign-in/", text: str = "Sign in with Company"
) -> str:
    page = parse(client.get(address).content.decode())
    return next(each["href"] for each in page.all("a") if str(each.text).strip() == text)


def begin(client: Client, address: str = "/sign-in/", text: str = "Sign in with Company") -> str:
    """Press the button. Return the address at the provider."""
    answer = client.get(find_link(client, address, text))
    assert answer.status_code == 302, answer.content
    return str(answer["Location"])


def finish(client: Client, back: str) -> Any:
    parts = urlsplit(back)
    return client.get(f"{parts.path}?{parts.query}")


def sign_in(client: Client, provider: OpenIDProvider) -> Any:
    return finish(client, provider.authorize(begin(client)))


def find_person(client: Client) -> str | None:
    return client.session.get("_auth_user_id")


def assert_refused(client: Client, answer: Any, status: int = 403) -> None:
    assert answer.status_code == status
    assert find_person(client) is None
    assert "You are not signed in" in answer.content.decode()


# --- coming in -----------------------------------------------------------------------------------
def test_a_first_sign_in_makes_an_account(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    answer = sign_in(client, provider)
    assert answer.status_code == 302
    assert answer["Location"] == "/"
    member = Member.objects.get()
    assert (member.username, member.email, member.display_name) == (
        "ada",
        "ada@example.com",
        "Ada Lovelace",
    )
    assert not (member.is_staff or member.is_superuser or member.has_usable_password())
    assert client.get("/").status_code == 200  # no password is asked for
    kinds = set(LogEntry.objects.values_list("kind", flat=True))
    assert {Kind.PROVIDER_ADDED, Kind.SIGNED_IN} <= kinds


def test_state_nonce_and_pkce_are_sent(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    asked = parse_qs(urlsplit(begin(client)).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert all(len(asked[name][0]) >= 16 for name in ("state", "nonce", "code_challenge"))


def test_a_second_sign_in_finds_the_account(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    sign_in(client, provider)
    provider.claims["email"] = "other@example.com"
    again = Client()
    sign_in(again, provider)
    assert find_person(again) == find_person(client)
    assert Member.objects.count() == 1


def test_no_account_is_made_where_the_setting_does_not_say_so(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider, creates_accounts=False)
    assert_refused(client, sign_in(client, provider))
    assert not Member.objects.exists()
    assert LogEntry.objects.get().kind == Kind.SIGN_IN_REFUSED


@pytest.mark.parametrize(
    ("limits", "changes", "comes_in"),
    [
        ({"allowed_domains": ("example.com",)}, {}, True),
        ({"allowed_domains": ("example.com",)}, {"email": "ada@example.com.evil.test"}, False),
        ({"allowed_domains": ("example.com",)}, {"email": "ada@evil.test"}, False),
        ({"allowed_domains": ("example.com",)}, {"email_verified": False}, False),
        ({"allowed_domains": ("example.com",)}, {"email_verified": None}, False),
        ({"required_groups": ("chat",)}, {}, True),
        ({"required_groups": ("chat",)}, {"groups": ["chatter"]}, False),
        ({"required_groups": ("chat",)}, {"groups": {"chat": 1}}, False),
        ({"required_groups": ("chat",)}, {"groups": None}, False),
        ({"required_claims": {"hd": "example.com"}}, {"hd": "example.com"}, True),
        ({"required_claims": {"hd": "example.com"}}, {}, False),
    ],
)
def test_only_those_whom_the_setting_lets_in_come_in(
    db: Any,
    client: Client,
    settings: Any,
    provider: OpenIDProvider,
    limits: dict[str, Any],
    changes: dict[str, Any],
    comes_in: bool,
) -> None:
    configure(settings, provider, **limits)
    provider.claims.update(changes)
    answer = sign_in(client, provider)
    if comes_in:
        assert find_person(client)
    else:
        assert_refused(client, answer)
        assert not Member.objects.exists()


def test_a_deactivated_member_stays_out(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    sign_in(client, provider)
    Member.objects.update(is_active=False)
    again = Client()
    answer = again.get(sign_in(again, provider)["Location"])
    assert answer.status_code == 403
    assert "Your account is deactivated" in answer.content.decode()
    assert find_person(again) is None


def test_a_provider_does_not_replace_the_second_factor(
    ada: Member, settings: Any, provider: OpenIDProvider
) -> None:
    """Two providers may have the same client id; the session names the one that was used."""
    configure(settings, provider, links_by_email=True)
    other = dataclasses.replace(settings.SIGN_IN_PROVIDERS[0], id="other", name="Other")
    settings.SIGN_IN_PROVIDERS = (*settings.SIGN_IN_PROVIDERS, other)
    settings.SOCIALACCOUNT_PROVIDERS = build_allauth_settings(settings.SIGN_IN_PROVIDERS)
    mine = Client()
    mine.post("/sign-in/", {"username": "boss", "password": "boss-password"})
    secret = set_up_app(mine)
    half = Client()
    assert sign_in(half, provider)["Location"] == "/sign-in/code/"
    assert find_person(half) is None
    assert half.get("/sign-in/code/").status_code == 200
    assert half.post("/sign-in/code/", {"code": make_code(secret, 1)})["Location"] == "/"
    assert find_person(half) == str(ada.pk)
    assert LogEntry.objects.filter(kind=Kind.SIGNED_IN, data__contains="company").exists()


def test_github_signs_in(
    db: Any,
    client: Client,
    settings: Any,
    provider: OpenIDProvider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configure(settings, provider, kind="github", issuer="", allowed_domains=("example.com",))
    paths = {"authorize_url": "authorize", "access_token_url": "token"}
    paths |= {"profile_url": "user", "emails_url": "user/emails"}
    for name, path in paths.items():
        monkeypatch.setattr(GitHubClient, name, f"{provider.issuer}/{path}")
    provider.claims = {"id": 7, "login": "ada", "name": "Ada Lovelace", "email": "ada@evil.test"}
    provider.emails = [{"email": "ada@example.com", "primary": True, "verified": False}]
    assert_refused(client, sign_in(client, provider))
    provider.emails[0]["verified"] = True
    sign_in(client, provider)
    member = Member.objects.get(pk=find_person(client) or "")
    assert (member.username, member.email) == ("ada", "ada@example.com")


# --- existing accounts ---------------------------------------------------------------------------
@pytest.fixture
def ada(db: Any) -> Member:
    return Member.objects.create_superuser("boss", "ADA@example.com", "boss-password")


@pytest.mark.parametrize("verified", [True, False])
def test_an_address_alone_opens_no_account(
    ada: Member, client: Client, settings: Any, provider: OpenIDProvider, verified: bool
) -> None:
    configure(settings, provider)
    provider.claims["email_verified"] = verified
    answer = sign_in(client, provider)
    if verified:
        assert_refused(client, answer)
        assert Member.objects.count() == 1
    else:  # an own account, without the address
        assert find_person(client) not in (None, str(ada.pk))
        assert Member.objects.exclude(pk=ada.pk).get().email == ""


def test_a_trusted_provider_links_a_verified_address(
    ada: Member, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider, links_by_email=True)
    sign_in(client, provider)
    assert find_person(client) == str(ada.pk)
    ada.refresh_from_db()
    assert ada.has_usable_password()


@pytest.mark.parametrize(
    "change", [{"email_verified": False}, {"email_verified": "false"}, {"email_verified": None}]
)
def test_a_trusted_provider_does_not_link_an_unverified_address(
    ada: Member, client: Client, settings: Any, provider: OpenIDProvider, change: dict[str, Any]
) -> None:
    configure(settings, provider, links_by_email=True)
    provider.claims.update(change)
    sign_in(client, provider)
    assert find_person(client) != str(ada.pk)
    assert not SocialAccount.objects.filter(user=ada).exists()


def test_an_address_that_a_member_typed_catches_nobody(
    owner: Member, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider, links_by_email=True)
    attacker = Client()
    attacker.force_login(owner)
    attacker.post("/settings/profile", {"email": "ada@example.com"})
    sign_in(client, provider)
    assert find_person(client) not in (None, str(owner.pk))
    assert not SocialAccount.objects.filter(user=owner).exists()


@pytest.mark.parametrize("links_by_email", [True, False])
def test_an_address_that_a_member_typed_keeps_nobody_out(
    owner: Member, client: Client, settings: Any, provider: OpenIDProvider, links_by_email: bool
) -> None:
    configure(settings, provider, links_by_email=links_by_email)
    signed_in(owner).post("/settings/profile", {"email": "Ada@Example.com"})
    sign_in(client, provider)
    assert Member.objects.get(pk=find_person(client) or "").email == "ada@example.com"


def test_an_address_of_a_deactivated_member_stays_theirs(
    ada: Member, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider, links_by_email=True)
    Member.objects.update(is_active=False)
    assert_refused(client, sign_in(client, provider))
    assert Member.objects.count() == 1


def test_a_person_connects_a_provider_to_their_account(
    ada: Member, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider, creates_accounts=False)
    mine = Client()
    mine.post("/sign-in/", {"username": "boss", "password": "boss-password"})
    answer = finish(mine, provider.authorize(begin(mine, "/settings/", "Connect")))
    assert answer["Location"].startswith("/settings/")
    another = Client()
    sign_in(another, provider)
    assert find_person(another) == str(ada.pk)
    kinds = list(LogEntry.objects.values_list("kind", flat=True))
    assert kinds.count(Kind.PROVIDER_ADDED) == 1


def test_who_must_set_up_a_factor_connects_no_provider_before(
    ada: Member, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    settings.REQUIRE_TWO_FACTOR = "all"
    mine = Client()
    mine.post("/sign-in/", {"username": "boss", "password": "boss-password"})
    link = find_link(mine, "/sign-in/with/company/?connect=1", "Continue")
    assert "connect=1" in link
    assert mine.get(link)["Location"] == "/settings/second-factor/"
    assert not provider.asked


def test_connecting_needs_a_recent_sign_in(
    ada: Member, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    stale = Client()
    stale.force_login(ada)
    answer = stale.get(find_link(stale, "/settings/", "Connect"))
    assert answer["Location"].startswith("/settings/confirm/?next=")
    assert not SocialAccount.objects.exists()


def test_a_provider_account_belongs_to_one_member(
    ada: Member, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    provider.claims["email"] = "first@example.com"
    sign_in(client, provider)
    mine = Client()
    mine.post("/sign-in/", {"username": "boss", "password": "boss-password"})
    answer = finish(mine, provider.authorize(begin(mine, "/settings/", "Connect")))
    assert answer.status_code == 403
    assert not SocialAccount.objects.filter(user=ada).exists()


def test_the_last_way_in_is_not_disconnected(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    sign_in(client, provider)
    account = SocialAccount.objects.get()
    assert client.post(f"/settings/providers/{account.pk}/disconnect").status_code == 409
    assert SocialAccount.objects.exists()


def test_an_account_of_an_untrusted_provider_waits_for_nobody(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    """Somebody takes another person's address at a provider that anybody can join."""
    configure(settings, provider)
    anybody = settings.SIGN_IN_PROVIDERS[0]
    trusted = dataclasses.replace(anybody, id="trusted", name="Trusted", links_by_email=True)
    settings.SIGN_IN_PROVIDERS = (anybody, trusted)
    settings.SOCIALACCOUNT_PROVIDERS = build_allauth_settings(settings.SIGN_IN_PROVIDERS)
    sign_in(Client(), provider)
    provider.claims["sub"] = "the-real-ada"
    back = provider.authorize(begin(client, text="Sign in with Trusted"))
    assert_refused(client, finish(client, back))
    assert SocialAccount.objects.count() == 1


def test_people_of_a_trusted_provider_are_found_by_another_one(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider, links_by_email=True)
    other = dataclasses.replace(settings.SIGN_IN_PROVIDERS[0], id="other", name="Other")
    settings.SIGN_IN_PROVIDERS = (*settings.SIGN_IN_PROVIDERS, other)
    settings.SOCIALACCOUNT_PROVIDERS = build_allauth_settings(settings.SIGN_IN_PROVIDERS)
    sign_in(Client(), provider)
    finish(client, provider.authorize(begin(client, text="Sign in with Other")))
    assert find_person(client) == str(Member.objects.get().pk)


# --- confirming ----------------------------------------------------------------------------------
def make_stale(client: Client) -> Client:
    """Return a browser with a session of the same person that is not recent."""
    stale = Client()
    stale.force_login(Member.objects.get(pk=find_person(client) or ""))
    session = stale.session
    record = {"method": "socialaccount", "at": time.time() - 3_600, "provider": "company"}
    session["account_authentication_methods"] = [record]
    session["account_authentication_methods_user"] = find_person(client)
    session.save()
    return stale


def test_a_first_password_needs_a_recent_sign_in(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    sign_in(client, provider)
    stale = make_stale(client)
    new = {"new_password1": "of-the-thief-1234", "new_password2": "of-the-thief-1234"}
    for answer in (stale.get("/password/"), stale.post("/password/", new)):
        assert answer["Location"] == "/settings/confirm/?next=%2Fpassword%2F"
    assert not Member.objects.get().has_usable_password()
    assert "of-the-thief" not in str(dict(stale.session))
    link = find_link(stale, "/settings/confirm/?next=/password/", "Sign in again with Company")
    assert (
        finish(stale, provider.authorize(stale.get(link)["Location"]))["Location"] == "/password/"
    )
    assert stale.post("/password/", new).status_code == 302
    assert Member.objects.get().has_usable_password()


def confirm(client: Client, provider: OpenIDProvider) -> Any:
    """Confirm by the provider in a browser whose sign-in is old."""
    stale = make_stale(client)
    link = find_link(stale, "/settings/confirm/?next=/memory/", "Sign in again with Company")
    answer = finish(stale, provider.authorize(stale.get(link)["Location"]))
    return stale, answer


@pytest.mark.parametrize(
    ("auth_time", "confirms"),
    [(lambda: time.time(), True), (lambda: None, True), (lambda: time.time() - 600, False)],
)
def test_a_provider_that_confirms_must_ask_again(
    db: Any,
    client: Client,
    settings: Any,
    provider: OpenIDProvider,
    auth_time: Any,
    confirms: bool,
) -> None:
    configure(settings, provider)
    sign_in(client, provider)
    assert "prompt" not in provider.asked[-1]
    provider.token_changes["auth_time"] = auth_time()
    stale, answer = confirm(client, provider)
    asked = provider.asked[-1]
    assert (asked["prompt"], asked["max_age"]) == ("login", "0")
    assert answer.status_code == (302 if confirms else 403)
    assert (stale.post("/settings/data").status_code == 200) is confirms


@pytest.mark.parametrize("text", ["yesterday", True, [1]])
def test_an_unreadable_time_of_the_sign_in_confirms_nothing(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider, text: Any
) -> None:
    configure(settings, provider)
    sign_in(client, provider)
    provider.token_changes["auth_time"] = text
    _stale, answer = confirm(client, provider)
    assert answer.status_code == 403


def test_an_old_sign_in_at_the_provider_signs_in_here(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    provider.token_changes["auth_time"] = time.time() - 7_200
    sign_in(client, provider)
    assert find_person(client)


def test_somebody_else_at_the_provider_confirms_nothing(
    ada: Member, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    """Otherwise the browser would go on in the account of that other person."""
    configure(settings, provider)
    provider.claims["email"] = "first@example.com"
    sign_in(client, provider)
    provider.claims |= {"sub": "person-2", "email": "second@example.com"}
    stale, answer = confirm(client, provider)
    assert answer.status_code == 403
    assert "as somebody else" in answer.content.decode()
    assert find_person(stale) == find_person(client)
    assert Member.objects.count() == 2


def test_only_a_connected_provider_confirms(
    ada: Member, settings: Any, provider: OpenIDProvider
) -> None:
    """Another one would make a new account, or sign somebody else in."""
    configure(settings, provider)
    mine = Client()
    mine.post("/sign-in/", {"username": "boss", "password": "boss-password"})
    assert "Sign in again with" not in mine.get("/settings/confirm/").content.decode()
    finish(mine, provider.authorize(begin(mine, "/settings/", "Connect")))
    assert "Sign in again with Company" in mine.get("/settings/confirm/").content.decode()


# --- groups --------------------------------------------------------------------------------------
def test_groups_follow_the_claim_at_each_sign_in(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    mapping = {"chat": "Chat", "ops": "Operators"}
    configure(settings, provider, groups=mapping)
    provider.claims["groups"] = ["chat", "ops", "unknown"]
    sign_in(client, provider)
    member = Member.objects.get()
    member.groups.add(Group.objects.create(name="Own"))
    provider.claims["groups"] = ["chat"]
    sign_in(Client(), provider)
    assert set(member.groups.values_list("name", flat=True)) == {"Chat", "Own"}
    provider.claims["groups"] = None
    sign_in(Client(), provider)
    assert set(member.groups.values_list("name", flat=True)) == {"Own"}
    changes = LogEntry.objects.filter(kind=Kind.MEMBER, data__contains="Operators")
    assert {entry.actor_name for entry in changes} == {"Company"}


def test_no_claim_makes_an_admin(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider, groups={"chat": "Admins"})
    provider.claims |= {"is_superuser": True, "is_staff": True, "roles": ["admin"]}
    sign_in(client, provider)
    member = Member.objects.get()
    assert not (member.is_staff or member.is_superuser)


# --- attacks -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "change",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another-client"},
        {"aud": [CLIENT_ID, "another"], "azp": "another"},
        {"iss": "https://evil.test"},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"sub": "somebody-else"},
    ],
)
def test_a_wrong_token_signs_nobody_in(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider, change: dict[str, Any]
) -> None:
    configure(settings, provider)
    provider.token_changes = change
    assert_refused(client, sign_in(client, provider))
    assert not Member.objects.exists()


@pytest.mark.parametrize(
    ("key", "algorithm"), [(OTHER_KEY, "RS256"), ("a-shared-secret" * 4, "HS256"), (None, "none")]
)
def test_a_token_of_another_signer_signs_nobody_in(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider, key: Any, algorithm: str
) -> None:
    configure(settings, provider)
    provider.signs_with, provider.algorithm = key, algorithm
    assert_refused(client, sign_in(client, provider))


def test_a_wrong_state_signs_nobody_in(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    back = provider.authorize(begin(client))
    assert_refused(client, finish(client, back.replace("state=", "state=x")))


def test_an_answer_to_another_browser_signs_nobody_in(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    back = provider.authorize(begin(Client()))
    assert_refused(client, finish(client, back))


def test_an_answer_works_once(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    back = provider.authorize(begin(client))
    assert finish(client, back).status_code == 302
    client.post("/sign-out/")
    assert_refused(client, finish(client, back))


def test_a_stolen_code_is_of_no_use_in_another_request(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    """The verifier of PKCE belongs to the request of the victim."""
    configure(settings, provider)
    victim = parse_qs(urlsplit(provider.authorize(begin(Client()))).query)
    own = urlsplit(provider.authorize(begin(client)))
    state = parse_qs(own.query)["state"][0]
    answer = client.get(own.path, {"state": state, "code": victim["code"][0]})
    assert_refused(client, answer)


@pytest.mark.parametrize(
    "target", ["https://evil.test/", "//evil.test/", "/\\evil.test", "javascript:alert(1)"]
)
def test_nobody_is_sent_to_another_site(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider, target: str
) -> None:
    configure(settings, provider)
    link = find_link(client, f"/sign-in/?next={target}")
    back = provider.authorize(client.get(f"{link}&next={target}")["Location"])
    assert finish(client, back)["Location"] == "/"


def test_the_page_that_was_asked_for_is_opened(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    back = provider.authorize(begin(client, "/sign-in/?next=/memory/"))
    assert finish(client, back)["Location"] == "/memory/"


def test_another_site_cannot_start_a_sign_in(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    client.get("/sign-in/")
    answer = client.get("/sign-in/with/company/?start=guess")
    assert answer.status_code == 200
    assert not provider.asked
    link = next(each["href"] for each in parse(answer.content.decode()).all("a"))
    assert client.get(link).status_code == 302


def test_parameters_of_the_link_do_not_reach_the_provider(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    link = find_link(client)
    sent = client.get(f"{link}&scope=admin&auth_params=prompt%3Dnone%26nonce%3Dmine")["Location"]
    asked = parse_qs(urlsplit(sent).query)
    assert "admin" not in asked["scope"][0].split()
    assert "prompt" not in asked
    assert asked["nonce"] != ["mine"]


def test_the_session_key_changes_at_the_sign_in(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    back = provider.authorize(begin(client))
    before = client.session.session_key
    finish(client, back)
    assert client.session.session_key != before


# --- trouble -------------------------------------------------------------------------------------
def test_a_person_who_cancels_gets_a_sentence(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    provider.error = "access_denied"
    answer = sign_in(client, provider)
    assert_refused(client, answer)
    assert "You cancelled the sign-in" in answer.content.decode()


def test_a_provider_that_is_down_gets_a_sentence(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    link = find_link(client)
    back = provider.authorize(client.get(link)["Location"])
    provider.is_down = True
    assert_refused(client, client.get(link), 502)
    assert_refused(client, finish(client, back), 502)


def test_too_long_a_claim_gets_a_sentence(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    """SQLite would store it, PostgreSQL refuses it."""
    configure(settings, provider)
    provider.claims["sub"] = "x" * 255
    if connection.vendor == "postgresql":
        assert_refused(client, sign_in(client, provider), 502)


def test_a_signed_in_person_is_not_told_that_they_are_not(
    ada: Member, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    mine = Client()
    mine.post("/sign-in/", {"username": "boss", "password": "boss-password"})
    provider.error = "access_denied"
    answer = finish(mine, provider.authorize(begin(mine, "/settings/", "Connect")))
    assert answer.status_code == 403
    assert "You are not signed in" not in answer.content.decode()
    assert "Back to settings" in answer.content.decode()


def test_a_provider_that_drips_is_given_up(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    settings.PROVIDER_SECONDS = 0.5
    provider.byte_seconds = 0.05  # far longer in all, but never silent
    assert_refused(client, client.get(find_link(client)), 502)
    assert not provider.was_read_to_its_end


def test_a_description_of_another_issuer_is_refused(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider, issuer=provider.issuer.replace("127.0.0.1", "localhost"))
    assert_refused(client, client.get(find_link(client)), 502)


def test_passwords_can_be_switched_off(
    owner: Member, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    settings.PASSWORD_SIGN_IN = False
    answer = client.post("/sign-in/", {"username": "owner", "password": "owner-password"})
    assert answer.status_code == 422
    assert find_person(client) is None
    assert "Passwords are switched off" in answer.content.decode()
    sign_in(client, provider)
    assert client.get("/").status_code == 200


def test_no_first_link_is_made_once_an_admin_comes_by_a_provider(
    db: Any, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider)
    settings.PASSWORD_SIGN_IN = False
    sign_in(client, provider)
    assert make_first_sign_in_link()  # a member alone can set up nothing
    Member.objects.filter(username="ada").update(is_superuser=True)
    assert make_first_sign_in_link() is None
