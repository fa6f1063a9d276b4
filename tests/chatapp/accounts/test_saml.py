"""Sign-in by SAML, with really signed responses, and attacks on it."""

import base64
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.test import Client

from chatapp.models import LogEntry, Member
from chatapp.server import sign_in_providers
from chatapp.server.sign_in_providers import SignInProvider, build_allauth_settings
from tests.peers.saml_provider import (
    CERTIFICATE,
    ISSUER,
    OTHER_CERTIFICATE,
    OTHER_KEY,
    SSO_URL,
    TRANSIENT,
    SAMLProvider,
)

from .test_provider_sign_in import (
    assert_refused,
    begin,
    find_link,
    find_person,
    make_stale,
)
from .test_second_factor import make_code, set_up_app

pytestmark = pytest.mark.django_db
ACS = "/sign-in/with/company/saml/"


@pytest.fixture
def provider() -> SAMLProvider:
    return SAMLProvider()


@pytest.fixture(autouse=True)
def configured(settings: Any) -> None:
    configure(settings)


def configure(settings: Any, **more: Any) -> None:
    found = SignInProvider(
        **{
            "id": "company",
            "name": "Company",
            "kind": "saml",
            "issuer": ISSUER,
            "sso_url": SSO_URL,
            "certificates": sign_in_providers._read_certificates({"certificate": CERTIFICATE}),
            "creates_accounts": True,
            "emails_are_verified": True,
            **more,
        }
    )
    settings.SIGN_IN_PROVIDERS = (found,)
    settings.SOCIALACCOUNT_PROVIDERS = build_allauth_settings((found,))


def post(client: Client, response: str) -> Any:
    """What the provider's page makes the browser do: it posts without our cookies, and the redirect
    has them."""
    elsewhere = Client(enforce_csrf_checks=True)
    headers = {"Origin": "https://id.example.com", "Sec-Fetch-Site": "cross-site"}
    answer = elsewhere.post(ACS, {"SAMLResponse": response}, headers=headers)
    if answer.status_code != 302:
        return answer
    client.cookies["saml-response"] = answer.cookies["saml-response"].value
    return client.get(answer["Location"])


def sign_in(client: Client, provider: SAMLProvider) -> Any:
    return post(client, provider.answer(begin(client)))


def test_a_first_sign_in_makes_an_account(client: Client, provider: SAMLProvider) -> None:
    answer = sign_in(client, provider)
    assert (answer.status_code, answer["Location"]) == (302, "/"), answer.content
    member = Member.objects.get()
    assert (member.email, member.display_name) == ("ada@example.com", "Ada Lovelace")
    assert not (member.is_staff or member.has_usable_password())
    assert find_person(client) == str(member.pk)
    assert SocialAccount.objects.get().uid == "person-1"
    assert LogEntry.objects.filter(kind=LogEntry.Kind.PROVIDER_ADDED).exists()


def test_a_second_sign_in_finds_the_account(provider: SAMLProvider) -> None:
    sign_in(Client(), provider)
    provider.attributes["email"] = ["other@example.com"]
    sign_in(Client(), provider)
    assert Member.objects.count() == 1


def test_the_page_that_was_asked_for_is_opened(client: Client, provider: SAMLProvider) -> None:
    answer = post(client, provider.answer(begin(client, "/sign-in/?next=/memory/")))
    assert answer["Location"] == "/memory/"


def test_the_second_factor_is_asked_for(client: Client, provider: SAMLProvider) -> None:
    sign_in(client, provider)
    secret = set_up_app(client)
    again = Client()
    assert sign_in(again, provider)["Location"].startswith("/sign-in/code/")
    assert find_person(again) is None
    again.post("/sign-in/code/", {"code": make_code(secret, 1)})
    assert find_person(again) == find_person(client)


# --- admission -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("limits", "comes_in"),
    [
        ({"allowed_domains": ("example.com",)}, True),
        ({"allowed_domains": ("example.org",)}, False),
        ({"allowed_domains": ("example.com",), "emails_are_verified": False}, False),
        ({"required_groups": ("staff",)}, True),
        ({"required_groups": ("boss",)}, False),
        ({"required_claims": {"sn": "Lovelace"}}, True),
        ({"required_claims": {"sn": "King"}}, False),
        ({"creates_accounts": False}, False),
    ],
)
def test_only_those_whom_the_setting_lets_in_come_in(
    client: Client, settings: Any, provider: SAMLProvider, limits: dict[str, Any], comes_in: bool
) -> None:
    configure(settings, **limits)
    answer = sign_in(client, provider)
    if comes_in:
        assert find_person(client)
    else:
        assert_refused(client, answer)
        assert not Member.objects.exists()


def test_a_trusted_provider_links_a_verified_address(
    client: Client, settings: Any, provider: SAMLProvider
) -> None:
    ada = Member.objects.create_user("boss", "ada@example.com", "boss-password")
    assert_refused(client, sign_in(client, provider))
    configure(settings, links_by_email=True, emails_are_verified=False)
    sign_in(client, provider)
    assert find_person(client) != str(ada.pk)
    configure(settings, links_by_email=True)
    SocialAccount.objects.all().delete()
    linked = Client()
    sign_in(linked, provider)
    assert find_person(linked) == str(ada.pk)


def test_groups_follow_the_attribute_and_no_attribute_makes_an_admin(
    client: Client, settings: Any, provider: SAMLProvider
) -> None:
    configure(settings, groups={"staff": "Approvers"})
    provider.attributes |= {"is_superuser": ["true"], "is_staff": ["true"]}
    sign_in(client, provider)
    member = Member.objects.get()
    assert member.groups.get().name == "Approvers"
    assert not (member.is_superuser or member.is_staff)
    provider.attributes["groups"] = ["chat"]
    sign_in(Client(), provider)
    assert not member.groups.exists()
    assert Group.objects.exists()


def test_attributes_have_the_names_that_the_setting_gives(
    client: Client, settings: Any, provider: SAMLProvider
) -> None:
    configure(settings, attributes={"email": "work", "uid": "number"})
    provider.attributes |= {"work": ["work@example.com"], "number": ["1815"]}
    sign_in(client, provider)
    assert Member.objects.get().email == "work@example.com"
    assert SocialAccount.objects.get().uid == "1815"


# --- attacks -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "changes",
    [
        {"key": OTHER_KEY, "certificate": OTHER_CERTIFICATE},
        {"is_signed": False},
        {"issuer": "urn:evil"},
        {"audience": "https://other.example.com/"},
        {"recipient": "https://other.example.com/acs"},
        {"issued_at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"issued_at": datetime.now(UTC) + timedelta(days=2)},
        {"status": "urn:oasis:names:tc:SAML:2.0:status:Responder"},
    ],
)
def test_a_wrong_response_signs_nobody_in_and_is_not_held(
    client: Client, provider: SAMLProvider, changes: dict[str, Any]
) -> None:
    address = begin(client)
    sessions = Session.objects.count()
    for name, value in changes.items():
        setattr(provider, name, value)
    answer = Client().post(ACS, {"SAMLResponse": provider.answer(address)})
    assert_refused(client, answer)
    assert Session.objects.count() == sessions and not answer.cookies
    assert not Member.objects.exists()


def test_a_changed_response_signs_nobody_in(client: Client, provider: SAMLProvider) -> None:
    response = base64.b64decode(provider.answer(begin(client))).decode()
    changed = response.replace("person-1", "person-2").replace("ada@", "eve@")
    assert changed != response
    assert_refused(client, post(client, base64.b64encode(changed.encode()).decode()))


def test_a_second_assertion_is_refused(client: Client, provider: SAMLProvider) -> None:
    """Signature wrapping: an unsigned assertion before the signed one."""
    response = base64.b64decode(provider.answer(begin(client))).decode()
    start, end = response.index("<saml:Assertion"), response.index("</samlp:Response>")
    forged = response[start:end].replace("person-1", "boss").replace("_assertion", "_forged")
    wrapped = response[:start] + forged + response[start:]
    assert_refused(client, post(client, base64.b64encode(wrapped.encode()).decode()))


def test_a_response_works_once(client: Client, provider: SAMLProvider) -> None:
    response = provider.answer(begin(client))
    assert post(client, response).status_code == 302
    client.post("/sign-out/")
    assert find_person(client) is None
    assert_refused(client, post(client, response))


def test_a_response_to_another_browser_signs_nobody_in(
    client: Client, provider: SAMLProvider
) -> None:
    response = provider.answer(begin(Client()))
    begin(client)
    assert_refused(client, post(client, response))


def test_a_response_to_no_request_signs_nobody_in(client: Client, provider: SAMLProvider) -> None:
    begin(client)
    response = provider.write("", provider_address(client))
    assert_refused(client, post(client, response))


@pytest.mark.parametrize("signs_assertion", [False, True])
@pytest.mark.parametrize("left_out", ["names_request", "names_recipient", "names_audience"])
def test_an_assertion_that_does_not_say_for_whom_it_is_signs_nobody_in(
    client: Client, provider: SAMLProvider, left_out: str, signs_assertion: bool
) -> None:
    """The signature need not cover the response: who gets hold of an assertion could write a
    response around it that answers their own request."""
    provider.signs_assertion = signs_assertion
    setattr(provider, left_out, False)
    assert_refused(client, sign_in(client, provider))
    assert not Member.objects.exists()


def test_an_assertion_works_once_whatever_response_is_around_it(provider: SAMLProvider) -> None:
    provider.signs_assertion = True
    first = Client()
    taken = base64.b64decode(provider.answer(begin(first))).decode()
    assert post(first, base64.b64encode(taken.encode()).decode()).status_code == 302
    second = Client()
    own = base64.b64decode(provider.answer(begin(second))).decode()
    own_id, taken_id = provider.asked[-1]["ID"], provider.asked[-2]["ID"]
    start = taken.index("<saml:Assertion")
    around = taken[:start].replace(taken_id, own_id)
    forged = around + taken[start:]
    assert own_id in own and forged != taken
    assert_refused(second, post(second, base64.b64encode(forged.encode()).decode()))


@pytest.mark.parametrize(
    "address", ["https://evil.example.com/?{own}", "{own}other/", "{own}?to=other"]
)
def test_an_address_that_contains_ours_is_another_one(
    client: Client, provider: SAMLProvider, address: str
) -> None:
    provider.audience = f"{provider_address(Client())}metadata/"
    provider.recipient = address.format(own=provider_address(Client()))
    provider.signs_assertion = True
    response = base64.b64decode(provider.answer(begin(client))).decode()
    start = response.index("<saml:Assertion")
    around = response[:start].replace(provider.recipient, provider_address(Client()))
    mended = base64.b64encode((around + response[start:]).encode()).decode()
    assert_refused(client, post(client, mended))


def test_comments_do_not_cut_who_the_person_is(client: Client, provider: SAMLProvider) -> None:
    """A signature does not cover comments, and a reader may stop at one."""
    provider.name_id = "person-1.evil"
    provider.attributes["email"] = ["ada@example.com.evil.example"]
    response = base64.b64decode(provider.answer(begin(client))).decode()
    for whole, cut in (
        ("person-1.evil", "person-1<!-- -->.evil"),
        ("ada@example.com.evil.example", "ada@example.com<!-- -->.evil.example"),
    ):
        response = response.replace(whole, cut)
    assert response.count("<!-- -->") == 2
    assert post(client, base64.b64encode(response.encode()).decode()).status_code == 302
    assert Member.objects.get().email == "ada@example.com.evil.example"
    assert SocialAccount.objects.get().uid == "person-1.evil"


@pytest.mark.parametrize("signs_assertion", [False, True])
def test_an_own_address_in_the_post_is_not_followed(
    client: Client, provider: SAMLProvider, signs_assertion: bool
) -> None:
    """RelayState is what the provider sends back. The page to open is in the session."""
    provider.signs_assertion = signs_assertion
    fields = {
        "SAMLResponse": provider.answer(begin(client)),
        "RelayState": "https://evil.example.com/",
    }
    answer = Client().post(ACS, fields)
    assert answer["Location"] == f"{ACS}finish/"
    client.cookies["saml-response"] = answer.cookies["saml-response"].value
    assert client.get(answer["Location"])["Location"] == "/"


def provider_address(client: Client) -> str:
    """The address to which the provider answers."""
    found = SAMLProvider()
    found.answer(begin(client))
    return found.asked[-1]["AssertionConsumerServiceURL"]


def test_an_id_of_one_session_makes_no_account(client: Client, provider: SAMLProvider) -> None:
    provider.name_id_format = TRANSIENT
    assert_refused(client, sign_in(client, provider))
    assert not Member.objects.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!",
        "A" * 200_001,
        base64.b64encode(b"<a").decode(),
        base64.b64encode(b"<a/>").decode(),
        base64.b64encode(
            b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r>&x;</r>'
        ).decode(),
    ],
)
def test_what_is_no_response_gets_a_sentence(client: Client, text: str) -> None:
    assert_refused(client, post(client, text))


def test_finishing_without_a_response_gets_a_sentence(client: Client) -> None:
    assert_refused(client, client.get(f"{ACS}finish/"))
    assert client.get(ACS).status_code == 405
    assert client.get("/sign-in/with/company/callback/").status_code == 404


# --- connecting and confirming ----------------------------------------------------------------
def test_a_person_connects_the_provider(provider: SAMLProvider) -> None:
    ada = Member.objects.create_user("boss", password="boss-password")
    mine = Client()
    mine.post("/sign-in/", {"username": "boss", "password": "boss-password"})
    answer = post(mine, provider.answer(begin(mine, "/settings/", "Connect")))
    assert answer["Location"].startswith("/settings/")
    assert SocialAccount.objects.get().user == ada


@pytest.mark.parametrize(("age_seconds", "confirms"), [(0, True), (600, False)])
def test_a_provider_that_confirms_must_ask_again(
    client: Client, provider: SAMLProvider, age_seconds: int, confirms: bool
) -> None:
    sign_in(client, provider)
    assert "ForceAuthn" not in provider.asked[-1]
    stale = make_stale(client)
    link = find_link(stale, "/settings/confirm/?next=/memory/", "Sign in again with Company")
    provider.signed_in_at = datetime.now(UTC) - timedelta(seconds=age_seconds)
    answer = post(stale, provider.answer(stale.get(link)["Location"]))
    assert provider.asked[-1]["ForceAuthn"] == "true"
    assert answer.status_code == (302 if confirms else 403)
    assert (stale.post("/settings/data").status_code == 200) is confirms


# --- the service ---------------------------------------------------------------------------
def test_the_provider_reads_what_this_server_is(client: Client, provider: SAMLProvider) -> None:
    answer = client.get(f"{ACS}metadata/")
    assert answer.status_code == 200
    assert f"{ACS}" in answer.content.decode()
    address = begin(client)
    assert address.startswith(f"{SSO_URL}?SAMLRequest=")
    assert "SAMLRequest" in parse_qs(urlsplit(address).query)


def test_unknown_providers_have_no_addresses(client: Client, settings: Any) -> None:
    settings.SIGN_IN_PROVIDERS = ()
    assert client.post(ACS).status_code == 404
    for address in (f"{ACS}finish/", f"{ACS}metadata/"):
        assert client.get(address).status_code == 404


def test_a_server_without_such_a_provider_imports_nothing_of_it() -> None:
    code = (
        "import django, sys; django.setup(); import chatapp.urls; "
        "print([name for name in ('onelogin', 'lxml.etree', 'xmlsec', 'scim2_models') "
        "if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={"DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": ""},
    )
    loaded = set(json.loads(ran.stdout.splitlines()[-1].replace("'", '"')))
    assert not loaded - {"lxml.etree"}  # libraries of office files need that one


def test_many_posts_are_stopped(client: Client) -> None:
    statuses = {Client().post(ACS, {"SAMLResponse": "x"}).status_code for _ in range(122)}
    assert statuses == {403, 429}
