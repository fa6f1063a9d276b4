"""Stored company sign-ins: whose they are, and how long they last."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from mcpconfig.models import CompanySignIn, Service
from mcpconfig.oauth.grants.grants import LEEWAY_SECONDS
from mcpconfig.values.acting import Acting

if TYPE_CHECKING:
    from .identity_tokens import IdToken


def get_sign_in(service: Service, acting: Acting | None) -> CompanySignIn | None:
    """Return this person's sign-in at the identity provider of the service."""
    if acting is None or service.identity_provider_id is None:
        return None
    mine = CompanySignIn.objects.filter(
        identity_provider=service.identity_provider_id, person_id=acting.user_id
    )
    return mine.select_related("identity_provider").first()


def is_usable(signed_in: CompanySignIn) -> bool:
    """Whether the ID token has not expired, although a new one may be due."""
    return not signed_in.is_dead and timezone.now() < signed_in.expires_at


def can_open_services(signed_in: CompanySignIn) -> bool:
    """Whether it opens services now, or after a renewal without a person."""
    return not signed_in.is_dead and (is_usable(signed_in) or bool(signed_in.refresh))


def compute_renewal_time(id_token: "IdToken") -> datetime:
    """Return when to request the next one: shortly before the end, or late in a short life."""
    seconds = max((id_token.expires_at - timezone.now()).total_seconds(), 0.0)
    return id_token.expires_at - timedelta(seconds=min(LEEWAY_SECONDS, seconds / 10))
