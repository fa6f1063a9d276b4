"""Calls from before they were marked are marked by what is known of them."""

import importlib
from typing import Any

from django.apps import apps

from chatapp.models import Member, ToolCall, Turn
from mcpconfig.models import Service
from tests.turns import rows

migration = importlib.import_module("chatapp.migrations.0028_taint_of_calls_and_own_switches")


def test_what_strangers_may_have_written_is_marked(owner: Member) -> None:
    mail = Service.objects.create(
        name="mail", url="https://mail.example/mcp", is_open=True, visibility="everyone"
    )
    turn = rows.turn(owner, Turn.State.DONE)
    told = {"content": [], "structured": {"tainted_by": "forum"}}
    own: dict[str, Any] = {"tool_id": "recall", "tool_name": "recall", "service": None}
    read = rows.call(turn, service=mail, result={"content": []})
    unanswered = rows.call(turn, service=mail)
    recalled = rows.call(turn, result=told, **own)
    clean = rows.call(turn, result={"content": [], "structured": {"tainted_by": ""}}, **own)
    migration.mark_tainted(apps, None)
    marks = dict(ToolCall.objects.values_list("pk", "tainted_by"))
    assert marks == {read.pk: "mail", unanswered.pk: "", recalled.pk: "forum", clean.pk: ""}
