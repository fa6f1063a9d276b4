"""The page of a provider shows what its models cost so far, by model and by person."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.models import Member, ModelProvider, Turn, UsageOfDay
from tests.dom_tree import parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
MOST_STATEMENTS = 25


@pytest.fixture
def provider() -> ModelProvider:
    return ModelProvider.objects.create(slug="team", kind="openai-chat", label="Team")


def use(person: Member, model: str, cost: str, days: int = 0, currency: str = "USD") -> None:
    UsageOfDay.objects.create(
        person=person,
        day=timezone.now().date() - timedelta(days=days),
        model=model,
        currency=currency,
        calls=1,
        input_tokens=1_000,
        output_tokens=500,
        cost=Decimal(cost),
    )


def open_page(client: Client, provider: ModelProvider) -> str:
    answer: Any = client.get(f"/admin/chatapp/modelprovider/{provider.pk}/change/")
    page = parse(answer.content.decode())
    return " ".join(page.one(id="provider-usage").text.split())


def test_costs_are_summed_by_period_model_and_person(
    admin_client: Client, provider: ModelProvider, owner: Member, stranger: Member
) -> None:
    use(owner, "team:large", "1.50")
    use(stranger, "team:small", "2.25")
    use(owner, "team:small", "100", days=400)
    use(owner, "teamwork:large", "7777")
    shown = open_page(admin_client, provider)
    assert "Today3.75 USD3,000 tokens in 2 calls" in shown
    assert "In all103.75 USD" in shown
    assert "7,777" not in shown
    assert shown.index("stranger") < shown.index("owner", shown.index("stranger"))


def test_failed_answers_are_counted(
    admin_client: Client, provider: ModelProvider, owner: Member
) -> None:
    rows.turn(owner, Turn.State.FAILED)
    rows.turn(owner, Turn.State.DONE)
    Turn.objects.update(model="team:large")
    assert "1 of 2 answers failed in 30 days" in open_page(admin_client, provider)


def test_the_errors_lead_to_the_answers_that_failed(
    admin_client: Client, provider: ModelProvider, owner: Member
) -> None:
    ours, _other, old = (rows.turn(owner, Turn.State.FAILED) for _ in range(3))
    Turn.objects.filter(pk=ours.pk).update(model="team:large")
    past = timezone.now() - timedelta(days=40)
    Turn.objects.filter(pk=old.pk).update(model="team:large", created_at=past)
    answer: Any = admin_client.get(f"/admin/chatapp/modelprovider/{provider.pk}/change/")
    (link,) = (
        link["href"]
        for link in parse(answer.content.decode()).all("a")
        if "answers failed" in link.text
    )
    listed: Any = admin_client.get(link)
    assert [turn.pk for turn in listed.context_data["cl"].queryset] == [ours.pk]


def test_a_model_in_two_currencies_is_counted_once(
    admin_client: Client, provider: ModelProvider, owner: Member
) -> None:
    for number in range(40):
        for currency in ("USD", "EUR"):
            use(owner, f"team:model-{number}", "1", currency=currency)
    shown = open_page(admin_client, provider)
    (more,) = re.findall(r"(\d+) more models", shown)
    listed = set(re.findall(r"model-\d+", shown.split("more models")[0]))
    assert int(more) + len(listed) == 40


def test_a_provider_that_was_never_used_says_so(
    admin_client: Client, provider: ModelProvider
) -> None:
    assert "never used" in open_page(admin_client, provider)


def test_the_page_is_bounded(
    admin_client: Client, provider: ModelProvider, django_assert_max_num_queries: Any
) -> None:
    for number in range(60):
        use(Member.objects.create_user(f"person-{number}"), f"team:model-{number}", "1")
    with django_assert_max_num_queries(MOST_STATEMENTS):
        shown = open_page(admin_client, provider)
    assert "10 more models" in shown
    assert shown.count("person-") == 10
