"""Dates and numbers by language, and numbers that browsers and services read in none."""

from datetime import UTC, datetime

import pytest
from django.template import Context, Template
from django.template.loader import render_to_string
from django.utils.translation import override

from chatapp.approvals.decisions import check_note
from chatapp.people.refused import Refused

AT = datetime(2026, 11, 5, 9, 7, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "english", "german"),
    [
        ("DATE_FORMAT", "5 Nov 2026", "5. Nov. 2026"),
        ("DATETIME_FORMAT", "5 Nov 2026, 09:07", "5. Nov. 2026, 09:07"),
        ("SHORT_DATETIME_FORMAT", "5 Nov, 09:07", "5. Nov., 09:07"),
        ("MONTH_DAY_FORMAT", "5 November", "5. November"),
        ("TIME_FORMAT", "09:07", "09:07"),
    ],
)
def test_dates_are_as_the_language_writes_them(name: str, english: str, german: str) -> None:
    template = Template(f'{{{{ at|date:"{name}" }}}}')
    for language, written in (("en", english), ("de", german)):
        with override(language):
            assert template.render(Context({"at": AT})) == written


def test_numbers_in_sentences_are_as_the_language_writes_them() -> None:
    for language, written in (("en", "2,000"), ("de", "2.000")):
        with override(language), pytest.raises(Refused, match=written.replace(".", r"\.")):
            check_note("x" * 100_000)


def test_seconds_and_costs_are_as_the_language_writes_them() -> None:
    template = Template("{{ seconds|floatformat:1 }}")
    for language, written in (("en", "1.5"), ("de", "1,5")):
        with override(language):
            assert template.render(Context({"seconds": 1.5})) == written


@pytest.mark.parametrize("language", ["en", "de"])
def test_numbers_for_browsers_and_services_are_in_no_language(language: str) -> None:
    field = {
        "kind": "number",
        "key": "weight",
        "input_type": "number",
        "attributes": [("min", 0.5), ("max", 1_000.25)],
    }
    with override(language):
        html = render_to_string("_value_control.html", {"field": field, "value": 0.75, "id": "x"})
    for written in ('min="0.5"', 'max="1000.25"', 'value="0.75"'):
        assert written in html
