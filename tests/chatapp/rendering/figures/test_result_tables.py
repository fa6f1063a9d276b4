"""Which structured results are tables, and that a table hides nothing of them."""

import tracemalloc
from typing import Any

import pytest
from django.test import Client

from chatapp.models import Member
from chatapp.rendering.figures.charts import MAX_ROWS
from chatapp.rendering.figures.result_tables import MAX_CHARACTERS, read_table
from chatapp.rendering.figures.values import TableData
from tests.dom_tree import parse
from tests.turns import rows

MONTHS = TableData(head=("month", "sold"), rows=(("May", "4"), ("June", "7")))
LISTS = [["May", 4], ["June", 7]]
OBJECTS = [{"month": "May", "sold": 4}, {"month": "June", "sold": 7}]
HEAD = ["month", "sold"]


@pytest.mark.parametrize(
    "value",
    [
        OBJECTS,
        {"items": OBJECTS},
        {"data": {"items": OBJECTS}},
        [HEAD, *LISTS],
        {"table": [HEAD, *LISTS]},
        {"columns": HEAD, "rows": LISTS},
        {"headers": HEAD, "data": LISTS},
        {"columns": [{"name": "month"}, {"name": "sold"}], "rows": LISTS},
        {"columns": HEAD, "rows": OBJECTS},
        {"result": {"fields": HEAD, "values": LISTS}},
        {"month": ["May", "June"], "sold": [4, 7]},
    ],
)
def test_each_shape_is_the_same_table(value: Any) -> None:
    assert read_table(value) == MONTHS


@pytest.mark.parametrize(
    ("value", "facts"),
    [
        ({"total": 3, "items": OBJECTS, "more": False}, (("total", "3"), ("more", "no"))),
        ({"columns": HEAD, "rows": LISTS, "took": 0.5}, (("took", "0.5"),)),
        (
            {"page": 1, "data": {"total": 3, "rows": LISTS, "columns": HEAD}},
            (("page", "1"), ("data.total", "3")),
        ),
    ],
)
def test_scalars_beside_the_rows_are_facts(value: Any, facts: Any) -> None:
    table = read_table(value)
    assert table is not None
    assert (table.head, table.rows, table.facts) == (MONTHS.head, MONTHS.rows, facts)


def test_names_and_numbers_are_a_table_of_two_columns() -> None:
    assert read_table({"May": 4, "June": 7}) == TableData(
        head=(), rows=(("May", "4"), ("June", "7"))
    )
    many = {f"day {number}": number for number in range(MAX_ROWS)}
    assert len(read_table(many).rows) == MAX_ROWS  # type: ignore[union-attr]
    assert read_table({**many, "one more": 1}) is None
    nested = read_table({"unit": "kg", "sold": {"May": 4, "June": 7}})
    assert nested == TableData(head=(), rows=(("May", "4"), ("June", "7")), facts=(("unit", "kg"),))


def test_objects_in_objects_are_columns_or_rows_with_names() -> None:
    items = [{"town": "Bern", "at": {"x": 1, "y": 2}}, {"town": "Chur", "at": {"x": 3, "y": 4}}]
    assert read_table(items) == TableData(
        head=("town", "at.x", "at.y"), rows=(("Bern", "1", "2"), ("Chur", "3", "4"))
    )
    named = read_table({"Bern": {"x": 1, "y": 2}, "Chur": {"x": 3, "y": 4}})
    assert named == TableData(
        head=("Name", "x", "y"), rows=(("Bern", "1", "2"), ("Chur", "3", "4"))
    )
    # Nothing tells a field with a dot in its name from one of an object.
    assert read_table([{"at.x": 1, "at": {"x": 2}}]) is None


def test_lists_without_a_head_get_numbers_as_names() -> None:
    for value in [[1, 2], [3, 4]], [["a", "b"], ["c", "d"]], [["a", "a"], ["c", 1]]:
        table = read_table(value)
        assert table is not None
        assert table.head == ("Column 1", "Column 2")
        assert len(table.rows) == 2


@pytest.mark.parametrize(
    "value",
    [
        [],
        [[]],
        [1, 2, 3],
        {"items": []},
        {"items": OBJECTS, "others": OBJECTS},
        {"items": OBJECTS, "deep": {"er": {}}},
        {"a": {"b": {"items": OBJECTS}}},
        [{"deep": {"er": {"est": 1}}}],
        [HEAD, ["May"]],
        {"columns": HEAD, "rows": [["May"]]},
        {"columns": HEAD, "rows": [{"month": "May", "left out": 1}]},
        {"columns": ["a", "a"], "rows": LISTS},
        {"columns": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}], "rows": LISTS},
        {"a": [1, 2], "b": [1]},
        {"a": {"x": 1}, "b": {"y": 1}},
        {"deep": {"er": 1}, "b": 2},
        [{"n": number} for number in range(MAX_ROWS + 1)],
        [{str(number): 1 for number in range(21)}],
        [{"n": "x" * 301}],
        [{"n": "x" * 300, "m": "y" * 300}] * (MAX_CHARACTERS // 600 + 1),
    ],
)
def test_what_a_table_would_hide_is_none(value: Any) -> None:
    assert read_table(value) is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    "value",
    [
        {"columns": [f"c{n}" for n in range(80_000)], "rows": [{}] * 120_000},
        [{f"c{n}-{m}": 1 for m in range(160)} for n in range(500)],
        {f"r{n}": {f"c{m}": 1 for m in range(160)} for n in range(500)},
        [[1] * 100_000, [2] * 100_000],
    ],
    ids=["head", "objects", "named", "lists"],
)
def test_sizes_are_checked_before_cells_are_built(value: Any) -> None:
    """Each of these fits the limit of a result, and would have up to ten billion cells."""
    tracemalloc.start()
    try:
        assert read_table(value) is None
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_a_result_with_500_rows_has_a_table_a_file_and_a_chart(
    owner_client: Client, owner: Member
) -> None:
    series = [{"day": f"d{number}", "sold": number} for number in range(MAX_ROWS)]
    structured = {"total": MAX_ROWS, "<b>unit": "<i>kg", "items": series}
    call = rows.call(rows.turn(owner), result={"content": [], "structured": structured})
    page = parse(owner_client.get(f"/c/{call.turn.conversation_id}/").content.decode())
    assert len(page.one("div", class_="values").one("tbody").all("tr")) == MAX_ROWS
    assert page.one("dl", class_="beside").text == f"total{MAX_ROWS}<b>unit<i>kg"
    file = owner_client.get(f"/calls/{call.pk}/table/").content.decode()
    assert file.count("\n") == MAX_ROWS + 1
    headers = {"HX-Request": "true"}
    chart = owner_client.get(f"/calls/{call.pk}/table/chart", headers=headers).content.decode()
    drawn = parse(chart)
    assert drawn.all("title")[0].text == "Bar chart of sold by day"
    assert drawn.all("desc")[0].text == "500 rows. sold: from 0 (d0) to 499 (d499)."
    whole = owner_client.get(f"/calls/{call.pk}/table/chart").content.decode()
    assert parse(whole).one("dl", class_="beside")
