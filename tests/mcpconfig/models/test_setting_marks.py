"""Whatever changes a tool's settings, the sum of their marks tells that something did."""

from collections.abc import Callable

import pytest
from django.db.models import Sum

from mcpconfig.models import Service, ToolSetting

pytestmark = pytest.mark.django_db
NAME = {"name": "delete_memo"}


@pytest.fixture
def service() -> Service:
    service = Service.objects.create(name="memos", url="https://memos.test/mcp")
    ToolSetting.objects.create(service=service, **NAME)
    ToolSetting.objects.create(service=service, name="list_memos")
    return service


def total(service: Service) -> int:
    return int(service.settings.aggregate(total=Sum("mark"))["total"])


def saved(service: Service) -> None:
    setting = service.settings.get(**NAME)
    setting.level = "high"
    setting.save()


def saved_in_part(service: Service) -> None:
    setting = service.settings.get(**NAME)
    setting.level = "high"
    setting.save(update_fields=["level"])


@pytest.mark.parametrize(
    "change",
    [
        saved,
        saved_in_part,
        lambda service: service.settings.filter(**NAME).update(is_enabled=False),
        lambda service: ToolSetting.objects.update_or_create(
            service=service, name=NAME["name"], defaults={"confirmed_hash": "x"}
        ),
        lambda service: ToolSetting.objects.create(service=service, name="new"),
        lambda service: ToolSetting.objects.bulk_create([ToolSetting(service=service, name="new")]),
        lambda service: ToolSetting.objects.bulk_update(
            [*service.settings.filter(**NAME)], ["is_enabled"]
        ),
        lambda service: service.settings.filter(**NAME).delete(),
    ],
)
def test_each_way_to_change_a_setting_shows_in_the_sum(
    service: Service, change: Callable[[Service], object]
) -> None:
    before = total(service)
    change(service)
    assert total(service) != before


def test_reading_changes_nothing(service: Service) -> None:
    before = total(service)
    service.settings.get(**NAME).refresh_from_db()
    assert total(service) == before
