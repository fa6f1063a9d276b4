"""Company sign-ins as rows: whose they are, and how long they last."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from mcpconfig.acting import Acting
from mcpconfig.models import CompanySignIn, Service

from .grants import LEEWAY_SECONDS

if TYPE_CHECKING:
    from .identity_tokens import IdToken


def sign_in_of(service: Service, acting: Acting | None) -> CompanySignIn | None:
    """This person's sign-in at the service's identity provider."""
    if acting is None or service.identity_provider_id is None:
        return None
    mine = CompanySignIn.objects.filter(
        identity_provider=service.identity_provider_id, person_id=acting.user_id
    )
    return mine.select_related("identity_provider").first()


def is_usable(signed_in: CompanySignIn) -> bool:
    """Whether the identity has not ended yet, although a new one may be due."""
    return not signed_in.is_dead and timezone.now() < signed_in.expires_at


def holds(signed_in: CompanySignIn) -> bool:
    """Whether it opens services now, or after a renewal that needs nobody."""
    return not signed_in.is_dead and (is_usable(signed_in) or bool(signed_in.refresh))


def renewed_from(told: "IdToken") -> datetime:
    """When to ask for the next one: a little before the end, or late in a short life."""
    seconds = max((told.expires_at - timezone.now()).total_seconds(), 0.0)
    return told.expires_at - timedelta(seconds=min(LEEWAY_SECONDS, seconds / 10))
