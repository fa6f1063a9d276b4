"""Off-boarding of a member: what they have, and how all of it ends.

The member is locked out first, in one transaction. The steps after it have transactions of their
own. If one fails, the others still run, the member stays locked out, and running it again does what
is left: each step counts what there is still to end.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.audit.audit_log import Who
from chatapp.conversations import handing_over, intake
from chatapp.models import (
    AccessToken,
    Consent,
    Conversation,
    LogEntry,
    Member,
    Project,
    ProjectMember,
    QueuedMessage,
    SharedLink,
    SignInLink,
    StandIn,
    Turn,
)
from chatapp.people.admin_rights import lock_last_admin, may_manage
from chatapp.people.refused import Refused
from chatapp.policy import consents
from chatapp.projects import members as project_members
from chatapp.projects import owners as project_owners
from chatapp.sharing import links
from mcpconfig.models import (
    CompanySignIn,
    Credential,
    OAuthAttempt,
    OAuthChallenge,
    OAuthClient,
    OAuthGrant,
    Service,
    ServiceDraft,
)

from . import entries, invitations
from .lock_out import lock_out

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the admin chose. Projects go to `new_owner`, else to who has edited them longest. Chats
    go to `reader`, with the reason, or are kept without anybody who can open them."""

    by: Member
    new_owner: Member | None = None
    reader: Member | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of off-boarding. `count` returns how much there is to end, `describe` says it."""

    name: str
    icon: str
    count: Callable[[Member], int]
    describe: Callable[[int], str]
    help: Callable[[], str] = str
    run: Callable[[Member, Choices], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What off-boarding ends, as the summary shows it."""

    icon: str
    title: str
    help: str


def list_lines(member: Member) -> list[Line]:
    """Return what there is to end, in the order in which it ends. Ends nothing."""
    counted = [(step, step.count(member)) for step in STEPS]
    return [
        Line(icon=step.icon, title=step.describe(count), help=step.help())
        for step, count in counted
        if count
    ]


def off_board(member: Member, choices: Choices) -> list[str]:
    """Take all access from the member. Return the names of the steps that failed. Raises Refused
    for the last admin, for a person who off-boards themselves, and for an admin who has no right to
    it any more."""
    if member == choices.by:
        raise Refused(_("You can’t off-board yourself. Ask another admin."), 409)
    with transaction.atomic():
        if lock_last_admin(member):
            raise Refused(_("This is the last full admin. Make another member one first."), 409)
        member = _lock(member, choices.by)
        found = {step.name: step.count(member) for step in STEPS}
        lock_out(member)
        _log(member, choices, act="locked out", found={k: n for k, n in found.items() if n})
    failed = [step.name for step in STEPS if step.run and not _try(step, member, choices)]
    # A chat whose answer still runs in a worker cannot be handed over yet.
    is_left = choices.reader is not None and handing_over.filter_to_hand_over(member).exists()
    if is_left and "chats" not in failed:
        failed.append("chats")
    _log(member, choices, act="incomplete" if failed else "finished", left=failed)
    return failed


def _lock(member: Member, admin: Member) -> Member:
    """Lock both rows, and check the rights of that moment: somebody may have changed them since the
    page was shown. Raises Refused."""
    rows = Member.objects.select_for_update().order_by("pk").in_bulk([member.pk, admin.pk])
    now, acting = rows.get(member.pk), rows.get(admin.pk)
    may = acting is not None and acting.has_perm("chatapp.change_member")
    if now is None or acting is None or not (may and may_manage(acting, now)):
        raise Refused(_("You don’t have the right to off-board this member any more."), 403)
    return now


def _try(step: Step, member: Member, choices: Choices) -> bool:
    """Run a step, wholly or not at all. Whatever its error, the next steps have to run as well."""
    try:
        with transaction.atomic():
            if step.run is not None:
                step.run(member, choices)
    except Exception:
        logger.exception("The step %s of off-boarding member %s failed", step.name, member.pk)
        return False
    return True


def _log(member: Member, choices: Choices, **data: object) -> None:
    receivers = {"projects_to": choices.new_owner, "chats_to": choices.reader}
    named = {name: person.username for name, person in receivers.items() if person is not None}
    entries.write(
        LogEntry.Kind.OFF_BOARDED, member, Who.of(choices.by), **data, **named, of=member.username
    )


# --- what there is -------------------------------------------------------------------------------
def _filter_live_turns(member: Member) -> "QuerySet[Turn]":
    return Turn.objects.filter(
        conversation__owner=member, state__in=Turn.LIVE, stop_requested=False
    )


def _filter_links(member: Member) -> "QuerySet[SharedLink]":
    return SharedLink.objects.filter(conversation__owner=member, revoked_at=None)


def _filter_delegations(member: Member) -> "QuerySet[StandIn]":
    return StandIn.objects.filter(Q(approver=member) | Q(stand_in=member))


def _filter_services(member: Member) -> "QuerySet[Service]":
    return Service.objects.filter(owner=member, is_enabled=True)


def _filter_opened(member: Member) -> "QuerySet[Service]":
    """Return the own services, also those that are switched off, with a key, token or secret."""
    has_credential = Exists(Credential.objects.filter(service=OuterRef("pk")))
    has_client = Exists(OAuthClient.objects.filter(service=OuterRef("pk")))
    has_grant = Exists(OAuthGrant.objects.filter(service=OuterRef("pk")))
    own = Service.objects.filter(owner=member)
    return own.filter(has_credential | has_client | has_grant)


def _filter_projects(member: Member) -> "QuerySet[Project]":
    return Project.objects.filter(owner=member, deleted_at=None)


def _count_sign_ins(member: Member) -> int:
    held = OAuthGrant.objects.filter(person=member).count()
    return held + CompanySignIn.objects.filter(person=member).count()


# --- what is done --------------------------------------------------------------------------------
def _stop_answers(member: Member, _choices: Choices) -> None:
    """Stop what runs, and end what waits for an approval, an answer or a sign-in."""
    chats = Conversation.objects.filter(owner=member)
    QueuedMessage.objects.filter(conversation__in=chats).update(is_urgent=False)
    for conversation in chats.filter(turns__state__in=Turn.LIVE).distinct():
        intake.stop(conversation)


def _end_sign_ins(member: Member, _choices: Choices) -> None:
    """Delete the tokens, which revokes them at the servers that can do so."""
    for model in (CompanySignIn, OAuthGrant, OAuthAttempt, OAuthChallenge):
        model._default_manager.filter(person=member).delete()


def _close_services(member: Member, _choices: Choices) -> None:
    for service in _filter_services(member):
        service.is_enabled = False
        service.save(update_fields=["is_enabled"])
    ServiceDraft.objects.filter(person=member).delete()


def _delete_credentials(member: Member, _choices: Choices) -> None:
    opened = list(_filter_opened(member))
    for credential in Credential.objects.filter(service__in=opened).select_related("service"):
        credential.delete()
    for model in (OAuthGrant, OAuthClient):
        model.objects.filter(service__in=opened).delete()


def _revoke_links(member: Member, _choices: Choices) -> None:
    for link in _filter_links(member).select_related("conversation__owner"):
        links.revoke(link)


def _revoke_permissions(member: Member, _choices: Choices) -> None:
    for consent in Consent.objects.filter(person=member, revoked_at=None).select_related(
        "service", "person"
    ):
        consents.revoke(consent)


def _end_delegations(member: Member, _choices: Choices) -> None:
    for row in _filter_delegations(member):
        row.delete()


def _revoke_invitations(member: Member, choices: Choices) -> None:
    invitations.revoke_all(member, by=choices.by)


def _hand_over_projects(member: Member, choices: Choices) -> None:
    project_owners.hand_over_all(member, by=choices.by, heir=choices.new_owner)


def _leave_projects(member: Member, _choices: Choices) -> None:
    for row in ProjectMember.objects.filter(person=member).select_related("project__owner"):
        project_members.remove_member(row.project, member.pk, member)


def _hand_over_chats(member: Member, choices: Choices) -> None:
    if choices.reader is None:
        return
    for chat in handing_over.filter_to_hand_over(member).select_related("owner"):
        handing_over.hand_over(chat, choices.reader, by=choices.by, reason=choices.reason)


STEPS = (
    Step(
        name="sessions",
        icon="system",
        count=lambda member: UserSession.objects.filter(user=member).count(),
        describe=lambda n: ngettext("%(n)s session ends", "%(n)s sessions end", n) % {"n": n},
        help=lambda: _("Open pages close at once."),
    ),
    Step(
        name="tokens",
        icon="key",
        count=lambda member: AccessToken.objects.filter(person=member, revoked_at=None).count(),
        describe=lambda n: (
            ngettext("%(n)s access token is revoked", "%(n)s access tokens are revoked", n)
            % {"n": n}
        ),
        help=lambda: _("Programs that use them stop working."),
    ),
    Step(
        name="factors",
        icon="key",
        count=lambda member: (
            Authenticator.objects.filter(user=member).count()
            + SignInLink.objects.filter(member=member, used_at=None, expires_at__gt=Now()).count()
        ),
        describe=lambda n: (
            ngettext(
                "%(n)s passkey, second factor or sign-in link is removed",
                "%(n)s passkeys, second factors and sign-in links are removed",
                n,
            )
            % {"n": n}
        ),
    ),
    Step(
        name="groups",
        icon="people",
        count=lambda member: member.groups.count(),
        describe=lambda n: ngettext("Leaves %(n)s group", "Leaves %(n)s groups", n) % {"n": n},
    ),
    Step(
        name="answers",
        icon="clock",
        count=lambda member: _filter_live_turns(member).count(),
        describe=lambda n: (
            ngettext(
                "%(n)s answer that runs or waits is stopped",
                "%(n)s answers that run or wait are stopped",
                n,
            )
            % {"n": n}
        ),
        help=lambda: _("Open approvals end, and their tools do not run."),
        run=_stop_answers,
    ),
    Step(
        name="sign_ins",
        icon="tools",
        count=_count_sign_ins,
        describe=lambda n: (
            ngettext(
                "%(n)s sign-in to a service is revoked", "%(n)s sign-ins to services are revoked", n
            )
            % {"n": n}
        ),
        help=lambda: _("At the service where it supports that. The tokens here are deleted."),
        run=_end_sign_ins,
    ),
    Step(
        name="services",
        icon="no",
        count=lambda member: _filter_services(member).count(),
        describe=lambda n: (
            ngettext("%(n)s own service is closed", "%(n)s own services are closed", n) % {"n": n}
        ),
        help=lambda: _("Nobody can use it any more."),
        run=_close_services,
    ),
    Step(
        name="credentials",
        icon="key",
        count=lambda member: _filter_opened(member).count(),
        describe=lambda n: (
            ngettext(
                "The credentials of %(n)s own service are deleted",
                "The credentials of %(n)s own services are deleted",
                n,
            )
            % {"n": n}
        ),
        help=lambda: _("Keys, tokens and secrets, also of services that are switched off."),
        run=_delete_credentials,
    ),
    Step(
        name="links",
        icon="send",
        count=lambda member: _filter_links(member).count(),
        describe=lambda n: (
            ngettext("%(n)s shared link is revoked", "%(n)s shared links are revoked", n) % {"n": n}
        ),
        run=_revoke_links,
    ),
    Step(
        name="permissions",
        icon="check",
        count=lambda member: Consent.objects.filter(person=member, revoked_at=None).count(),
        describe=lambda n: (
            ngettext("%(n)s permission is revoked", "%(n)s permissions are revoked", n) % {"n": n}
        ),
        run=_revoke_permissions,
    ),
    Step(
        name="delegates",
        icon="two",
        count=lambda member: _filter_delegations(member).count(),
        describe=lambda n: ngettext("%(n)s delegation ends", "%(n)s delegations end", n) % {"n": n},
        help=lambda: _("Those that they gave and those that they got."),
        run=_end_delegations,
    ),
    Step(
        name="invitations",
        icon="send",
        count=lambda member: invitations.filter_revocable(member).count(),
        describe=lambda n: (
            ngettext("%(n)s invitation is revoked", "%(n)s invitations are revoked", n) % {"n": n}
        ),
        run=_revoke_invitations,
    ),
    Step(
        name="projects",
        icon="file",
        count=lambda member: _filter_projects(member).count(),
        describe=lambda n: (
            ngettext("%(n)s project gets a new owner", "%(n)s projects get a new owner", n)
            % {"n": n}
        ),
        run=_hand_over_projects,
    ),
    Step(
        name="memberships",
        icon="file",
        count=lambda member: ProjectMember.objects.filter(person=member).count(),
        describe=lambda n: (
            ngettext("Leaves %(n)s project of others", "Leaves %(n)s projects of others", n)
            % {"n": n}
        ),
        run=_leave_projects,
    ),
    Step(
        name="chats",
        icon="chat",
        count=lambda member: handing_over.filter_to_hand_over(member).count(),
        describe=lambda n: (
            ngettext("%(n)s chat is kept or handed over", "%(n)s chats are kept or handed over", n)
            % {"n": n}
        ),
        help=lambda: _("As you choose below."),
        run=_hand_over_chats,
    ),
)
NAMES = {step.name: step for step in STEPS}
