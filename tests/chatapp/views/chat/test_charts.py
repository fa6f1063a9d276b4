"""Charts of tables: what is drawn, what cannot be, and who gets it."""

from xml.etree import ElementTree

import pytest
from django.test import Client

from chatapp.models import Member, Part, Turn
from tests.dom_tree import Element, parse
from tests.turns import rows

SVG = "{http://www.w3.org/2000/svg}"
HTMX = {"HX-Request": "true"}
RATES = (
    "| Time | Errors | Requests |\n|---|--:|--:|\n| 12:00 | 6 % | 1,200 |\n| 13:00 | 8 % | 900 |\n"
)


def say(owner: Member, text: str) -> Part:
    return rows.said(rows.turn(owner, Turn.State.DONE), text)


def address(part: Part, query: str = "") -> str:
    return f"/messages/{part.message_id}/figures/{part.step}/{part.position}/0/chart{query}"


def open_chart(client: Client, part: Part, query: str = "") -> Element:
    return parse(client.get(address(part, query), headers=HTMX).content.decode())


def table(*lines: str) -> str:
    return "| a | b |\n|---|---|\n" + "".join(f"| {line} |\n" for line in lines)


def test_a_chart_opens_in_the_place_of_its_table(owner_client: Client, owner: Member) -> None:
    part = say(owner, RATES)
    page = open_chart(owner_client, part)
    assert page.elements[0]["class"] == "chart view"
    assert len(page.all("svg", role="img")) == 2
    drawing = page.all("svg", role="img")[0]
    assert drawing.all("title")[0].text == "Bar chart of Errors by Time"
    assert drawing.one("desc").text == "2 rows. Errors: from 6 % (12:00) to 8 % (13:00)."
    # Requests have another unit, so they are not drawn on the same scale unless a person wants it.
    chosen = [box["value"] for box in page.all("input", name="values") if "checked" in box]
    assert chosen == ["1"]


def test_a_chart_is_a_page_without_javascript(owner_client: Client, owner: Member) -> None:
    part = say(owner, RATES)
    page = parse(owner_client.get(address(part)).content.decode())
    assert page.one("h1").text == "Chart"
    assert [each.text for each in page.one("table").all("td")][:3] == ["12:00", "6 %", "1,200"]
    assert f"/messages/{part.message_id}/" in [link["href"] for link in page.all("a")]


def test_a_person_chooses_kind_labels_and_values(owner_client: Client, owner: Member) -> None:
    page = open_chart(owner_client, say(owner, RATES), "?kind=line&labels=1&values=2")
    drawing = page.all("svg", role="img")[0]
    assert drawing.all("title")[0].text == "Line chart of Requests by Errors"
    assert drawing.with_class("line")
    assert not drawing.with_class("bar")


def test_a_chart_is_a_file_that_is_valid_on_its_own(owner_client: Client, owner: Member) -> None:
    part = say(owner, RATES.replace("12:00", "a & \x0b<b>"))
    answer = owner_client.get(address(part, "?kind=bar&labels=0&values=1&values=2&save"))
    assert answer["Content-Type"] == "image/svg+xml"
    assert answer["Content-Disposition"] == 'attachment; filename="chart.svg"'
    assert "sandbox" in answer["Content-Security-Policy"]
    root = ElementTree.fromstring(answer.content)  # noqa: S314
    assert root.tag == f"{SVG}svg"
    assert len(root.findall(f"{SVG}rect")) == 1 + 4 + 2  # the background, bars, the legend
    assert b"style" not in answer.content


def test_hidden_characters_are_drawn_as_in_the_table(owner_client: Client, owner: Member) -> None:
    rows_of_call = [
        {"a\u2066": "x\u202ey", "b": "1"},
        {"a\u2066": "\u200bz \ud800", "b": "2"},
    ]
    call = rows.call(
        rows.turn(owner, Turn.State.DONE), result={"content": [], "structured": rows_of_call}
    )
    answer = owner_client.get(f"/calls/{call.pk}/table/chart", headers=HTMX).content.decode()
    assert not set("\u202e\u2066\u200b") & set(answer)
    for shown in ("x⟨U+202E⟩y", "⟨U+200B⟩z ⟨U+D800⟩", "a⟨U+2066⟩"):
        assert shown in answer


def test_a_chart_keeps_its_direction_in_every_language(owner_client: Client, owner: Member) -> None:
    page = open_chart(owner_client, say(owner, RATES))
    assert [each["direction"] for each in page.all("svg", role="img")] == ["ltr", "ltr"]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("?kind=bar&labels=0", "Choose a column of values."),
        ("?kind=pie&labels=0&values=1", "Select a valid choice."),
        ("?kind=bar&labels=9&values=1", "Select a valid choice."),
        ("?kind=bar&labels=0&values=0", "Select a valid choice."),
    ],
)
def test_a_wrong_choice_gets_a_sentence_and_stays(
    owner_client: Client, owner: Member, query: str, sentence: str
) -> None:
    part = say(owner, RATES)
    page = open_chart(owner_client, part, query)
    assert page.one("p", role="alert").text.startswith(sentence)
    assert page.all("svg", role="img") == []
    assert page.all("form")
    assert owner_client.get(address(part, query)).status_code == 422


def test_more_than_eight_columns_are_refused(owner_client: Client, owner: Member) -> None:
    line = "|" + "1|" * 10 + "\n"
    text = line + "|" + "---|" * 10 + "\n" + line + line
    values = "".join(f"&values={index}" for index in range(9))
    page = open_chart(owner_client, say(owner, text), f"?kind=bar&labels=0{values}")
    assert page.one("p", role="alert").text == "Choose up to 8 columns of values."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (table("x | 1"), "A chart needs at least two rows."),
        (table("x | y", "z | 1"), "No column can be drawn"),
        (table("x | 1 kg", "z | 1 m"), "No column can be drawn"),
        (table(*["x | 1"] * 501), "This table has 501 rows. A chart can show up to 500."),
    ],
)
def test_what_cannot_be_drawn_gets_a_sentence(
    owner_client: Client, owner: Member, text: str, sentence: str
) -> None:
    page = open_chart(owner_client, say(owner, text))
    assert page.one("p", role="alert").text.startswith(sentence)
    assert page.all("form") == []


def test_dates_are_labels_in_order(owner_client: Client, owner: Member) -> None:
    part = say(owner, table("2026-11-03 | 1", "2026-11-01 | 2", "2026-11-02 | 3"))
    drawing = open_chart(owner_client, part).all("svg", role="img")[0]
    assert drawing.all("title")[0].text == "Line chart of b by a"
    texts = [each.text for each in drawing.all("text") if each.text.startswith("2026")]
    assert texts == ["2026-11-01", "2026-11-02", "2026-11-03"]


def test_years_are_labels(owner_client: Client, owner: Member) -> None:
    drawing = open_chart(owner_client, say(owner, table("2024 | 3", "2025 | 4")))
    assert drawing.all("title")[0].text == "Bar chart of b by a"


def test_code_has_no_chart(owner_client: Client, owner: Member) -> None:
    assert owner_client.get(address(say(owner, "```\nx\n```"))).status_code == 404


def test_nobody_else_gets_a_chart(
    stranger_client: Client, admin_client: Client, owner: Member
) -> None:
    part = say(owner, RATES)
    for client in (stranger_client, admin_client):
        assert client.get(address(part)).status_code == 404
        assert client.get(address(part, "?kind=bar&labels=0&values=1&save")).status_code == 404


def test_a_result_has_a_chart(owner_client: Client, owner: Member) -> None:
    structured = {"Berlin": 3, "Bonn": 1}
    call = rows.call(rows.turn(owner), result={"content": [], "structured": structured})
    page = parse(owner_client.get(f"/calls/{call.pk}/table/chart", headers=HTMX).content.decode())
    assert page.all("title")[0].text == "Bar chart of Value by Name"


def test_text_of_a_table_is_escaped(owner_client: Client, owner: Member) -> None:
    part = say(owner, table("`<script>alert(1)</script>` | 1", "`<b>` | 2"))
    answer = owner_client.get(address(part), headers=HTMX).content.decode()
    assert "<script>" not in answer
    assert "&lt;script&gt;" in answer
