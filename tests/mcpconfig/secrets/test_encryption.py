"""Secrets: encrypted for one place, rotated, never moved, never shown."""

import pytest
from cryptography.fernet import Fernet
from django.conf import LazySettings
from django.utils import timezone

from mcpconfig.models import Credential, Service
from mcpconfig.secrets import credentials, encryption
from mcpconfig.values.errors import OperationError

CANARY = "canary-secret-0123456789"


def service(name: str = "one") -> Service:
    return Service.objects.create(
        name=name, url=f"https://{name}.example/mcp", authentication="bearer"
    )


def test_a_secret_opens_only_in_its_place() -> None:
    token = encryption.encrypt(CANARY, place="a:1:bearer")

    assert encryption.decrypt(token, place="a:1:bearer") == CANARY
    with pytest.raises(encryption.DecryptionError):
        encryption.decrypt(token, place="a:2:bearer")


def test_a_ciphertext_moved_to_another_service_is_refused() -> None:
    one, two = service("one"), service("two")
    credentials.set_bearer(one, CANARY)
    stolen = Credential.objects.get(service=one).bearer
    moved = Credential.objects.create(service=two, bearer=stolen)

    with pytest.raises(OperationError) as caught:
        credentials.load_request_headers(two, moved)

    assert caught.value.kind == "configuration"
    assert not caught.value.was_sent


def test_the_database_holds_no_secret_in_the_clear() -> None:
    one = service()
    credentials.set_bearer(one, CANARY)

    assert CANARY.encode() not in bytes(Credential.objects.get(service=one).bearer)


def test_an_old_key_still_opens_and_rotation_makes_it_superfluous(settings: LazySettings) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = [old]
    token = encryption.encrypt(CANARY, place="p")
    settings.ENCRYPTION_KEYS = [new, old]
    rotated = encryption.rotate(token)
    settings.ENCRYPTION_KEYS = [new]

    assert encryption.decrypt(rotated, place="p") == CANARY
    with pytest.raises(encryption.DecryptionError):
        encryption.decrypt(token, place="p")


def test_a_lost_key_is_a_configuration_failure_in_words(settings: LazySettings) -> None:
    one = service()
    credentials.set_bearer(one, CANARY)
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    with pytest.raises(OperationError) as caught:
        credentials.load_request_headers(one, Credential.objects.get(service=one))

    assert "ENCRYPTION_KEYS" in caught.value.hint
    assert "no known key" in credentials.summarize_secret(one, "bearer")


def test_a_service_without_its_token_does_not_connect() -> None:
    with pytest.raises(OperationError) as caught:
        credentials.load_request_headers(service(), None)

    assert caught.value.kind == "configuration"


def test_a_new_url_takes_the_credentials_and_what_was_known_away() -> None:
    one = service()
    credentials.set_bearer(one, CANARY)
    one.known_era = "2026-07-28"
    one.save()

    one.url = "https://attacker.example/mcp"
    one.save()

    assert not Credential.objects.exists()
    assert Service.objects.get(pk=one.pk).known_era == ""


def test_saving_without_a_new_url_keeps_them() -> None:
    one = service()
    credentials.set_bearer(one, CANARY)

    one.title = "One"
    one.save()
    one.save(update_fields=["title"])

    assert Credential.objects.filter(service=one).exists()


def test_a_url_saved_alone_drops_what_was_known_too() -> None:
    one = service()
    one.known_era = "2026-07-28"
    one.save()

    one.url = "https://other.example/mcp"
    one.save(update_fields=["url"])

    assert Service.objects.get(pk=one.pk).known_era == ""


@pytest.mark.parametrize(
    ("written", "is_stamped"),
    [(["client_id"], True), (["client_id", "title"], True), (["title"], False), (None, True)],
)
def test_another_way_to_sign_in_is_stamped_however_it_is_saved(
    written: list[str] | None, is_stamped: bool
) -> None:
    """A call that was approved before the change does not run as another account."""
    one = service()
    shown_at = timezone.now()
    one.client_id, one.title = "another", "One"
    one.save(update_fields=written)

    assert Service.objects.get(pk=one.pk).signs_in_otherwise_since(shown_at) is is_stamped


def test_the_summary_shows_the_ending_only() -> None:
    one = service()
    assert credentials.summarize_secret(one, "bearer") == "not set"

    credentials.set_bearer(one, CANARY)

    assert credentials.summarize_secret(one, "bearer").endswith("ends in 6789")
    assert CANARY not in credentials.summarize_secret(one, "bearer")
