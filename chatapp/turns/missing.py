"""The services that a turn has to do without, said once at the top of its answer."""

from collections.abc import Sequence

from chatapp.models import Member, Part
from mcpconfig.acting import Acting
from mcpconfig.models import Service
from mcpconfig.oauth.standing import State as Standing
from mcpconfig.oauth.standing import standing
from mcpconfig.sharing import may_connect

from . import journal
from .lease import Lease, fenced
from .top_notices import MISSING, note_once

MOST_NAMED = 5


def note_missing(lease: Lease, missing: Sequence[tuple[str, str]]) -> None:
    """Tell the person which services are missing, and why; a turn that begins anew says it once."""
    with fenced(lease) as turn:
        person = Member.objects.get(conversations=turn.conversation_id)
        lacks_sign_in = any(_lacks_sign_in(name, person) for name, _reason in missing)
        kind = Part.NoticeKind.SIGN_IN if lacks_sign_in else Part.NoticeKind.INFO
        entries = note_once(turn, MISSING, _sentences(missing), kind=kind)
        journal.append(turn.conversation_id, turn.pk, entries)


def _sentences(missing: Sequence[tuple[str, str]]) -> str:
    names = [name for name, _reason in missing]
    titles = {service.name: str(service) for service in Service.objects.filter(name__in=names)}
    said = [
        f"The tools of “{titles.get(name, name)}” are missing. {reason}" for name, reason in missing
    ]
    more = len(said) - MOST_NAMED
    return " ".join([*said[:MOST_NAMED], *([f"So are those of {more} more."] if more > 0 else [])])


def _lacks_sign_in(name: str, person: Member) -> bool:
    """Whether this person can bring the service back by signing in."""
    service = Service.objects.filter(name=name).first()
    if service is None or not may_connect(service, person):
        return False
    return standing(service, Acting.of(person)).state not in (Standing.READY, Standing.CONNECTED)
