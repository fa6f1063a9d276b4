"""Policy is read in one statement, and is what the ORM reads."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp.models import Consent, HousePolicy, Member, PolicyRule, SecondSignature, ToolLimit
from chatapp.policy.stored_policy import (
    Policy,
    build_consent,
    build_house,
    build_person_facts,
    filter_live_consents,
    load_admin_rules,
    load_daily_limits,
    load_policy,
)
from mcpconfig.models import Service

pytestmark = pytest.mark.django_db


@pytest.fixture
def person() -> Member:
    made = Member.objects.create_user("owner")
    made.groups.add(Group.objects.create(name="Sales"), Group.objects.create(name="Board"))
    return made


def read_by_orm(person: Member) -> Policy:
    house = HousePolicy.current()
    consents = filter_live_consents(person, house).select_related("service")
    return Policy(
        person=build_person_facts(person),
        house=build_house(house),
        rules=(
            *load_admin_rules(),
            *load_daily_limits(),
            *(build_consent(row) for row in consents.filter(conversation=None)),
        ),
    )


def test_without_rows_it_is_the_defaults(person: Member) -> None:
    assert load_policy(person, None) == read_by_orm(person)


def test_every_row_and_each_of_its_values_counts(person: Member) -> None:
    service = Service.objects.create(
        name="files", url="https://files.example", visibility="everyone"
    )
    two = SecondSignature.objects.create(
        name="Two",
        approvers=Group.objects.create(name="Approvers"),
        deadline_hours=3,
        escalates_after_hours=2,
        escalation=Group.objects.create(name="Others"),
    )
    HousePolicy.objects.create(
        asks_everything=True,
        runs_up_to="",
        widest_consent="always",
        consents_to_high=True,
        consent_days=7,
        types_high=True,
        allowed_hosts="example.com\n*.example.org",
        medium_needs=two,
    )
    group = person.groups.get(name="Sales")
    rule = PolicyRule.objects.create(
        name="One",
        effect="ask",
        service=service,
        tool="delete",
        levels=["low", "high"],
        condition='path == "a"',
        note="Say “why” \\ \n 🦉",
        wants_typing=True,
        second=two,
    )
    rule.groups.add(group)
    PolicyRule.objects.create(name="Own", effect="allow", is_core=True)
    PolicyRule.objects.create(name="Off", effect="deny", is_enabled=False)
    ToolLimit.objects.create(calls=3, service=service, tool="delete", group=group)
    ToolLimit.objects.create(calls=9, is_core=True)
    Consent.objects.create(
        person=person,
        service=service,
        endpoint=service.endpoint,
        scope="always",
        definitions={"delete": "a" * 64},
    )
    found = load_policy(person, None)
    assert found == read_by_orm(person)
    assert len(found.rules) == 5
    assert found.house.demands and isinstance(found.house.asks_everything, bool)


def test_a_change_counts_at_once(person: Member) -> None:
    rule = PolicyRule.objects.create(name="One", effect="allow")
    assert load_policy(person, None) == read_by_orm(person)
    PolicyRule.objects.filter(pk=rule.pk).update(effect="deny")
    assert load_policy(person, None) == read_by_orm(person)
    PolicyRule.objects.all().delete()
    assert load_policy(person, None).rules == ()


def test_a_lapsed_and_a_revoked_consent_do_not_count(person: Member) -> None:
    service = Service.objects.create(
        name="files", url="https://files.example", visibility="everyone"
    )
    given = {"person": person, "service": service, "endpoint": service.endpoint}
    old = Consent.objects.create(**given, scope="always", definitions={"a": "b"})
    Consent.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=91))
    Consent.objects.create(**given, scope="always", definitions={}, revoked_at=timezone.now())
    assert load_policy(person, None).rules == ()


def test_it_is_one_statement_however_many_rules_there_are(person: Member) -> None:
    for number in range(5):
        PolicyRule.objects.create(name=str(number), effect="ask").groups.set(person.groups.all())
    with CaptureQueriesContext(connection) as asked:
        assert len(load_policy(person, None).rules) == 5
    assert len(asked) == 1
