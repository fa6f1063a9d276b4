"""The secrets of a service that is being added: typed by an admin, or received when the check
registered a client. They are sealed in the draft's row and bound to it."""

import json
from dataclasses import dataclass, field
from typing import Any

from mcpconfig.models import ServiceDraft

from . import encryption


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSecrets:
    """`typed` are the secrets by the name of their field. `registration` is a client that the check
    registered, with the server's answer."""

    typed: dict[str, str] = field(default_factory=dict, repr=False)
    registration: dict[str, Any] | None = field(default=None, repr=False)


def seal_secrets(draft: ServiceDraft, secrets: DraftSecrets) -> None:
    """Put the secrets into the row, which the caller saves."""
    if not secrets.typed and secrets.registration is None:
        draft.secrets = b""
        return
    opened = json.dumps({"typed": secrets.typed, "registration": secrets.registration})
    draft.secrets = encryption.encrypt(opened, place=_build_place(draft))


def open_secrets(draft: ServiceDraft) -> DraftSecrets:
    """Return the secrets; none if no known key opens them, so that they are typed again."""
    if not draft.secrets:
        return DraftSecrets()
    try:
        opened = encryption.decrypt(bytes(draft.secrets), place=_build_place(draft))
    except encryption.DecryptionError:
        return DraftSecrets()
    return DraftSecrets(**json.loads(opened))


def _build_place(draft: ServiceDraft) -> str:
    return f"mcpconfig_servicedraft:{draft.pk}:secrets"
