"""All secrets that are stored, wherever they are: to be read again, or put under the newest key.

The rule by which they are found: a binary field of any model here holds a secret.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.apps import apps
from django.db import models

from . import secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """One secret, encrypted, and the row and field that it is in."""

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
            secrets.rotate(self.token)
        except secrets.Undecryptable:
            return False
        return True

    def rotate(self) -> bool:
        """Put it under the first key; false if somebody else has changed it since it was read."""
        row = self.model._default_manager.filter(pk=self.pk, **{self.field: self.token})
        return bool(row.update(**{self.field: secrets.rotate(self.token)}))


def secret_fields() -> Iterator[tuple[type[models.Model], str]]:
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            if isinstance(field, models.BinaryField):
                yield model, field.name


def stored_secrets() -> Iterator[StoredSecret]:
    for model, field in secret_fields():
        rows = model._default_manager.exclude(**{field: b""}).order_by("pk")
        for pk, token in list(rows.values_list("pk", field)):
            yield StoredSecret(model=model, pk=pk, field=field, token=bytes(token))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """How many secrets are under the first key now, how many were written anew while this ran,
    and the places of those that no key opens."""

    rotated: int
    were_current: int
    missed: int
    unreadable: list[str]


def rotate_all() -> Rotation:
    """Each row is done by itself, so that a rotation that was cut off goes on where it was.

    A secret that somebody writes meanwhile is left as written, and counted as missed.
    """
    rotated = were_current = missed = 0
    unreadable: list[str] = []
    for secret in stored_secrets():
        if secrets.is_under_first_key(secret.token):
            were_current += 1
        elif secret.is_readable:
            is_done = secret.rotate()
            rotated, missed = rotated + is_done, missed + (not is_done)
        else:
            unreadable.append(secret.place)
    return Rotation(
        rotated=rotated, were_current=were_current, missed=missed, unreadable=unreadable
    )
