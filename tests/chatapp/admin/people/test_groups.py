"""Groups are made and filled in the admin."""

from typing import Any

import pytest
from django.contrib.auth.models import Group

from chatapp.models import Member, PolicyRule, ToolLimit
from tests.conftest import signed_in

pytestmark = pytest.mark.django_db


def test_an_admin_makes_a_group_with_members_and_sees_its_size(
    owner: Member, admin: Member
) -> None:
    formset = {"TOTAL_FORMS": "1", "INITIAL_FORMS": "0", "0-member": str(owner.pk)}
    fields = {f"Member_groups-{name}": value for name, value in formset.items()}
    answered = signed_in(admin).post("/admin/auth/group/add/", {"name": "Finance", **fields})
    assert answered.status_code == 302
    assert list(Group.objects.get(name="Finance").user_set.all()) == [owner]
    page = signed_in(admin).get("/admin/auth/group/").content.decode()
    assert '<td class="field-size">1</td>' in page


def test_a_group_can_be_given_on_a_members_page(owner: Member, admin: Member) -> None:
    page = signed_in(admin).get(f"/admin/chatapp/member/{owner.pk}/change/").content.decode()
    assert 'name="groups"' in page


def test_members_cannot_open_groups(owner: Member) -> None:
    assert signed_in(owner).get("/admin/auth/group/").status_code in (302, 403)


@pytest.mark.parametrize("by_action", [False, True])
def test_a_group_that_a_rule_or_a_limit_names_cannot_be_removed(
    admin: Member, by_action: bool
) -> None:
    """The rule would then be for everybody, and the limit for nobody."""
    names = ("Finance", "Legal", "Free")
    ruled, limited, free = (Group.objects.create(name=name) for name in names)
    PolicyRule.objects.create(name="Small sums", effect="allow").groups.add(ruled)
    ToolLimit.objects.create(group=limited, calls=3)
    for group in (ruled, limited, free):
        values: dict[str, Any] = {"post": "yes"}
        address = f"/admin/auth/group/{group.pk}/delete/"
        if by_action:
            values |= {"action": "delete_selected", "_selected_action": [group.pk]}
            address = "/admin/auth/group/"
        answered = signed_in(admin).post(address, values)
        said = answered.content.decode()
        assert ("The rule “Small sums” uses it." in said) == (group == ruled)
        assert ("The limit “each tool: 3 per day” uses it." in said) == (group == limited)
    assert set(Group.objects.all()) == {ruled, limited}
