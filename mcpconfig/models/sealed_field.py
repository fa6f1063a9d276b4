"""The field that holds an encrypted secret."""

from collections.abc import Sequence
from typing import Any

from django.db import models


class SealedField(models.BinaryField):
    """The bytes of a secret, encrypted by `mcpconfig.secrets.encryption`.

    The class marks what `rotate_keys` encrypts again and `doctor` decrypts. Other binary data, as
    the bytes of a file, belongs in a plain `BinaryField`. Migrations name the plain field, because
    the column is the same.
    """

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.BinaryField", args, kwargs
