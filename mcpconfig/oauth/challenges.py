"""What services say when they turn somebody away: read, and kept for the next sign-in."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self
from urllib.request import parse_http_list

from channels.db import database_sync_to_async
from django.utils import timezone

from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.models import OAuthChallenge, OAuthGrant, Service

from . import sealed
from .grants import grant_of, holder

MOST_STEP_UPS = 2
STEP_UPS_FORGOTTEN_AFTER = timedelta(hours=1)

_PARAMETER = re.compile(r"(?:([!-~]+)[ \t]+)?([\w.~-]+)[ \t]*=[ \t]*(.*)", re.DOTALL)
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """The Bearer challenge of a `WWW-Authenticate` header, as far as it was understood."""

    resource_metadata: str = ""
    scope: str = ""
    is_step_up: bool = False
    is_well_formed: bool = field(default=False, compare=False)

    @classmethod
    def read(cls, header_values: Iterable[str]) -> Self:
        """The first Bearer challenge among the headers. What is malformed counts as not said."""
        for value in header_values:
            for scheme, said in _challenges(value[:8192]):
                if scheme == "bearer":
                    scope = said.get("scope", "")
                    return cls(
                        resource_metadata=said.get("resource_metadata", "")[:2000],
                        scope=scope[:1000] if _SCOPE.fullmatch(scope) else "",
                        is_step_up=said.get("error") == "insufficient_scope",
                        # RFC 6750: the word alone, without a parameter, is no challenge.
                        is_well_formed=bool(said),
                    )
        return cls()


def _challenges(value: str) -> Iterable[tuple[str, dict[str, str]]]:
    """The challenges in one header: commas divide both them and the parameters inside them."""
    scheme, said = "", dict[str, str]()
    for item in parse_http_list(value):
        found = _PARAMETER.fullmatch(item.strip())
        is_next = found is None or found[1] is not None
        if is_next and scheme:
            yield scheme, said
        if is_next:
            scheme, said = (found[1] if found else item.strip()).lower(), {}
        if found is not None:
            said.setdefault(found[2].lower(), _unquoted(found[3].strip()))
    if scheme:
        yield scheme, said


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


async def challenged(
    service: Service, acting: Acting | None, header_values: Iterable[str], *, token: str = ""
) -> OperationError:
    """The service turned a request away. Keep what it asked for, and return how the operation ends:
    in the need of a sign-in, or in a plain no where another sign-in would change nothing. `token`
    is the one that was shown; if it is still in use, it is renewed before anything else."""
    challenge = Challenge.read(header_values)
    return await database_sync_to_async(_note)(service, acting, challenge, token)


def _note(
    service: Service, acting: Acting | None, challenge: Challenge, token: str
) -> OperationError:
    grant = grant_of(service, acting)
    if challenge.is_step_up and grant is not None and _is_futile(grant, challenge):
        return _forbidden(service)
    OAuthChallenge.objects.update_or_create(
        service=service,
        person_id=holder(service, acting),
        defaults={
            "endpoint": service.endpoint,
            "resource_metadata": challenge.resource_metadata,
            "scope": challenge.scope,
            "is_step_up": challenge.is_step_up,
        },
    )
    if grant is not None and not challenge.is_step_up:
        _reject(grant, token)
    return more_rights_needed(service) if challenge.is_step_up else sign_in_needed(service)


def _is_futile(grant: OAuthGrant, challenge: Challenge) -> bool:
    """Whether the person was already asked for this, or has been asked too often."""
    if set(challenge.scope.split()) <= set(grant.wanted_scope.split()):
        return True
    connected_at = grant.connected_at
    is_lately = (
        connected_at is not None and timezone.now() - connected_at < STEP_UPS_FORGOTTEN_AFTER
    )
    return is_lately and grant.step_ups >= MOST_STEP_UPS


def _reject(grant: OAuthGrant, token: str) -> None:
    """The service does not take this token: the next operation renews it before it is used again,
    and asks for a sign-in where it cannot be renewed. Another token may be as good as ever."""
    if not token or token != sealed.token_of(grant, "access"):
        return
    now = timezone.now()
    OAuthGrant.objects.filter(pk=grant.pk, version=grant.version).update(
        renew_at=now, expires_at=now
    )


def latest(service: Service, person_id: int | None) -> Challenge | None:
    """What this person was last told, or what an admin's test was told for want of that."""
    seen = OAuthChallenge.objects.filter(service=service, endpoint=service.endpoint)
    found = (
        seen.filter(person_id=person_id).order_by("-seen_at").first()
        or seen.filter(person=None).order_by("-seen_at").first()
    )
    if found is None:
        return None
    return Challenge(
        resource_metadata=found.resource_metadata, scope=found.scope, is_step_up=found.is_step_up
    )


def sign_in_needed(service: Service) -> OperationError:
    return OperationError(
        kind="sign_in_needed",
        message=f"{service} wants a sign-in.",
        hint="Connect to it on the page of services.",
    )


def more_rights_needed(service: Service) -> OperationError:
    return OperationError(
        kind="sign_in_needed",
        message=f"{service} wants a sign-in with more rights for this.",
        hint="Connect to it again on the page of services; it then asks for them.",
    )


def _forbidden(service: Service) -> OperationError:
    return OperationError(
        kind="forbidden",
        message=f"{service} refuses this, although the rights that it named were asked for.",
        hint="Ask whoever runs it for the right.",
    )
