"""The keys that encrypt stored secrets: which secrets are under which key, and their rotation."""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from django.conf import settings

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import LogEntry, Member
from mcpconfig.secrets import encryption
from mcpconfig.services.secret_rotation import Rotation, iterate_stored_secrets, rotate_secrets


@dataclass(slots=True)
class KeyUse:
    """How many stored secrets the first key encrypts, how many an older one does, and which no key
    opens. `oldest` is when the oldest of the secrets under the first key was encrypted, in UTC."""

    keys: int
    current: int = 0
    older: int = 0
    unreadable: list[str] = field(default_factory=list)
    oldest: datetime | None = None


def count_key_use() -> KeyUse:
    use = KeyUse(keys=len(settings.ENCRYPTION_KEYS))
    for secret in iterate_stored_secrets():
        if encryption.is_under_first_key(secret.token):
            use.current += 1
            moment = datetime.fromtimestamp(encryption.read_timestamp(secret.token), UTC)
            use.oldest = min(use.oldest or moment, moment)
        elif secret.is_readable:
            use.older += 1
        else:
            use.unreadable.append(secret.place)
    return use


def rotate(admin: Member) -> Rotation:
    """Encrypt every stored secret with the first key, and record it."""
    rotation = rotate_secrets()
    counts = asdict(rotation) | {"unreadable": len(rotation.unreadable)}
    event = AuditEvent(kind=LogEntry.Kind.SECRETS_ROTATED, data=counts, actor=Who.of(admin))
    audit_log.append([event])
    return rotation
