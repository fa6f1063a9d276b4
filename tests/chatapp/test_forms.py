"""What browsers make of typed text is undone before it is measured."""

import pytest

from chatapp.approvals.decisions import REASON_CHARACTERS
from chatapp.forms import DecisionForm, MessageForm

LINES = "\n" * 20
LONGEST = "a" + LINES + "b" * (REASON_CHARACTERS - len(LINES) - 1)


@pytest.mark.parametrize(("reason", "fits"), [(LONGEST, True), (LONGEST + "b", False)])
def test_a_line_break_in_a_reason_counts_once(reason: str, fits: bool) -> None:
    posted = {"decision": "deny", "version": "v", "reason": reason.replace("\n", "\r\n")}
    form = DecisionForm(posted)
    assert form.is_valid() is fits
    assert form.cleaned_data.get("reason") == (reason if fits else None)


def test_a_message_has_the_lines_that_were_typed() -> None:
    form = MessageForm({"text": " one\r\ntwo\r\n"})
    assert form.is_valid()
    assert form.cleaned_data["text"] == " one\ntwo\n"
