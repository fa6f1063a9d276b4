"""Code blocks and tables of answers, and tables of results, as files."""

import uuid

from django.http import Http404, HttpResponse

from chatapp.conversations.search import find_message
from chatapp.models import Member, Part, ToolCall
from chatapp.rendering.figures.code_file import name_code_file
from chatapp.rendering.figures.csv_file import write_csv
from chatapp.rendering.figures.figure_reader import read_figure
from chatapp.rendering.figures.result_tables import read_table
from chatapp.rendering.figures.values import CodeBlock, Figure, TableData
from chatapp.rendering.markdown.stream import render_markdown
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.downloads import build_download


@for_members("GET", "HEAD")
def answer_figure(
    request: MemberRequest, message_id: uuid.UUID, step: int, position: int, number: int
) -> HttpResponse:
    """Return a code block of an answer as a file, or a table as a CSV file."""
    match find_figure(request.user, message_id, step, position, number):
        case CodeBlock() as code:
            return build_download(code.text, "application/octet-stream", name_code_file(code))
        case TableData() as table:
            return _build_csv_response(table)


@for_members("GET", "HEAD")
def result_table(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Return the structured result of a call as a CSV file."""
    return _build_csv_response(read_result_table(ToolCall.of(request.user, call_id)))


def read_result_table(call: ToolCall) -> TableData:
    table = read_table((call.result or {}).get("structured"))
    if table is None:
        raise Http404("The result is no table.")
    return table


def find_figure(
    person: Member, message_id: uuid.UUID, step: int, position: int, number: int
) -> Figure:
    message = find_message(person, message_id)
    if message is None:
        raise Http404("No such message.")
    texts = message.parts.filter(kind=Part.Kind.TEXT, step=step, position=position)
    text = texts.values_list("text", flat=True).first()
    figure = read_figure(render_markdown(text), number) if text else None
    if figure is None:
        raise Http404("No such code block or table.")
    return figure


def _build_csv_response(table: TableData) -> HttpResponse:
    return build_download(write_csv(table), "text/csv; charset=utf-8", "table.csv")
