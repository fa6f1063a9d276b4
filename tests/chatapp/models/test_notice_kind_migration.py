"""Notices from before they had kinds get one: Stop's, an error's, or neither."""

import importlib

import pytest
from django.apps import apps

from chatapp.models import Member, Part, Turn
from tests.turns import rows

migration = importlib.import_module("chatapp.migrations.0002_notice_kind")


@pytest.mark.parametrize(
    ("state", "text", "kind"),
    [
        (Turn.State.STOPPED, "Stopped by you.", "stopped"),
        (Turn.State.FAILED, "The model server refused the key.", "error"),
        (Turn.State.DONE, "The answer reached the model's length limit.", "info"),
    ],
)
def test_a_notice_gets_the_kind_of_its_turns_end(
    owner: Member, state: str, text: str, kind: str
) -> None:
    turn = rows.turn(owner, state)
    notice, words = rows.said(turn, text, "notice"), rows.said(turn, text)
    migration.tell_kinds_apart(apps, None)
    assert Part.objects.get(pk=notice.pk).notice_kind == kind
    assert Part.objects.get(pk=words.pk).notice_kind == ""
