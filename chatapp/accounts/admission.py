"""Who may come in by a provider, and what the provider decides about them. Pure, but for groups."""

from collections.abc import Mapping
from typing import Any

from allauth.account.models import EmailAddress
from django.contrib.auth.models import Group
from django.utils.translation import gettext_lazy

from chatapp.models import Member
from chatapp.server.sign_in_providers import SignInProvider

Claims = Mapping[str, Any]

NO_EMAIL = gettext_lazy("The provider did not send a verified email address of an allowed domain.")
NO_GROUP = gettext_lazy("You are not in a group that may use Countersign.")
NO_CLAIM = gettext_lazy("Your account at the provider may not use Countersign.")


def find_refusal(provider: SignInProvider, claims: Claims, emails: list[str]) -> Any:
    """Return why this person may not come in, or None. `emails` are their verified addresses."""
    if provider.allowed_domains and not any(
        email.rpartition("@")[2].lower() in provider.allowed_domains for email in emails
    ):
        return NO_EMAIL
    if provider.required_groups and not read_groups(provider, claims).intersection(
        provider.required_groups
    ):
        return NO_GROUP
    if any(claims.get(name) != value for name, value in provider.required_claims.items()):
        return NO_CLAIM
    return None


def read_groups(provider: SignInProvider, claims: Claims) -> set[str]:
    """Return the groups in the claim. A claim of another form has none."""
    found = claims.get(provider.groups_claim)
    if isinstance(found, str):
        return {found}
    return {each for each in found if isinstance(each, str)} if isinstance(found, list) else set()


def apply_groups(provider: SignInProvider, claims: Claims, member: Member) -> None:
    """Add the member to the groups of the claim, and remove them from the others that the mapping
    names. Other groups stay as they are."""
    set_mapped_groups(member, provider.groups, read_groups(provider, claims))


def set_mapped_groups(member: Member, mapping: Mapping[str, str], held: set[str]) -> None:
    """Put the member into the groups that the mapping names for what they hold elsewhere, and take
    them from the other groups that it names."""
    wanted = {name for value, name in mapping.items() if value in held}
    mapped = set(mapping.values())
    has = set(member.groups.filter(name__in=mapped).values_list("name", flat=True))
    if new := wanted - has:
        member.groups.add(*(Group.objects.get_or_create(name=name)[0] for name in sorted(new)))
    if old := has - wanted:
        member.groups.remove(*Group.objects.filter(name__in=old))


def is_taken(email: str) -> bool:
    """Whether an account has this address from an admin or a provider. An address that a member
    typed keeps nobody out: anybody can type one."""
    return bool(email) and (
        Member.objects.filter(email__iexact=email, is_email_self_given=False).exists()
        or EmailAddress.objects.filter(email__iexact=email, verified=True).exists()
    )


def find_member_by_email(provider: SignInProvider, emails: list[str]) -> Member | None:
    """Return the one active member whose address is one of these, where the provider is declared to
    link by address. An address that the member typed counts for nothing: anybody can type one."""
    if not provider.links_by_email:
        return None
    found: set[Member] = set()
    for email in emails:
        found |= set(
            Member.objects.filter(email__iexact=email, is_active=True, is_email_self_given=False)[
                :2
            ]
        )
    return found.pop() if len(found) == 1 else None
