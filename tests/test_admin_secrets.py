"""A sweep over every page of the admin for stored secrets, by an admin with all rights and by one
with each right alone."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from chatapp.models import ModelProvider, ProviderDraft, PushDevice, Question, Webhook
from chatapp.notifications import push_keys
from chatapp.people.admin_rights import RIGHTS
from chatapp.providers.access import provider_drafts
from chatapp.server.database import close_threads
from mcpconfig.models import (
    CompanySignIn,
    IdentityProvider,
    OAuthAttempt,
    OAuthClient,
    OAuthGrant,
    OAuthRevocation,
    Service,
    ServiceDraft,
)
from mcpconfig.secrets import credentials, draft_secrets, oauth_secrets
from mcpconfig.secrets.draft_secrets import DraftSecrets
from mcpconfig.services import secret_rotation

from .conftest import signed_in
from .route_world import URL, World, build_world
from .test_admin_rights import make_admin
from .test_routes import admin_pages, content_of, report

pytestmark = [
    pytest.mark.gate,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("no_logging"),
]
CANARY = "canary-9d41"


@pytest.fixture
def world(transactional_db: None, owner: Any, stranger: Any, admin: Any) -> Iterator[World]:
    made = build_world(owner, stranger, admin)
    store_canaries(made)
    yield made
    close_threads()


def make_canary(name: str) -> str:
    return f"{CANARY}-{name}-with-a-long-end"


def store_canaries(world: World) -> None:
    """Store a secret in each field that has one; the names say which."""
    _store_secrets_of_services(world)
    _store_secrets_of_sign_ins(world)
    _store_secrets_of_the_chat()


def _store_secrets_of_services(world: World) -> None:
    for service in Service.objects.all():
        credentials.set_bearer(service, make_canary("bearer"))
        credentials.set_headers(service, {"X-Key": make_canary("header")})
        credentials.set_client_secret(service, make_canary("client-secret"))
    company = IdentityProvider.objects.get()
    oauth_secrets.encrypt_provider_secret(company, make_canary("company"))
    company.save()
    draft = ServiceDraft.objects.get(pk=world.ids["service_draft"])
    typed = {"bearer": make_canary("draft"), "headers": f"X-Key: {make_canary('draft-header')}"}
    registration = {"client_id": "known", "client_secret": make_canary("draft-registration")}
    draft_secrets.seal_secrets(draft, DraftSecrets(typed=typed, registration=registration))
    draft.save()


def _store_secrets_of_sign_ins(world: World) -> None:
    later = timezone.now() + timedelta(hours=1)
    service, company = Service.objects.get(name="vault"), IdentityProvider.objects.get()
    for attempt in OAuthAttempt.objects.all():
        oauth_secrets.encrypt_verifier(attempt, make_canary("verifier"))
        attempt.save()
    client = OAuthClient(service=service, kind="registered", issuer=URL, client_id="known")
    oauth_secrets.encrypt_client_secret(client, make_canary("registered"))
    client.save()
    grant = OAuthGrant(service=service, person=world.owner, client=client, endpoint=URL, issuer=URL)
    oauth_secrets.encrypt_token(grant, "access", make_canary("access"))
    oauth_secrets.encrypt_token(grant, "refresh", make_canary("refresh"))
    grant.save()
    signed = CompanySignIn(
        identity_provider=company,
        person=world.owner,
        issuer=URL,
        subject="owner",
        token_endpoint=URL,
        renew_at=later,
        expires_at=later,
        connected_at=timezone.now(),
    )
    oauth_secrets.encrypt_identity(signed, "id_token", make_canary("id-token"))
    oauth_secrets.encrypt_identity(signed, "refresh", make_canary("company-refresh"))
    signed.save()
    OAuthRevocation.objects.create(
        revocation_endpoint=URL,
        service_url=URL,
        payload=oauth_secrets.encrypt_revocation({"token": make_canary("revoked")}),
    )


def _store_secrets_of_the_chat() -> None:
    for provider in ModelProvider.objects.all():
        provider.set_key(make_canary("provider-key"))
        provider.set_headers({"X-Key": make_canary("provider-header")})
    for draft in ProviderDraft.objects.all():
        provider_drafts.seal_secrets(draft, {"key": make_canary("provider-draft")})
        draft.save()
    for question in Question.objects.all():
        question.seal(make_canary("state"))
        question.save()
    push_keys.make_key().set_private_key(make_canary("push-key"))
    for device in PushDevice.objects.all():
        device.seal(json.dumps({"endpoint": URL, "keys": {"auth": make_canary("device")}}))
        device.save()
    for webhook in Webhook.objects.all():
        webhook.set_address(f"https://hooks.example/{make_canary('hook')}")
        webhook.set_secret(make_canary("hook-secret"))


def find_shown(world: World, client: Client) -> tuple[list[str], int]:
    """The canaries that pages show to this admin, and how many pages were shown."""
    client.raise_request_exception = False
    found, shown = [], 0
    for name, address in admin_pages(world):
        if name in ("login", "logout"):
            continue
        answer = client.get(address)
        page = content_of(answer).decode(errors="replace")
        shown += answer.status_code == 200
        if CANARY in page:
            place = page.index(CANARY)
            found.append(f"{address} ({name}): {page[place : place + 40]}")
    return found, shown


def test_there_is_a_canary_in_each_field_for_secrets(world: World) -> None:
    empty = [
        f"{model.__name__}.{field}"
        for model, field in secret_rotation.list_secret_fields()
        if not any(bytes(value) for value in _read_values(model, field))
    ]
    assert empty == []


def _read_values(model: type[Model], field: str) -> Any:
    return model._base_manager.values_list(field, flat=True)


def test_no_page_shows_a_secret_to_an_admin_with_all_rights(world: World) -> None:
    found, shown = find_shown(world, signed_in(world.admin))
    report(found)
    assert shown > 100


@pytest.mark.long
@pytest.mark.parametrize("right", list(RIGHTS))
def test_no_page_shows_a_secret_to_an_admin_with_one_right(world: World, right: str) -> None:
    found, shown = find_shown(world, signed_in(make_admin(right)))
    report(found)
    assert shown > 3


# --- planted faults ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("model", "method"), [(Webhook, "read_address"), (ModelProvider, "stored_key")]
)
def test_a_page_that_shows_a_secret_is_reported(
    world: World, model: type[Model], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "__str__", getattr(model, method))
    found, _ = find_shown(world, signed_in(world.admin))
    assert any(f"/{model._meta.model_name}/" in each for each in found)
