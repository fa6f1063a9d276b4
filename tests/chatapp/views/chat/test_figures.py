"""Code blocks and tables of answers and results, as files: who gets them, and as what."""

import pytest
from django.test import Client

from chatapp.models import Conversation, Member, Part, ToolCall, Turn
from tests.turns import rows

TEXT = (
    "| place | count |\n|---|--:|\n| Köln | 1,234 |\n| =1+1 | 2 |\n\n"
    "```python\nprint('é')\n```\n\n```\nplain\n```\n"
)
NOTES = [{"place": "Köln", "count": 2, "open": True}, {"place": "Bonn", "count": None}]


@pytest.fixture
def part(owner: Member) -> Part:
    return rows.said(rows.turn(owner, Turn.State.DONE), TEXT)


def address(part: Part, number: int = 0) -> str:
    return f"/messages/{part.message_id}/figures/{part.step}/{part.position}/{number}/"


def call_with(owner: Member, structured: object) -> ToolCall:
    return rows.call(rows.turn(owner), result={"content": [], "structured": structured})


def test_a_table_is_a_file_without_formulas(owner_client: Client, part: Part) -> None:
    answer = owner_client.get(address(part))
    expected = '\ufeff"place","count"\r\n"Köln","1,234"\r\n"\'=1+1","2"\r\n'
    assert answer.content.decode() == expected
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="table.csv"'


def test_code_is_a_file_that_ends_as_its_language_does(owner_client: Client, part: Part) -> None:
    answer, plain = (owner_client.get(address(part, number)) for number in (1, 2))
    assert answer.content.decode() == "print('é')\n"
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == 'attachment; filename="code.py"'
    assert plain["Content-Disposition"] == 'attachment; filename="code.txt"'


def test_the_page_links_each_figure_to_its_file(owner_client: Client, part: Part) -> None:
    chat = part.message.conversation_id
    page = owner_client.get(f"/c/{chat}/").content.decode()
    for number in range(3):
        assert f'href="{address(part, number)}" download' in page
    assert address(part, 3) not in page


def test_there_is_no_file_where_there_is_no_figure(owner_client: Client, part: Part) -> None:
    assert owner_client.get(address(part, 3)).status_code == 404
    part.position += 1
    assert owner_client.get(address(part)).status_code == 404
    part.step, part.position = 10**30, 10**30
    assert owner_client.get(address(part)).status_code == 404


def test_nobody_else_gets_a_file(
    stranger_client: Client, admin_client: Client, client: Client, part: Part, owner: Member
) -> None:
    call = call_with(owner, NOTES)
    for url in (address(part), f"/calls/{call.pk}/table/"):
        assert stranger_client.get(url).status_code == 404
        assert admin_client.get(url).status_code == 404
        assert client.get(url).status_code == 302


def test_a_deleted_chat_has_no_files(owner_client: Client, part: Part) -> None:
    chats = Conversation.objects.filter(pk=part.message.conversation_id)
    chats.update(deleted_at=part.message.conversation.created_at)
    assert owner_client.get(address(part)).status_code == 404


def test_reasoning_has_no_files(owner_client: Client, part: Part) -> None:
    Part.objects.filter(pk=part.pk).update(kind=Part.Kind.REASONING)
    assert owner_client.get(address(part)).status_code == 404


def test_a_structured_result_is_a_file(owner_client: Client, owner: Member) -> None:
    answer = owner_client.get(f"/calls/{call_with(owner, NOTES).pk}/table/")
    expected = '"place","count","open"\r\n"Köln","2","yes"\r\n"Bonn","none",""\r\n'
    assert answer.content.decode() == f"\ufeff{expected}"


@pytest.mark.parametrize("structured", [None, [], {"a": {"b": 1}}, [1, 2]])
def test_a_result_that_is_shown_as_json_has_no_table(
    owner_client: Client, owner: Member, structured: object
) -> None:
    assert owner_client.get(f"/calls/{call_with(owner, structured).pk}/table/").status_code == 404


def test_the_table_of_a_result_is_linked_to_its_file(owner_client: Client, owner: Member) -> None:
    call = call_with(owner, NOTES)
    page = owner_client.get(f"/c/{call.turn.conversation_id}/").content.decode()
    assert f'href="/calls/{call.pk}/table/" download' in page
