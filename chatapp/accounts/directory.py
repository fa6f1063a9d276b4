"""What a company's directory does here: people join, change and leave, and its groups are kept.

It never reaches admins, whose accounts it neither sees nor changes, and it makes nobody an admin.
It activates nobody whom an admin deactivated. All verbs write entries of the activity log.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from chatapp.api import access_tokens
from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who, get_actor
from chatapp.models import (
    DirectoryAccount,
    DirectoryGroup,
    DirectoryToken,
    LogEntry,
    Member,
)
from chatapp.people.refused import Refused
from chatapp.people.signals import notify
from mcpconfig.values.numbers import read_number

from . import entries
from .admission import set_mapped_groups
from .lock_out import end_access

Kind = LogEntry.Kind
MAX_NAME = 150
MAX_ID = 255
# The directory sees and changes no admins.
NO_ADMIN = Q(is_staff=False, is_superuser=False)
# Fields of a member whose changes are no entries of the log by themselves.
UNLOGGED = ("first_name", "last_name", "email")


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A member as the directory describes them."""

    username: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    external_id: str = ""
    is_active: bool = True


# --- tokens --------------------------------------------------------------------------------
def create_token(name: str) -> tuple[DirectoryToken, str]:
    with transaction.atomic():
        token, text = DirectoryToken.make(name)
        _log_token(Kind.TOKEN_MADE, token)
    return token, text


def revoke_token(token: DirectoryToken) -> bool:
    """Revoke the token for all further requests. Return whether it was still in use."""
    with transaction.atomic():
        mine = DirectoryToken.objects.filter(pk=token.pk, revoked_at=None)
        if not mine.update(revoked_at=timezone.now()):
            return False
        _log_token(Kind.TOKEN_REVOKED, token)
    return True


def note_use(token: DirectoryToken) -> None:
    """Store when the token was last used, to the minute."""
    before = timezone.now() - access_tokens.NOTED_EVERY
    if token.last_used_at is None or token.last_used_at < before:
        DirectoryToken.objects.filter(pk=token.pk).update(last_used_at=timezone.now())


def _log_token(kind: LogEntry.Kind, token: DirectoryToken) -> None:
    data = {"of": f"directory token {token.name}", "prefix": token.prefix}
    entries.write(kind, None, get_actor(), **data)


# --- people --------------------------------------------------------------------------------
def list_people() -> QuerySet[Member]:
    """Return the members that the directory can see: no admins, and nobody whom it deleted."""
    people = Member.objects.filter(NO_ADMIN)
    return (
        people.exclude(directory_account__has_left=True)
        .select_related("directory_account")
        .prefetch_related("directory_groups")
        .order_by("pk")
    )


def join(person: Person) -> Member:
    """Make a member, or bring back one whom the directory deleted. Raises Refused."""
    with transaction.atomic():
        former = _find_former(person.username)
        if former is None:
            return _load(_add(person))
        former = lock_member(former)
        DirectoryAccount.objects.filter(member=former).update(has_left=False)
        return change(former, person)


def _add(person: Person) -> Member:
    member = Member(username=person.username, is_active=person.is_active)
    _check_username(person.username, member)
    member.set_unusable_password()
    _describe(member, person)
    member.save()
    DirectoryAccount.objects.create(
        member=member,
        external_id=person.external_id[:MAX_ID],
        is_suspended=not person.is_active,
    )
    return member


def change(member: Member, person: Person) -> Member:
    """Make the member what the directory says. Raises Refused."""
    with transaction.atomic():
        member = lock_member(member)
        account, _is_new = DirectoryAccount.objects.get_or_create(member=member)
        _check_username(person.username, member)
        before = {name: "set" if getattr(member, name) else "not set" for name in UNLOGGED}
        changed = _describe(member, person)
        if person.is_active and not member.is_active:
            _check_may_activate(account)
            member.is_active = True
            changed.append("is_active")
        if changed:
            member.save(update_fields=[*changed, "is_email_self_given"])
            _log_change(member, [name for name in changed if name in UNLOGGED], before)
        account.external_id = person.external_id[:MAX_ID]
        if person.is_active:
            account.is_suspended = False
        account.save()
        if not person.is_active:
            _suspend(member, account)
        _apply_groups([member])
    return _load(member)


def leave(member: Member) -> None:
    """Deactivate the member. Their chats and entries of the log stay; the directory no longer sees
    them until it creates them again."""
    with transaction.atomic():
        member = lock_member(member)
        account, _is_new = DirectoryAccount.objects.get_or_create(member=member)
        _suspend(member, account)
        account.has_left = True
        account.save()
        groups = list(DirectoryGroup.objects.filter(members=member))
        member.directory_groups.clear()
        _apply_groups([member])
        _log_memberships("taken from", [member], groups)


def _suspend(member: Member, account: DirectoryAccount) -> None:
    """Deactivate the member and end their access."""
    if member.is_active:
        member.is_active = False
        member.save(update_fields=["is_active"])
        account.is_suspended = True
        account.save()
    end_access(member)
    notify(member.pk)


def note_admins_choice(member: Member) -> None:
    """Leave to admins what one of them decided about this member: the directory activates nobody
    whom it did not deactivate itself since."""
    DirectoryAccount.objects.filter(member=member).update(is_suspended=False)


def _check_may_activate(account: DirectoryAccount) -> None:
    if not account.is_suspended:
        raise Refused(_("An admin deactivated this member, so only an admin can activate it."), 403)


def _check_username(username: str, member: Member) -> None:
    """Raises Refused for a name that cannot be used, or is somebody else's."""
    try:
        UnicodeUsernameValidator()(username)
    except ValidationError as error:
        raise Refused(f"userName: {error.messages[0]}", 400) from None
    if not 0 < len(username) <= MAX_NAME:
        raise Refused(_("userName must have 1 to %(most)s characters.") % {"most": MAX_NAME}, 400)
    if Member.objects.filter(username__iexact=username).exclude(pk=member.pk).exists():
        raise Refused(_("Another member has this username."), 409)


def _find_former(username: str) -> Member | None:
    """Return the member of this name whom the directory deleted and nobody made an admin."""
    gone = Member.objects.filter(directory_account__has_left=True, username__iexact=username)
    return gone.filter(NO_ADMIN).first()


def lock_member(member: Member) -> Member:
    """Lock the row until the caller's transaction ends, read it again, and check again that it is
    not an admin's. Raises Refused."""
    rows = Member.objects.select_for_update().filter(NO_ADMIN)
    found = rows.filter(pk=member.pk).first()
    if found is None:
        raise Refused(_("There is no such member."), 404)
    return found


def _describe(member: Member, person: Person) -> list[str]:
    """Copy what the directory says. Return the names of the fields that changed. Raises Refused.

    An address of the directory counts as verified: it lets the member's provider in. One that the
    member typed stays as it is until the directory names one.
    """
    if person.email:
        try:
            validate_email(person.email)
        except ValidationError as error:
            raise Refused(f"emails: {error.messages[0]}", 400) from None
    values = {
        "username": person.username,
        "first_name": person.first_name[:MAX_NAME],
        "last_name": person.last_name[:MAX_NAME],
        "email": person.email or (member.email if member.is_email_self_given else ""),
    }
    changed = [name for name, value in values.items() if getattr(member, name) != value]
    if person.email and member.is_email_self_given and "email" not in changed:
        changed.append("email")  # from now on it is the directory's
    for name in changed:
        setattr(member, name, values[name])
    if "email" in changed:
        member.is_email_self_given = False
    return changed


def _log_change(member: Member, names: list[str], before: dict[str, str]) -> None:
    """Log which fields the directory changed. The log outlives an account, so values stay out."""
    if names:
        after = {name: "set" if getattr(member, name) else "not set" for name in names}
        changed = {name: {"before": before[name], "after": after[name]} for name in names}
        title = _name(member)
        entries.write(Kind.MEMBER, member, get_actor(), of=title, act="changed", changed=changed)


def _load(member: Member) -> Member:
    return list_people().get(pk=member.pk)


def _name(member: Member) -> str:
    return f"member {member.username}"


# --- groups --------------------------------------------------------------------------------
def create_group(name: str, external_id: str, member_ids: Iterable[str]) -> DirectoryGroup:
    """Raises Refused."""
    with transaction.atomic():
        _check_group_name(name, None)
        group = DirectoryGroup.objects.create(display_name=name, external_id=external_id[:MAX_ID])
        _set_members(group, member_ids)
        _log_group("added", "", name)
    return group


def change_group(
    group: DirectoryGroup, name: str, external_id: str, member_ids: Iterable[str]
) -> DirectoryGroup:
    """Raises Refused."""
    with transaction.atomic():
        group = lock_group(group)
        _check_group_name(name, group)
        was = group.display_name
        group.display_name, group.external_id = name, external_id[:MAX_ID]
        group.save()
        _set_members(group, member_ids)
        if was != name:
            _apply_groups(group.members.all())
            _log_group("changed", was, name)
    return group


def lock_group(group: DirectoryGroup) -> DirectoryGroup:
    """Lock the row until the caller's transaction ends, and read it again. Raises Refused."""
    found = DirectoryGroup.objects.select_for_update().filter(pk=group.pk).first()
    if found is None:
        raise Refused(_("There is no such group."), 404)
    return found


def delete_group(group: DirectoryGroup) -> None:
    with transaction.atomic():
        members = list(group.members.all())
        group.delete()
        _apply_groups(members)
        _log_group("removed", group.display_name, "")


def _set_members(group: DirectoryGroup, member_ids: Iterable[str]) -> None:
    wanted = _find_members(set(member_ids))
    # An admin stays in the group, as the directory does not see them there.
    has = set(group.members.filter(NO_ADMIN))
    new, old = wanted - has, has - wanted
    group.members.add(*new)
    group.members.remove(*old)
    _apply_groups(new | old)
    _log_memberships("put into", new, [group])
    _log_memberships("taken from", old, [group])


def _find_members(ids: set[str]) -> set[Member]:
    """Raises Refused for an id that is nobody's. Admins cannot be named."""
    numbers = map(read_number, ids)
    known = [each for each in numbers if each is not None]
    found = set(list_people().filter(pk__in=known))
    if missing := sorted(ids - {str(each.pk) for each in found}):
        raise Refused(_("There is no member with the id %(id)s.") % {"id": missing[0][:40]}, 400)
    return found


def _check_group_name(name: str, group: DirectoryGroup | None) -> None:
    if not 0 < len(name) <= MAX_ID:
        raise Refused(_("displayName must have 1 to %(most)s characters.") % {"most": MAX_ID}, 400)
    same = DirectoryGroup.objects.filter(display_name=name)
    if (same.exclude(pk=group.pk) if group else same).exists():
        raise Refused(_("Another group has this displayName."), 409)


def _apply_groups(members: Iterable[Member]) -> None:
    """Put members into the groups here that those of the directory stand for. Who is deactivated
    holds none of them."""
    mapping = settings.SCIM_GROUPS
    if not mapping:
        return
    ids = [member.pk for member in members]
    held: dict[int, set[str]] = defaultdict(set)
    in_directory = DirectoryGroup.objects.filter(members__in=ids)
    for member_id, name in in_directory.values_list("members", "display_name"):
        held[member_id].add(name)
    has: dict[int, set[str]] = defaultdict(set)
    here = Group.objects.filter(name__in=mapping.values(), user__in=ids)
    for member_id, name in here.values_list("user", "name"):
        has[member_id].add(name)
    # An admin's groups are the admins' business, also if the directory named them before.
    for member in Member.objects.filter(NO_ADMIN, pk__in=ids):
        names = held[member.pk] if member.is_active else set()
        if {mapping[name] for name in names if name in mapping} != has[member.pk]:
            set_mapped_groups(member, mapping, names)


def _log_group(act: str, before: str, after: str) -> None:
    title = f"directory group {before or after}"
    changed = {"name": {"before": before, "after": after}}
    entries.write(Kind.MEMBER, None, get_actor(), of=title, act=act, changed=changed)


def _log_memberships(act: str, members: Iterable[Member], groups: Iterable[DirectoryGroup]) -> None:
    names = sorted(f"directory group {group.display_name}" for group in groups)
    if not names:
        return
    audit_log.append(
        [
            AuditEvent(
                kind=Kind.MEMBER,
                data={"of": _name(member), "act": act, "groups": names},
                actor=get_actor(),
                person=Who.of(member),
            )
            for member in sorted(members, key=lambda each: each.pk)
        ]
    )
