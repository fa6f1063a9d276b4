"""Who may use a service: one helper answers, and strangers fail at it."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError

from chatapp.models import Member
from mcpconfig.models import Service

pytestmark = pytest.mark.timeout(30)
Visibility = Service.Visibility


def a_service(**fields: Any) -> Service:
    values = {"name": "wiki", "url": "https://wiki.example/mcp", "visibility": "everyone"} | fields
    groups = values.pop("groups", [])
    service = Service.objects.create(**values)
    service.groups.set(groups)
    return service


def may_use(*people: Member) -> list[str]:
    return [person.username for person in people if Service.objects.for_member(person).exists()]


@pytest.fixture
def team() -> Group:
    return Group.objects.create(name="team")


def test_a_service_for_everyone_is_for_every_member(
    owner: Member, admin: Member, stranger: Member
) -> None:
    a_service()
    assert may_use(owner, admin, stranger) == ["owner", "admin", "stranger"]


def test_a_service_is_the_admins_until_somebody_says_for_whom(
    owner: Member, admin: Member, stranger: Member
) -> None:
    Service.objects.create(name="new", url="https://new.example/mcp")
    assert may_use(owner, admin, stranger) == ["admin"]


def test_a_private_service_is_its_owners_alone(
    owner: Member, admin: Member, stranger: Member
) -> None:
    a_service(owner=owner, visibility=Visibility.PRIVATE)
    assert may_use(owner, admin, stranger) == ["owner"]


def test_a_private_service_without_an_owner_is_the_admins(
    owner: Member, admin: Member, stranger: Member
) -> None:
    a_service(visibility=Visibility.PRIVATE)
    assert may_use(owner, admin, stranger) == ["admin"]


def test_a_service_for_groups_is_for_their_members_and_its_owner(
    owner: Member, admin: Member, stranger: Member, team: Group
) -> None:
    colleague = Member.objects.create_user("colleague")
    colleague.groups.add(team, Group.objects.create(name="other"))
    a_service(
        owner=owner, visibility=Visibility.GROUPS, groups=[team, Group.objects.get(name="other")]
    )
    assert may_use(owner, admin, stranger, colleague) == ["owner", "colleague"]
    assert Service.objects.for_member(colleague).count() == 1


def test_groups_count_only_where_the_service_is_for_groups(
    stranger: Member, owner: Member, team: Group
) -> None:
    stranger.groups.add(team)
    a_service(owner=owner, visibility=Visibility.PRIVATE, groups=[team])
    assert may_use(stranger) == []


def test_a_service_that_is_off_is_for_nobody(owner: Member, admin: Member) -> None:
    a_service(owner=owner, is_enabled=False)
    assert may_use(owner, admin) == []


def test_a_deactivated_member_uses_nothing_and_leaves_nothing(
    owner: Member, stranger: Member
) -> None:
    a_service(owner=owner)
    assert may_use(owner, stranger) == ["owner", "stranger"]
    Member.objects.filter(pk=owner.pk).update(is_active=False)
    owner.refresh_from_db()
    assert may_use(owner, stranger) == []


def test_the_choice_narrows_what_it_is_asked_of(owner: Member) -> None:
    a_service()
    a_service(name="mail")
    named = Service.objects.for_member(owner).filter(name="mail")
    assert [service.name for service in named] == ["mail"]


def test_a_service_goes_with_its_owner(owner: Member) -> None:
    a_service(owner=owner)
    owner.delete()
    assert not Service.objects.exists()


def test_a_service_is_personal_while_its_owner_is_no_admin(owner: Member) -> None:
    service = a_service(owner=owner)
    assert service.is_personal
    owner.is_staff, owner.rights = True, ["services"]
    assert not service.is_personal
    assert not a_service(name="mail").is_personal


@pytest.mark.parametrize(
    "icon",
    ["", "W", "7", "é", "📚", "❤️", "👩🏽‍🚀", "🇫🇷", "3️⃣", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "👨‍👩‍👧‍👦"],
)
def test_an_icon_is_an_emoji_or_a_letter(icon: str) -> None:
    Service(name="wiki", url="https://wiki.example/mcp", icon=icon).full_clean()


@pytest.mark.parametrize(
    "icon",
    ["Wi", "📚📚", "<", " ", "\u200b", "📚\u202e", "http://a", "🇫🇷🇩🇪", "\u200d", "\ufe0f", "aé"],
)
def test_anything_else_is_no_icon(icon: str) -> None:
    service = Service(name="wiki", url="https://wiki.example/mcp", icon=icon)
    with pytest.raises(ValidationError, match="one emoji or one letter"):
        service.full_clean()
