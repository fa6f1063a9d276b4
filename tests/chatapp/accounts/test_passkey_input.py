"""Passkeys: what no browser sends, keys that do not sign in alone, and the last one."""

import hashlib
import json
import time
from typing import Any

import pytest
from allauth.account.utils import user_pk_to_url_str
from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.test import Client
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorData,
    CollectedClientData,
)

from chatapp.models import Member

from .test_second_factor import PASSWORD, enter_password, is_signed_in, secret  # noqa: F401

RIGHT = {"clientDataJSON": "e30", "authenticatorData": "AAAA", "signature": "AAAA"}
WRONG = [
    "[1]",
    "1",
    '"text"',
    "{}",
    '{"response": 1}',
    '{"response": []}',
    '{"response": {"userHandle": 5}}',
    '{"response": {"userHandle": null}}',
    '{"response": {"userHandle": "MQ"}}',
    '{"response": {"userHandle": "gICA"}}',
    '{"id": 1, "rawId": 1, "response": {"userHandle": "MQ"}, "type": "public-key"}',
    json.dumps({"id": "AA", "rawId": "AA", "type": "public-key", "response": RIGHT}),
    json.dumps(
        {
            "id": "AA",
            "rawId": "AA",
            "type": "public-key",
            "response": {**RIGHT, "userHandle": "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5"},
        }
    ),
    "not json",
    "[" * 2_000,
]


@pytest.mark.parametrize("text", WRONG)
def test_no_answer_of_a_made_up_passkey_is_an_error(owner: Member, secret: str, text: str) -> None:  # noqa: F811
    form = {"credential": text}
    nobody = Client()
    nobody.get("/sign-in/passkey/", headers={"X-Requested-With": "XMLHttpRequest"})
    assert nobody.post("/sign-in/passkey/", form)["Location"] == "/sign-in/"
    assert not is_signed_in(nobody)
    half = enter_password()
    half.get("/sign-in/code/")
    assert half.post("/sign-in/code/", form).status_code == 200
    assert not is_signed_in(half)
    client = Client()
    client.force_login(owner)
    client.post("/settings/confirm/", {"password": "owner-password"})
    for address in ("/settings/confirm/passkey/", "/settings/passkeys/add/"):
        client.get(address)
        assert client.post(address, form).status_code in (200, 302)
    assert not Authenticator.objects.filter(type="webauthn").exists()


# --- a key that signs ----------------------------------------------------------------------------
class SoftKey:
    """A passkey made of a key in memory, which has checked its person."""

    def __init__(self, member: Member, *, signs_in_alone: bool) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.id = b"key-of-the-test"
        self.handle = user_pk_to_url_str(member).encode()
        public = ES256.from_cryptography_key(self.key.public_key())  # type: ignore[no-untyped-call]
        attested = AttestedCredentialData.create(b"\0" * 16, self.id, public)
        made = AttestationObject.create("none", self.build_data(attested), {})
        client_data = CollectedClientData.create("webauthn.create", b"x", "https://testserver")
        response = {"clientDataJSON": client_data, "attestationObject": made}
        credential = {
            **self.describe(response),
            "clientExtensionResults": {"credProps": {"rk": signs_in_alone}},
        }
        self.row = Authenticator.objects.create(
            user=member, type="webauthn", data={"name": "Key", "credential": credential}
        )

    def build_data(self, attested: AttestedCredentialData | None = None) -> AuthenticatorData:
        flags = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.UV
        if attested:
            flags |= AuthenticatorData.FLAG.AT
        host = hashlib.sha256(b"testserver").digest()
        made: AuthenticatorData = AuthenticatorData.create(host, flags, 0, attested or b"")
        return made

    def describe(self, response: dict[str, bytes]) -> dict[str, Any]:
        own_id = websafe_encode(self.id)
        encoded = {name: websafe_encode(value) for name, value in response.items()}
        return {"id": own_id, "rawId": own_id, "type": "public-key", "response": encoded}

    def answer(self, challenge: str) -> str:
        data = self.build_data()
        client_data = CollectedClientData.create(
            "webauthn.get", websafe_decode(challenge), "https://testserver"
        )
        signed = self.key.sign(data + client_data.hash, ec.ECDSA(hashes.SHA256()))
        response = {
            "clientDataJSON": client_data,
            "authenticatorData": data,
            "signature": signed,
            "userHandle": self.handle,
        }
        return json.dumps(self.describe(response))


@pytest.mark.parametrize("signs_in_alone", [True, False])
def test_a_passkey_signs_in_alone_only_if_it_was_made_for_that(
    owner: Member, client: Client, signs_in_alone: bool
) -> None:
    key = SoftKey(owner, signs_in_alone=signs_in_alone)
    ajax = {"X-Requested-With": "XMLHttpRequest"}
    options = client.get("/sign-in/passkey/", headers=ajax).json()["request_options"]
    answer = key.answer(options["publicKey"]["challenge"])
    client.post("/sign-in/passkey/", {"credential": answer})
    assert is_signed_in(client) == signs_in_alone


# --- removing the last one -----------------------------------------------------------------------
def add_key(member: Member, *, signs_in_alone: bool) -> Authenticator:
    results = {"credProps": {"rk": signs_in_alone}}
    data = {"name": "Key", "credential": {"clientExtensionResults": results}}
    return Authenticator.objects.create(user=member, type="webauthn", data=data)


def test_the_last_passkey_stays_where_one_is_required(
    owner: Member, client: Client, settings: Any
) -> None:
    client.post("/sign-in/", PASSWORD)
    key = add_key(owner, signs_in_alone=False)
    settings.REQUIRE_TWO_FACTOR = "all"
    answer = client.post(f"/settings/passkeys/{key.pk}/remove/")
    assert answer.status_code == 409
    assert "You need a second factor" in answer.content.decode()
    assert Authenticator.objects.filter(pk=key.pk).exists()


def test_a_passkey_that_is_the_only_way_in_stays(owner: Member, client: Client) -> None:
    client.post("/sign-in/", PASSWORD)
    key = add_key(owner, signs_in_alone=True)
    Member.objects.filter(pk=owner.pk).update(password="!none")
    other = Client()
    other.force_login(Member.objects.get(pk=owner.pk))
    session = other.session
    session["account_authentication_methods"] = [
        {"method": "mfa", "at": time.time(), "type": "webauthn", "passwordless": True}
    ]
    session["account_authentication_methods_user"] = str(owner.pk)
    session.save()
    assert other.post(f"/settings/passkeys/{key.pk}/remove/").status_code == 409
    Authenticator.objects.filter(pk=key.pk).update(
        data={"name": "Key", "credential": {"clientExtensionResults": {}}}
    )
    assert other.post(f"/settings/passkeys/{key.pk}/remove/").status_code == 302
