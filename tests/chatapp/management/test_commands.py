"""`chat` and `approvals`: the same engine and policy as in the browser, by their contract."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from chatapp.demo.seed import seed
from chatapp.models import Approval, Conversation, HousePolicy, Member, Note, ToolCall, Turn
from chatapp.providers import registry
from chatapp.providers.events import ProviderError, TextDelta
from chatapp.server.database import close_threads
from tests import scripted
from tests.scripted import calls, text

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]
DELETE = ("notebook_delete_note", '{"title": "Old ideas"}')
READ = ("notebook_read_note", '{"title": "Old ideas"}')
CREATE = ("notebook_append_to_note", '{"title": "Old ideas", "text": "More"}')
Told = dict[str, Any]


@pytest.fixture(autouse=True)
def _ready(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry.PROVIDERS, "scripted", scripted.PROVIDER)
    scripted.scenes.clear()
    scripted.requests.clear()
    seed()
    Note.objects.update_or_create(title="Old ideas", defaults={"text": "Nothing of worth."})
    yield
    close_threads()


class Shell:
    """Runs commands and keeps what they said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, list[Told]]:
        """The exit code, and the JSON lines on standard output."""
        code = self.code(*words, "--json")
        return code, [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

    def code(self, *words: str) -> int:
        try:
            call_command(*words)
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    def said(self) -> tuple[str, str]:
        out, err = self._capsys.readouterr()
        return out, err


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def chat(shell: Shell, *words: str) -> tuple[int, list[Told]]:
    return shell("chat", "Tidy up", "--model", scripted.MODEL, *words)


def of_type(events: list[Told], kind: str) -> list[Told]:
    return [event for event in events if event["type"] == kind]


def test_a_plain_turn_tells_its_conversation_its_words_and_its_end(shell: Shell) -> None:
    scripted.scenes.append(text("All ", "tidy."))
    code, events = chat(shell)
    assert code == 0
    assert events[0] == {"type": "conversation", "id": str(Conversation.objects.get().pk)}
    assert "".join(event["text"] for event in of_type(events, "text")) == "All tidy."
    assert of_type(events, "usage")[0]["output_tokens"] == 5
    assert events[-1] == {"type": "done", "reason": "complete"}


def test_a_call_is_told_at_each_change_of_state_with_its_result(shell: Shell) -> None:
    scripted.scenes += [calls(READ), text("Read.")]
    code, events = chat(shell)
    told = of_type(events, "tool_call")
    assert [event["state"] for event in told] == ["proposed", "approved", "sending", "succeeded"]
    assert {event["tool"] for event in told} == {"read_note"}
    assert (told[-1]["service"], told[-1]["risk"]) == ("notebook", "low")
    (result,) = of_type(events, "tool_result")
    assert result["is_error"] is False
    assert "Nothing of worth." in result["content"][0]["text"]
    assert code == 0


def test_what_waits_for_a_person_ends_the_command_with_3(shell: Shell) -> None:
    scripted.scenes.append(calls(DELETE))
    code, events = chat(shell)
    assert code == 3
    call = ToolCall.objects.get()
    (item,) = events[-1]["for"]
    assert events[-1]["type"] == "waiting"
    assert (item["kind"], item["id"], item["tool"]) == ("approval", str(call.pk), call.tool_id)
    assert Note.objects.filter(title="Old ideas").exists()


@pytest.mark.parametrize(
    ("level", "deleted", "appended"),
    [("none", False, False), ("low", False, False), ("medium", False, True), ("all", True, True)],
)
def test_approve_clicks_run_once_up_to_its_level(
    shell: Shell, level: str, deleted: bool, appended: bool
) -> None:
    scripted.scenes += [calls(CREATE), calls(DELETE), text("Done.")]
    code, _events = chat(shell, "--approve", level)
    attempts = dict(ToolCall.objects.values_list("tool_name", "attempt"))
    assert attempts.get("append_to_note", 0) == int(appended)
    assert attempts.get("delete_note", 0) == int(deleted)
    assert code == (0 if deleted else 3)


def test_approve_never_overrides_policy(shell: Shell) -> None:
    """The third identical call asks, and is answered; one that is not offered never runs."""
    scripted.scenes += [calls(("notebook_format_disk", "{}")), text("No.")]
    code, events = chat(shell, "--approve", "all")
    assert code == 0
    assert of_type(events, "tool_call")[-1]["state"] == "failed"
    assert of_type(events, "tool_result")[0]["is_error"] is True


@pytest.mark.timeout(300)
def test_approve_leaves_to_a_person_what_a_click_is_not_enough_for(shell: Shell) -> None:
    HousePolicy(types_high=True).save()
    scripted.scenes.append(calls(CREATE, DELETE))
    code, events = chat(shell, "--approve", "all")
    assert code == 3
    assert [item["tool"] for item in events[-1]["for"]] == ["notebook_delete_note"]
    assert ToolCall.objects.get(tool_name="append_to_note").state == ToolCall.State.APPROVED


@pytest.mark.timeout(300)
def test_approve_does_not_press_for_ever_on_what_has_expired(shell: Shell) -> None:
    scripted.scenes.append(calls(DELETE))
    chat(shell)
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    code, _events = shell("chat", "--continue", "--approve", "all")
    assert code == 3
    assert ToolCall.objects.get().state == ToolCall.State.AWAITING_APPROVAL


def test_a_failing_model_is_an_error_and_exit_code_1(shell: Shell) -> None:
    refused = ProviderError(kind="auth", message="The key was refused.", hint="Check it.")
    scripted.scenes.append([TextDelta(text="So "), refused])
    code, events = chat(shell)
    assert code == 1
    (error,) = of_type(events, "error")
    assert "The key was refused." in error["text"]
    assert events[-1] == {"type": "done", "reason": "failed"}


def test_a_conversation_goes_on(shell: Shell) -> None:
    scripted.scenes += [text("One."), text("Two.")]
    _code, events = chat(shell)
    _code, again = chat(shell, "--conversation", events[0]["id"])
    assert again[0] == events[0]
    assert "".join(event["text"] for event in of_type(again, "text")) == "Two."
    assert Conversation.objects.count() == 1


def test_continue_does_what_is_left_of_the_last_turn(shell: Shell) -> None:
    scripted.scenes += [calls(DELETE), text("Gone.")]
    chat(shell)
    code, events = shell("chat", "--continue", "--approve", "all")
    assert code == 0
    assert events[-1] == {"type": "done", "reason": "complete"}
    assert not Note.objects.filter(title="Old ideas").exists()


def test_only_the_named_services_are_offered(shell: Shell) -> None:
    chat(shell, "--service", "notebook")
    assert scripted.requests[-1].tools
    code, events = chat(shell, "--service", "nowhere")
    assert code == 1
    assert "nowhere" in events[0]["error"]["message"]


@pytest.mark.parametrize(
    "words",
    [
        ("chat", "  "),
        ("chat", "Hello", "--model", "nobody:x"),
        ("chat", "Hello", "--conversation", "5"),
        ("chat", "Hello", "--user", "nobody"),
        ("chat", "--continue"),
        ("approvals", "approve", "5"),
        ("approvals", "deny", "00000000-0000-0000-0000-000000000000"),
    ],
)
def test_what_cannot_be_done_ends_with_1_and_a_sentence(
    shell: Shell, words: tuple[str, ...]
) -> None:
    assert shell.code(*words) == 1
    out, err = shell.said()
    assert out == ""
    assert ": " in err
    assert "Traceback" not in err


def test_wrong_words_are_wrong_usage(shell: Shell) -> None:
    with pytest.raises(CommandError):
        shell.code("chat", "Hello", "--approve", "sometimes")


def test_the_first_command_makes_the_operator(shell: Shell) -> None:
    chat(shell)
    assert Member.objects.get().username == "operator"
    assert not Member.objects.get().has_usable_password()


def test_a_command_must_say_which_of_several_members_it_acts_for(shell: Shell) -> None:
    Member.objects.create_user("ada")
    Member.objects.create_user("grace")
    chat(shell, "--user", "grace")
    assert Turn.objects.get().conversation.owner.username == "grace"


def waiting_call(shell: Shell) -> str:
    scripted.scenes.append(calls(DELETE))
    _code, events = chat(shell)
    return str(events[-1]["for"][0]["id"])


def test_approvals_lists_what_waits(shell: Shell) -> None:
    call_id = waiting_call(shell)
    assert shell.code("approvals", "--json") == 0
    (item,) = json.loads(shell.said()[0])
    assert (item["id"], item["risk"], item["service"]) == (call_id, "high", "notebook")
    assert json.loads(item["arguments"]) == {"title": "Old ideas"}


def test_approving_runs_the_call_and_moves_the_turn_to_its_end(shell: Shell) -> None:
    call_id = waiting_call(shell)
    scripted.scenes.append(text("Gone."))
    code, events = shell("approvals", "approve", call_id)
    assert code == 0
    assert events[-1] == {"type": "done", "reason": "complete"}
    assert not Note.objects.filter(title="Old ideas").exists()


def test_denying_tells_the_assistant_why(shell: Shell) -> None:
    call_id = waiting_call(shell)
    code, _events = shell("approvals", "deny", call_id, "--reason", "Keep it.")
    assert code == 0
    assert "Keep it." in scripted.requests[-1].history[-1].text  # type: ignore[union-attr]


def test_an_answer_that_leads_to_another_question_ends_with_3(shell: Shell) -> None:
    call_id = waiting_call(shell)
    scripted.scenes.append(calls(CREATE))
    code, events = shell("approvals", "approve", call_id)
    assert code == 3
    assert events[-1]["for"][0]["tool"] == "notebook_append_to_note"


@pytest.mark.parametrize(("verdict", "state"), [("worked", "succeeded"), ("did-not", "failed")])
def test_an_unknown_outcome_is_settled(shell: Shell, verdict: str, state: str) -> None:
    call_id = waiting_call(shell)
    ToolCall.objects.update(state=ToolCall.State.UNKNOWN, attempt=1)
    code, _events = shell("approvals", "resolve", call_id, verdict)
    assert code == 0
    assert ToolCall.objects.get().state == state


def test_what_must_be_typed_is_typed_to_run_it_again(shell: Shell) -> None:
    call_id = waiting_call(shell)
    ToolCall.objects.update(state=ToolCall.State.UNKNOWN, attempt=1)
    Approval.objects.update(state=Approval.State.GRANTED, wants_typing=True)
    code, events = shell("approvals", "resolve", call_id, "again")
    assert code == 1
    assert "type the tool’s name" in events[0]["error"]["message"]
    assert shell("approvals", "resolve", call_id, "again", "--typed", "delete_note")[0] == 0
    assert not Note.objects.filter(title="Old ideas").exists()


def test_a_second_answer_is_refused(shell: Shell) -> None:
    call_id = waiting_call(shell)
    shell("approvals", "deny", call_id)
    code, events = shell("approvals", "approve", call_id)
    assert code == 1
    assert "Already denied" in events[0]["error"]["message"]


def test_another_member_cannot_answer(shell: Shell) -> None:
    call_id = waiting_call(shell)
    Member.objects.create_user("stranger")
    code, _events = shell("approvals", "approve", call_id, "--user", "stranger")
    assert code == 1
    assert Note.objects.filter(title="Old ideas").exists()
