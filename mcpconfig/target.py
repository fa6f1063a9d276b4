"""Where one operation connects to and what it shows at the door, for the person who acts."""

from dataclasses import dataclass

from channels.db import database_sync_to_async

from . import builtin, credentials
from .acting import Acting
from .credentials import Shown
from .errors import OperationError
from .models import Credential, Service
from .network import check_url
from .oauth.challenges import Challenge, challenged
from .oauth.tokens import access_token


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`names_a_person`: what is shown is one person's own, so a refusal is about him alone."""

    url: str
    headers: dict[str, str]
    allows_private: bool
    names_a_person: bool = False

    @property
    def secrets(self) -> list[str]:
        return [part for value in self.headers.values() for part in (value, value.split()[-1])]


async def target_of(service: Service, acting: Acting | None, *, shows: bool = True) -> Target:
    """The target, or an OperationError before anything leaves. `shows=False` comes as a stranger.

    A service that a person made may not lead inside, whatever is ticked: neither to a private
    address nor to what this application serves itself.
    """
    is_personal = service.owner_id is not None and await _is_personal(service)
    if builtin.is_builtin(service.url) and not is_personal:
        address = await builtin.resolve(service.url.removeprefix(builtin.PREFIX))
        bearer = {"authorization": f"Bearer {address.bearer}"} if shows else {}
        return Target(url=address.url, headers=bearer, allows_private=True)
    allows_private = service.allows_private_addresses and not is_personal
    check_url(service.url, allows_private=allows_private)
    shown = await _shown(service, acting) if shows else Shown(headers={})
    return Target(
        url=service.url,
        headers=shown.headers,
        allows_private=allows_private,
        names_a_person=shown.names_a_person,
    )


async def _shown(service: Service, acting: Acting | None) -> Shown:
    if service.authentication == Service.Authentication.NONE:
        return Shown(headers={})
    if service.authentication in Service.OAUTH:
        token = await access_token(service, acting)
        is_own = service.authentication in Service.PERSONAL
        return Shown(headers={"authorization": f"Bearer {token}"}, names_a_person=is_own)
    stored = Credential.objects.filter(service=service)
    return credentials.shown_by(service, await database_sync_to_async(stored.first)(), acting)


async def _is_personal(service: Service) -> bool:
    # Read anew: an admin's rights may have been taken away since the service was loaded.
    fresh = Service.objects.select_related("owner").filter(pk=service.pk)
    found = await database_sync_to_async(fresh.first)()
    return found is None or found.is_personal


async def turned_away(
    service: Service, acting: Acting | None, error: OperationError, target: Target | None
) -> None:
    """A service with OAuth turned the token down: what it wants is kept for the next sign-in, and
    the error says whether one would help.

    A 403 with `insufficient_scope` is a sign-in with more rights, not a missing right.

    With a well-formed challenge the failure is definite: OAuth has a server look at the token
    before it does anything, and only so can a call go on when the person has signed in. Where a
    token or headers were typed in, nothing says in which order a service looks, and a bare 401
    says nothing of the kind either: those leave the outcome unknown.
    """
    is_too_narrow = error.status == 403 and "insufficient_scope" in error.www_authenticate
    if service.authentication not in Service.OAUTH or not (error.status == 401 or is_too_narrow):
        return
    shown = target.headers.get("authorization", "") if target else ""
    token = shown.removeprefix("Bearer ")
    ending = await challenged(service, acting, [error.www_authenticate], token=token)
    error.kind, error.message, error.hint = ending.kind, ending.message, ending.hint
    is_challenge = Challenge.read([error.www_authenticate]).is_well_formed
    error.is_definite = error.is_definite or is_challenge
