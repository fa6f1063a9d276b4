"""Every page of the admin with many rows: the statements are few, and do not grow with the rows."""

import logging
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from chatapp.admin.overview import charts
from chatapp.models import Member
from tests import admin_visits, many_rows
from tests.many_rows import Rows, Sizes
from tests.route_world import build_world

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

MOST_STATEMENTS = 25
# A list with several pages finds the rows of one by their keys, and names those of a filter.
SEVERAL_PAGES = 2
FEW = Sizes(people=10, services=6, tools=40, calls=60, entries=60)
THRICE = Sizes(people=30, services=18, tools=120, calls=180, entries=180)


@pytest.fixture(autouse=True)
def _always_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "KEPT_SECONDS", 1e-6)


@pytest.fixture(autouse=True)
def _no_logging() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def count_statements(client: Client, address: str) -> tuple[int, Any]:
    count = 0

    def counter(execute: Any, *statement: Any) -> Any:
        nonlocal count
        count += 1
        return execute(*statement)

    with connection.execute_wrapper(counter):
        response = client.get(address)
    assert response.status_code < 500, address
    return count, response


def count_of_pages(sizes: Sizes, admin: Member, again: Collection[str] = ()) -> dict[str, int]:
    """Return the statements of each page by name, with so many rows. Some first visits fill caches,
    so the second visit counts of the pages in `again`, and the others are left out."""
    with transaction.atomic():
        owner, stranger = (Member.objects.create_user(name) for name in ("owner", "stranger"))
        rows: Rows = many_rows.fill(sizes)
        world = build_world(owner, stranger, admin)
        client = admin_visits.sign_in(admin)
        chosen = admin_visits.choose_rows(world, rows, client)
        found: dict[str, int] = {}
        for name, address in admin_visits.list_pages(world, chosen):
            if again:
                if not any(each.startswith(name) for each in again):
                    continue
                client.get(address)
            found[name], response = count_statements(client, address)
            assert response.status_code < 400 or response.status_code in (403, 404, 405), name
            for variant, query in admin_visits.list_variants(name, response):
                if ", search" in variant or ", last page" in variant:
                    found[variant] = count_statements(client, f"{address.split('?')[0]}{query}")[0]
        transaction.set_rollback(True)
    return found


def list_growing(few: dict[str, int], many: dict[str, int]) -> dict[str, str]:
    return {
        name: f"{name}: {few.get(name)}, then {count} statements"
        for name, count in many.items()
        if count > few.get(name, count) + SEVERAL_PAGES or count > MOST_STATEMENTS
    }


def test_no_page_of_the_admin_needs_more_statements_with_more_rows(db: None, admin: Member) -> None:
    """Many rows come first, so that few rows are counted with full caches."""
    many, few = count_of_pages(THRICE, admin), count_of_pages(FEW, admin)
    assert len(few) > 200
    growing = list_growing(few, many)
    if growing:
        growing = list_growing(few, count_of_pages(THRICE, admin, again=growing))
    assert not growing, "\n".join(growing.values())
