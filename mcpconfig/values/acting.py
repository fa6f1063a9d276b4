"""The person on whose behalf an operation runs."""

from dataclasses import dataclass
from typing import Self

from django.contrib.auth.models import AbstractUser


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """The acting person, and the conversation if there is one. Without an `Acting`, the operator
    acts."""

    user_id: int
    username: str
    email: str
    conversation_id: str = ""

    @classmethod
    def of(cls, person: AbstractUser, conversation_id: object = "") -> Self:
        return cls(
            user_id=person.pk,
            username=person.get_username(),
            email=person.email,
            conversation_id=str(conversation_id),
        )
