"""Access to all stored secrets, to check them and to encrypt them with the newest key.

A secret is what a `SealedField` holds. Other binary fields are never read here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.apps import apps
from django.db import models

from mcpconfig.models.sealed_field import SealedField
from mcpconfig.secrets import encryption
from mcpconfig.values.hooks import current_hooks

# The rows that are read at once. A secret is small, and there may be many rows.
BATCH_SIZE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """An encrypted secret with its row and field."""

    model: type[models.Model]
    pk: object
    field: str
    token: bytes

    @property
    def place(self) -> str:
        return f"{self.model._meta.verbose_name} {self.pk}, {self.field.replace('_', ' ')}"

    @property
    def is_readable(self) -> bool:
        try:
            encryption.rotate(self.token)
        except encryption.DecryptionError:
            return False
        return True

    def rotate(self) -> bool:
        """Encrypt the secret with the first key. Return False if it changed after it was read."""
        row = self.model._default_manager.filter(pk=self.pk, **{self.field: self.token})
        return bool(row.update(**{self.field: encryption.rotate(self.token)}))


def list_secret_fields() -> Iterator[tuple[type[models.Model], str]]:
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            if isinstance(field, SealedField):
                yield model, field.name


def iterate_stored_secrets() -> Iterator[StoredSecret]:
    """Yield each stored secret.

    Rows are read in batches, each after the last key of the one before, so that no cursor is open
    while the caller changes the rows.
    """
    for model, field in list_secret_fields():
        rows = (
            model._default_manager.exclude(**{field: b""}).order_by("pk").values_list("pk", field)
        )
        batch = list(rows[:BATCH_SIZE])
        while batch:
            for pk, token in batch:
                yield StoredSecret(model=model, pk=pk, field=field, token=bytes(token))
            batch = list(rows.filter(pk__gt=batch[-1][0])[:BATCH_SIZE])
    for iterate in current_hooks().further_secrets:
        yield from iterate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The result of a rotation.

    `rotated` and `were_current` count the secrets under the first key, `missed` counts secrets
    that were changed during the rotation, and `unreadable` names those that no key decrypts.
    """

    rotated: int
    were_current: int
    missed: int
    unreadable: list[str]


def rotate_secrets() -> Rotation:
    """Encrypt every stored secret with the first key.

    Each row is saved by itself, so that an interrupted rotation can be continued. A secret that
    changes meanwhile is not overwritten, and is counted as missed.
    """
    rotated = were_current = missed = 0
    unreadable: list[str] = []
    for secret in iterate_stored_secrets():
        if encryption.is_under_first_key(secret.token):
            were_current += 1
        elif secret.is_readable:
            is_done = secret.rotate()
            rotated, missed = rotated + is_done, missed + (not is_done)
        else:
            unreadable.append(secret.place)
    return Rotation(
        rotated=rotated, were_current=were_current, missed=missed, unreadable=unreadable
    )
