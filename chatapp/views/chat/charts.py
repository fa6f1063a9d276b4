"""Tables of answers and results as charts."""

import uuid
from typing import Any, Final, cast
from urllib.parse import urlencode

from django import forms
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatapp.models import ToolCall
from chatapp.rendering.figures.charts import (
    MAX_SERIES,
    Chart,
    Columns,
    Kind,
    are_dates,
    build_chart,
    describe_problem,
    read_columns,
)
from chatapp.rendering.figures.drawing import NARROW, WIDE, draw_chart
from chatapp.rendering.figures.values import TableData
from chatapp.rendering.results import Table, draw_table
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.downloads import build_download

from .conversations import build_sidebar_context
from .figures import find_figure, read_result_table
from .results import BYTES_HEADERS

KINDS: Final = {
    "bar": gettext_lazy("Bars"),
    "line": gettext_lazy("Lines"),
    "points": gettext_lazy("Points"),
}
HEADINGS: Final = {
    "bar": gettext_lazy("Bar chart of %(values)s by %(labels)s"),
    "line": gettext_lazy("Line chart of %(values)s by %(labels)s"),
    "points": gettext_lazy("Points of %(values)s by %(labels)s"),
}


class ChartForm(forms.Form):
    """How a table is drawn. A choice that was not sent is the usual one for the table."""

    kind = forms.ChoiceField(
        label=gettext_lazy("Kind of chart"), choices=list(KINDS.items()), widget=forms.RadioSelect
    )
    labels = forms.TypedChoiceField(label=gettext_lazy("Labels"), coerce=int)
    values = forms.TypedMultipleChoiceField(
        label=gettext_lazy("Values"),
        coerce=int,
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": gettext_lazy("Choose a column of values.")},
    )

    def __init__(self, request: MemberRequest, table: TableData, columns: Columns) -> None:
        labels = columns.choose_labels()
        has_dates = are_dates([row[labels] for row in table.rows])
        usual: dict[str, Any] = {
            "kind": "line" if has_dates else "bar",
            "labels": labels,
            "values": columns.choose_values(labels),
        }
        super().__init__(request.GET if "kind" in request.GET else usual, auto_id=False)
        names = list(enumerate(columns.names))
        labels_field = cast(forms.TypedChoiceField, self.fields["labels"])
        values_field = cast(forms.TypedMultipleChoiceField, self.fields["values"])
        labels_field.choices = names
        values_field.choices = [each for each in names if each[0] in columns.numbers]

    def clean_values(self) -> list[int]:
        values: list[int] = self.cleaned_data["values"]
        if len(values) > MAX_SERIES:
            most = {"most": MAX_SERIES}
            raise forms.ValidationError(_("Choose up to %(most)d columns of values.") % most)
        return values

    def get_problem(self) -> str:
        """Return the first sentence about a choice that cannot be drawn."""
        return next((str(each[0]) for each in self.errors.values()), "")


@for_members("GET", "HEAD")
def answer_chart(
    request: MemberRequest, message_id: uuid.UUID, step: int, position: int, number: int
) -> HttpResponse:
    place = (message_id, step, position, number)
    table = find_figure(request.user, *place)
    if not isinstance(table, TableData):
        raise Http404("Code is no table.")
    addresses = {
        "address": reverse("answer-chart", args=place),
        "file": reverse("answer-figure", args=place),
        "back": reverse("open-message", args=[message_id]),
    }
    return _render_chart(request, table, addresses)


@for_members("GET", "HEAD")
def result_chart(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    call = ToolCall.of(request.user, call_id)
    table = read_result_table(call)
    addresses = {
        "address": reverse("result-chart", args=[call_id]),
        "file": reverse("result-table", args=[call_id]),
        "back": reverse("conversation", args=[call.turn.conversation_id]),
    }
    return _render_chart(request, table, addresses)


def _render_chart(
    request: MemberRequest, table: TableData, addresses: dict[str, str]
) -> HttpResponse:
    """Return the chart for the place of its table, as a page, or with `save` as a file."""
    columns = read_columns(table)
    problem = describe_problem(table, columns)
    form = None if problem else ChartForm(request, table, columns)
    context: dict[str, Any] = {"form": form, "problem": problem, **addresses}
    if form is not None and form.is_valid():
        chosen = form.cleaned_data
        kind = cast(Kind, chosen["kind"])
        chart = build_chart(table, columns, kind, chosen["labels"], chosen["values"])
        context |= _describe_chart(chart) | {"wide": draw_chart(chart, WIDE)}
        if "save" in request.GET:
            return _build_chart_response(context)
        context |= {"narrow": draw_chart(chart, NARROW), "choice": urlencode(chosen, doseq=True)}
    elif form is not None:
        context["problem"] = form.get_problem()
    if request.htmx:
        return render(request, "chat/_chart.html", context)
    shown: Table = draw_table(table)
    context |= {"table": shown, **build_sidebar_context(request.user, "")}
    return render(request, "chat/chart.html", context, status=422 if form and form.errors else 200)


def _describe_chart(chart: Chart) -> dict[str, str]:
    """Return the heading, and a summary for those who do not see the chart."""
    names = ", ".join(each.name for each in chart.series)
    heading = str(HEADINGS[chart.kind]) % {"values": names, "labels": chart.label_name}
    count = len(chart.labels)
    rows = ngettext("%(count)d row.", "%(count)d rows.", count) % {"count": count}
    ranges = [_describe_range(chart, index) for index in range(len(chart.series))]
    return {"heading": heading, "summary": " ".join([rows, *filter(None, ranges)])}


def _describe_range(chart: Chart, index: int) -> str:
    series = chart.series[index]
    known = [row for row, number in enumerate(series.numbers) if number is not None]
    if not known:
        return ""
    low, high = (choose(known, key=lambda row: series.numbers[row] or 0.0) for choose in (min, max))
    sentence = _("%(name)s: from %(low)s (%(low_label)s) to %(high)s (%(high_label)s).")
    return sentence % {
        "name": series.name,
        "low": series.cells[low],
        "low_label": chart.labels[low],
        "high": series.cells[high],
        "high_label": chart.labels[high],
    }


def _build_chart_response(context: dict[str, Any]) -> HttpResponse:
    values = context | {"drawing": context["wide"], "is_file": True}
    response = build_download(
        render_to_string("chat/_chart_svg.html", values).strip(), "image/svg+xml", "chart.svg"
    )
    for name, value in BYTES_HEADERS.items():
        response[name] = value
    return response
