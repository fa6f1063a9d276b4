"""Members and groups as SCIM 2.0 resources (RFC 7643), on top of scim2-models.

The library checks what a directory sends and applies its changes to a resource. Here is which
attributes this server has, and how they become what `directory.py` does. What else a directory
sends, such as roles, entitlements and passwords, is ignored.
"""

from collections.abc import Iterable
from typing import Annotated, Any

from django.db.models import QuerySet
from scim2_models import (
    URN,
    AuthenticationScheme,
    Bulk,
    ChangePassword,
    ComplexAttribute,
    ETag,
    Filter,
    GroupMember,
    Meta,
    Mutability,
    Patch,
    Required,
    Resource,
    ScimPolicy,
    ScimProvider,
    ServiceProviderConfig,
    Sort,
    Uniqueness,
)

from chatapp.models import DirectoryAccount, DirectoryGroup, Member

from .directory import Person

MAX_RESULTS = 200


class Name(ComplexAttribute):
    family_name: str | None = None
    given_name: str | None = None


class Email(ComplexAttribute):
    """An address, which `directory.py` checks: a directory may have addresses of local domains."""

    value: str | None = None
    type: str | None = None
    primary: bool | None = None


class Membership(ComplexAttribute):
    value: Annotated[str | None, Mutability.read_only] = None
    display: Annotated[str | None, Mutability.read_only] = None


class User(Resource[Any]):
    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, Uniqueness.server, Required.true] = None
    name: Name | None = None
    display_name: str | None = None
    active: bool | None = None
    emails: list[Email] | None = None
    groups: Annotated[list[Membership] | None, Mutability.read_only] = None


class Group(Resource[Any]):
    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, Uniqueness.server, Required.true] = None
    members: list[GroupMember] | None = None


# Entra sends attributes that this server does not have, names entries to remove as a value, and
# replaces the work address of a user that has none.
POLICY = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)


def build_provider(base: str) -> ScimProvider:
    """Return the description of this service, whose addresses begin with `base`."""
    config = ServiceProviderConfig(
        patch=Patch(supported=True),
        bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=Filter(supported=True, max_results=MAX_RESULTS),
        change_password=ChangePassword(supported=False),
        sort=Sort(supported=False),
        etag=ETag(supported=False),
        authentication_schemes=[
            AuthenticationScheme(
                type=AuthenticationScheme.Type.oauthbearertoken,
                name="Bearer token",
                description="A token made by manage.py directory create-token",
                primary=True,
            )
        ],
        meta=Meta(resource_type="ServiceProviderConfig", location=f"{base}/ServiceProviderConfig"),
    )
    return ScimProvider(models=[User, Group], config=config, policy=POLICY)


# --- users ---------------------------------------------------------------------------------
def build_user(member: Member, base: str) -> User:
    account = find_account(member)
    name = Name(family_name=member.last_name or None, given_name=member.first_name or None)
    # The directory does not see an address that the member typed, so that it cannot repeat it and
    # thereby vouch for it.
    email = "" if member.is_email_self_given else member.email
    return User(
        id=str(member.pk),
        external_id=(account.external_id if account else "") or None,
        user_name=member.username,
        name=name if member.first_name or member.last_name else None,
        display_name=member.display_name,
        active=member.is_active,
        emails=[Email(value=email, type="work", primary=True)] if email else None,
        groups=[
            Membership(value=str(group.pk), display=group.display_name)
            for group in member.directory_groups.all()
        ]
        or None,
        meta=Meta(
            resource_type="User",
            created=member.date_joined,
            location=f"{base}/Users/{member.pk}",
        ),
    )


def find_account(member: Member) -> DirectoryAccount | None:
    """Return what the directory stored, or None for a member whom it did not change yet."""
    return getattr(member, "directory_account", None)


def read_person(user: User, *, shown: str = "", is_active: bool = True) -> Person:
    """Return what the resource says. `shown` is the display name that this server made, and
    `is_active` what counts where the resource does not say it. A member without a last name has the
    display name as their first name."""
    name = user.name or Name()
    first, last = name.given_name or "", name.family_name or ""
    if not last and first in ("", shown) and user.display_name:
        first = user.display_name
    return Person(
        username=user.user_name or "",
        first_name=first,
        last_name=last,
        email=_choose_email(user.emails or []),
        external_id=user.external_id or "",
        is_active=is_active if user.active is None else user.active,
    )


def _choose_email(emails: Iterable[Email]) -> str:
    """Return the primary address, or the first one."""
    found = sorted(
        (each for each in emails if each.value), key=lambda each: each.primary is not True
    )
    return str(found[0].value) if found else ""


# --- groups --------------------------------------------------------------------------------
def build_group(group: DirectoryGroup, base: str) -> Group:
    return Group(
        id=str(group.pk),
        external_id=group.external_id or None,
        display_name=group.display_name,
        members=[
            GroupMember(value=str(member.pk), display=member.display_name, ref=None, type="User")
            for member in list_members(group)
        ]
        or None,
        meta=Meta(
            resource_type="Group",
            created=group.created_at,
            location=f"{base}/Groups/{group.pk}",
        ),
    )


def list_members(group: DirectoryGroup) -> list[Member]:
    """Return the members of the group that the directory can see."""
    members = group.members.all()
    return [each for each in members if not (each.is_staff or each.is_superuser)]


def list_groups() -> "QuerySet[DirectoryGroup]":
    return DirectoryGroup.objects.prefetch_related("members")


def read_member_ids(group: Group) -> set[str]:
    return {each.value for each in group.members or [] if each.value}
