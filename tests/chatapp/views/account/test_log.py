"""People read what the log says of them, and nothing of others; admins read all and change none."""

import json
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.db.models import Model
from django.test import Client
from django.utils.translation import override

from chatapp.audit import audit_log, chat_access, evidence
from chatapp.audit.audit_log import AuditEvent, Kind, Who
from chatapp.audit.change_entries import WATCHED
from chatapp.journal import journal
from chatapp.models import LogEntry, Member, ToolCall
from chatapp.rendering.pages.log import CHANGED_MODELS, build_line
from chatapp.views.account.log import PAGE_LENGTH
from mcpconfig.models import Service
from tests.turns import rows

pytestmark = pytest.mark.django_db


def page(client: Client, url: str = "/log/") -> BeautifulSoup:
    answer = client.get(url)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def entries(client: Client, url: str = "/log/") -> list[str]:
    found = page(client, url).select(".entry")
    return [" ".join(entry.get_text(" ").split()) for entry in found]


@pytest.fixture
def call(owner: Member) -> ToolCall:
    """A call of the owner's that an admin's rule refused."""
    call = rows.call(
        rows.turn(owner), {"title": "x"}, ToolCall.State.REFUSED, why="A rule forbids it."
    )
    journal.append_call(call.turn, call.pk, "refused")
    return call


def test_a_person_reads_what_was_decided_for_them(owner_client: Client, call: ToolCall) -> None:
    ended, decided = entries(owner_client)[:2]
    assert "Decided by policy : delete_note (notebook)" in decided
    assert "A rule forbids it." in decided
    assert "Refused" in ended
    link = page(owner_client).select_one(".entry a")
    assert link is not None and link["href"] == f"/c/{call.turn.conversation_id}/"


def test_a_person_reads_their_own_acts_and_nobody_elses(
    stranger_client: Client, admin_client: Client, stranger: Member, call: ToolCall
) -> None:
    for client in (stranger_client, admin_client):
        assert not any("delete_note" in entry for entry in entries(client))
    data = {"of": "rule 7", "act": "added", "changed": {}}
    audit_log.append([AuditEvent(kind=Kind.POLICY, data=data, actor=Who.of(stranger))])
    assert "Policy change : rule 7 · by stranger" in entries(stranger_client)[0]


def test_without_a_sign_in_there_is_no_log(client: Client) -> None:
    assert client.get("/log/")["Location"] == "/sign-in/?next=/log/"


def test_a_long_log_is_read_page_by_page(owner_client: Client, owner: Member) -> None:
    who = Who.of(owner)
    audit_log.append(
        [AuditEvent(kind=Kind.SIGNED_IN, data={}, actor=who, person=who)] * (2 * PAGE_LENGTH)
    )
    first = page(owner_client)
    more = first.select_one("a.btn")
    assert more is not None
    second = page(owner_client, str(more["href"]))
    seen = [entry["id"] for each in (first, second) for entry in each.select(".entry")]
    assert len(set(seen)) == len(seen) == 2 * PAGE_LENGTH
    for odd in ("x", "9" * 40, "-1"):
        assert len(entries(owner_client, f"/log/?before={odd}")) == PAGE_LENGTH


def test_what_a_service_called_its_tool_deceives_nobody(
    owner_client: Client, owner: Member
) -> None:
    data = {"tool": "<b>a\u202eb</b>", "service": "s", "state": "failed", "error": None}
    audit_log.append([AuditEvent(kind=Kind.ENDED, data=data, person=Who.of(owner))])
    (entry,) = [each for each in entries(owner_client) if "Call outcome" in each]
    assert "<b>a ⟨U+202E⟩ b</b> (s)" in entry


def test_the_page_shows_the_line_to_be_kept(owner_client: Client, call: ToolCall) -> None:
    assert audit_log.read_end().hash in page(owner_client).get_text()


def test_a_consent_says_in_words_how_far_it_reaches(owner_client: Client, owner: Member) -> None:
    data = {"service": "memos", "scope": "service"}
    audit_log.append([AuditEvent(kind=Kind.CONSENT_GIVEN, data=data, person=Who.of(owner))])
    (entry,) = [each for each in entries(owner_client) if "Permission given" in each]
    assert "this service, always" in entry


# What the words of every kind are made from.
ENOUGH = {
    "tool": "t", "service": "s", "effect": "ask", "reason": "r", "verdict": "worked",
    "state": "failed", "error": {"message": "m"}, "action": "accept", "act": "added",
    "changed": {"owner_id": {}}, "scope": "always", "granted_by": "policy", "mode": "plan",
    "audience": "members", "tools": "full",
}  # fmt: skip
OTHERWISE: dict[str, dict[str, Any]] = {
    Kind.PROJECT: {"act": "purged", "of": "p"},
    Kind.CHAT_HANDED_OVER: {"from": "a", "to": "b"},
    Kind.OFF_BOARDED: {"act": "finished"},
    Kind.ATTENTION_CHECK: {"act": "placed"},
    Kind.INVITED: {"act": "revoked"},
    Kind.SERVICE_CHECKED: {"act": "tested"},
    Kind.MODELS_CHECKED: {"act": "account checked"},
    Kind.NOTIFICATIONS_TESTED: {"act": "sent"},
    Kind.DOWNLOADED: {"act": "tested"},
    Kind.CHANGE_DRAFTED: {"act": "started"},
    Kind.SECRETS_ROTATED: {"rotated": 1, "were_current": 2},
    Kind.PARAMETERS: {"changed": {"temperature": {"before": None, "after": 1.0}}},
}


def test_every_kind_has_words(owner_client: Client, owner: Member) -> None:
    """Whatever an entry says, its page is shown."""
    for kind in Kind:
        data = ENOUGH | OTHERWISE.get(kind, {})
        audit_log.append([AuditEvent(kind=kind, data=data, person=Who.of(owner))])
    end = audit_log.read_end().position
    older = entries(owner_client, f"/log/?before={end - PAGE_LENGTH + 1}")
    assert len(entries(owner_client)) == PAGE_LENGTH
    assert PAGE_LENGTH + len(older) >= len(Kind)


def test_every_filter_of_the_log_has_words(admin_client: Client, owner: Member) -> None:
    """Some entries name nobody, and a link without words is none."""
    people = (Who.of(owner), Who())
    audit_log.append([AuditEvent(kind=Kind.DECIDED, data=ENOUGH, person=each) for each in people])
    page = admin_client.get("/admin/chatapp/logentry/").content.decode()
    links = BeautifulSoup(page, "html.parser").select("#changelist-filter a")
    words = [link.get_text(strip=True) for link in links]
    assert all(words) and "server" in words


def test_admins_read_the_log_and_change_nothing(admin_client: Client, call: ToolCall) -> None:
    url = "/admin/chatapp/logentry/"
    assert audit_log.read_end().hash in admin_client.get(url).content.decode()
    assert "delete_note" in admin_client.get(f"{url}?kind=call.decided&q=owner").content.decode()
    entry = LogEntry.objects.filter(kind="call.decided").get()
    shown = admin_client.get(f"{url}{entry.pk}/change/")
    assert entry.hash in shown.content.decode()
    for act in ("change", "delete"):
        assert admin_client.post(f"{url}{entry.pk}/{act}/", {"kind": "x"}).status_code == 403
    assert admin_client.post(f"{url}add/", {"kind": "x"}).status_code == 403
    assert audit_log.verify()[1] == ""


def test_an_admin_takes_the_evidence_of_a_conversation(
    admin_client: Client, admin: Member, call: ToolCall
) -> None:
    chat = call.turn.conversation_id
    chat_access.open_chat(admin, chat, "A complaint.")
    url = f"/admin/chatapp/conversation/{chat}/evidence/"
    assert url in admin_client.get(f"/admin/chatapp/conversation/{chat}/change/").content.decode()
    answer = admin_client.get(url)
    assert answer["Content-Disposition"] == f'attachment; filename="evidence-{chat}.json"'
    taken = json.loads(b"".join(answer))
    assert evidence.find_break(taken) is None
    assert taken["conversation"] == str(chat)


def test_nobody_else_takes_evidence(owner_client: Client, client: Client, call: ToolCall) -> None:
    url = f"/admin/chatapp/conversation/{call.turn.conversation_id}/evidence/"
    for somebody in (owner_client, client):
        assert somebody.get(url).status_code in (302, 403)


def test_a_line_names_what_changed_and_of_something_new_what_was_set(owner: Member) -> None:
    def said() -> str:
        return build_line(LogEntry.objects.latest("position")).said

    made = Member.objects.create_user("newcomer", password="a-long-password")
    assert said() == "Fields set: permission to sign in, password, username."
    made.is_staff = True
    made.save()
    assert said() == "Changed: admin rights."
    made.delete()
    assert said() == "Removed."


def test_a_changed_field_has_its_label_in_the_language_of_the_reader() -> None:
    service = Service.objects.create(
        name="box", url="https://box.example/mcp", visibility="everyone"
    )
    service.allows_private_addresses = True
    service.save()
    entry = LogEntry.objects.latest("position")
    label = Service._meta.get_field("allows_private_addresses").verbose_name
    assert build_line(entry).said == f"Changed: {label}."
    with override("de"):
        assert build_line(entry).said == f"Geändert: {label}."
        assert "allows" not in str(label)


def test_the_log_names_the_fields_of_every_model_whose_changes_it_keeps() -> None:
    kept: dict[str, set[type[Model]]] = {}
    for model, (kind, _fields) in WATCHED.items():
        kept.setdefault(kind, set()).add(model)
    assert {kind: set(models) for kind, models in CHANGED_MODELS.items()} == kept
