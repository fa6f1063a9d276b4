"""The log in the admin hides the values of other people's calls as the page of the call does."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from chatapp.admin.activity import service_entries
from chatapp.audit import audit_log, chat_access
from chatapp.audit.audit_log import AuditEvent, Kind, Who
from chatapp.models import LogEntry, Member, ToolCall
from chatapp.permissions import reasons
from mcpconfig.models import Credential, ToolSetting
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
MARK = "Plum-7f3c"
LIST = "/admin/chatapp/logentry/"
VALUES: dict[str, dict[str, Any]] = {
    Kind.DECIDED: {"effect": "ask", "reason": MARK, "arguments": MARK},
    Kind.SENT: {"granted_by": f"policy: {MARK}"},
    Kind.DENIED: {"reason": MARK, "arguments": MARK},
    Kind.VALUES_CHANGED: {"arguments": MARK},
    Kind.REVIEW_HELD_BACK: {"reason": MARK, "error": {"kind": "timeout", "message": MARK}},
    Kind.ENDED: {"state": "failed", "error": {"kind": "timeout", "message": MARK}},
}


def log_call(person: Member) -> ToolCall:
    """A call with an entry of each kind that has values of the chat. Each of them is the mark."""
    call = rows.call(rows.turn(person), {"title": MARK})
    audit_log.append(
        [
            AuditEvent(
                kind=Kind(kind),
                data={"tool": "delete_note", "service": "shelf", **values},
                person=Who.of(person),
                conversation_id=call.turn.conversation_id,
                turn_id=call.turn_id,
                call_id=call.pk,
            )
            for kind, values in VALUES.items()
        ]
    )
    return call


def read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return b"".join(answer).decode()


def list_pages(call: ToolCall) -> list[str]:
    entries = LogEntry.objects.filter(call_id=call.pk)
    return [LIST, *(f"{LIST}{entry.pk}/change/" for entry in entries)]


def links(page: str) -> list[Element]:
    return [link for link in parse(page).all("a") if link.text == "Show the values"]


def test_values_of_another_persons_call_are_shown_only_after_a_reason(
    admin_client: Client, admin: Member, owner: Member
) -> None:
    """Threat: `admin-reads-unnoticed`."""
    call = log_call(owner)
    changelist, *entries = list_pages(call)
    assert MARK not in read(admin_client, changelist)
    assert len(entries) == len(VALUES)
    for address in entries:
        page = read(admin_client, address)
        assert MARK not in page, address
        assert "are shown after you give a reason. owner sees it." in page
        assert [each["href"] for each in links(page)] == [
            f"/admin/chatapp/toolcall/{call.pk}/change/"
        ]
    chat_access.open_chat(admin, call.turn.conversation_id, "A complaint.")
    assert read(admin_client, changelist).count(MARK) >= 4
    for address in entries:
        page = read(admin_client, address)
        assert MARK in page and links(page) == [], address
    assert audit_log.verify()[1] == ""


def test_an_admin_reads_the_entries_of_their_own_chats(
    admin_client: Client, admin: Member, owner: Member
) -> None:
    for address in list_pages(log_call(admin)):
        page = read(admin_client, address)
        assert MARK in page and links(page) == []


def test_an_admin_without_the_right_to_chats_reads_no_values(owner: Member) -> None:
    auditor = Member.objects.create_user("auditor", password="a-long-password", is_staff=True)
    codenames = ("view_logentry", "view_toolcall")
    auditor.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    call = log_call(owner)
    # A reason from the time when the auditor had the right is not enough.
    chat_access.open_chat(auditor, call.turn.conversation_id, "A complaint.")
    changelist, *entries = list_pages(call)
    client = signed_in(auditor)
    assert MARK not in read(client, changelist)
    for address in entries:
        page = read(client, address)
        assert MARK not in page and links(page) == []
        assert "to admins with the right to read other members’ chats" in page


def test_values_of_a_removed_chat_are_opened_from_the_entry(
    admin_client: Client, owner: Member
) -> None:
    call = log_call(owner)
    entry = LogEntry.objects.get(kind=Kind.DENIED)
    chat = call.turn.conversation_id
    call.turn.conversation.delete()
    (link,) = links(read(admin_client, f"{LIST}{entry.pk}/change/"))
    assert link["href"].startswith(f"/admin/chatapp/conversation/{chat}/open/")
    form = parse(read(admin_client, link["href"]))
    posted = {"next": form.one("input", name="next")["value"], "reason": "A complaint."}
    opened = admin_client.post(link["href"], posted)
    assert MARK in read(admin_client, opened["Location"])


def test_a_reason_of_policy_is_shown_without_the_names_that_the_model_wrote(
    admin_client: Client, owner: Member
) -> None:
    call = log_call(owner)
    data = {"tool": "t", "service": "", "effect": "ask", "arguments": MARK}
    asked = AuditEvent(
        kind=Kind.DECIDED,
        data={**data, "reason": reasons.NOT_IN_PLAN_MODE},
        person=Who.of(owner),
        conversation_id=call.turn.conversation_id,
        call_id=call.pk,
    )
    audit_log.append([asked])
    page = read(admin_client, f"{LIST}{audit_log.read_end().position}/change/")
    assert reasons.NOT_IN_PLAN_MODE in page and MARK not in page


@pytest.mark.parametrize(
    "query", [f"q={MARK}", f"data__contains={MARK}", "data__startswith={", f"service={MARK}"]
)
def test_no_search_and_no_lookup_finds_values(
    admin_client: Client, owner: Member, query: str
) -> None:
    """Threat: `admin-reads-unnoticed`. A search would find them out letter by letter."""
    log_call(owner)
    answer = admin_client.get(f"{LIST}?{query}")
    assert answer.status_code == 400 or "field-position" not in answer.content.decode()


def count_of_service(client: Client, name: str) -> int:
    return read(client, f"{LIST}?service={name}").count("field-position")


def test_the_log_is_filtered_by_service(admin_client: Client, owner: Member) -> None:
    """Calls, and changes of the service, its credentials and its tools."""
    for name in ("shelf", "top-shelf"):
        service = rows.service(name, title=f"The {name}", url=f"https://{name}.example/mcp")
        Credential.objects.create(service=service)
        ToolSetting.objects.create(service=service, name="delete_note")
    log_call(owner)
    page = parse(read(admin_client, LIST))
    offered = {link.text: link["href"] for link in page.one(id="changelist-filter").all("a")}
    assert offered["The shelf"] == "?service=shelf"
    assert count_of_service(admin_client, "shelf") == len(VALUES) + 3
    assert count_of_service(admin_client, "top-shelf") == 3
    kind = read(admin_client, f"{LIST}?service=shelf&kind__exact={Kind.DENIED}")
    assert kind.count("field-position") == 1
    assert count_of_service(admin_client, "nothing") == count_of_service(admin_client, "%00x") == 0


def test_the_filter_by_service_follows_a_new_name(admin_client: Client, owner: Member) -> None:
    """A call keeps the name of its time. Another service has that name now."""
    service = rows.service("shelf")
    log_call(owner)
    service.name = "rack"
    service.save(update_fields=["name"])
    rows.service("shelf", title="Another", url="https://another.example/mcp")
    assert count_of_service(admin_client, "rack") == len(VALUES) + 2, "added, renamed, and calls"
    assert count_of_service(admin_client, "shelf") == 1, "the other one was added"


def test_the_filter_by_service_searches_the_newest_entries_that_match_the_others(
    admin_client: Client, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.service("shelf")
    log_call(owner)
    data = {"of": "rule 7", "act": "added", "changed": {}}
    other = AuditEvent(kind=Kind.POLICY, data=data)
    audit_log.append([other] * 2)
    monkeypatch.setattr(service_entries, "MOST_SEARCHED", 3)
    assert count_of_service(admin_client, "shelf") == 1
    kind = read(admin_client, f"{LIST}?service=shelf&kind__exact={Kind.DENIED}")
    assert kind.count("field-position") == 1
    assert "By service, in the newest 10,000 entries" in " ".join(read(admin_client, LIST).split())


@pytest.mark.parametrize("text", ["delete_note", "SHELF", "rule 7"])
def test_a_search_finds_the_tool_the_service_and_what_changed(
    admin_client: Client, owner: Member, text: str
) -> None:
    log_call(owner)
    data = {"of": "rule 7", "act": "added", "changed": {}}
    audit_log.append([AuditEvent(kind=Kind.POLICY, data=data)])
    page = read(admin_client, f"{LIST}?q={text}")
    count = 1 if text == "rule 7" else len(VALUES)
    assert page.count("field-position") == count


def test_the_link_to_the_entries_of_a_call_works(admin_client: Client, owner: Member) -> None:
    call, _other = log_call(owner), log_call(owner)
    page = read(
        admin_client, f"{LIST}?conversation_id={call.turn.conversation_id}&call_id={call.pk}"
    )
    assert page.count("field-position") == len(VALUES)


# --- trials --------------------------------------------------------------------------------------
def log_trials(person: Member) -> list[str]:
    """Log a trial of this person, with the mark as each of its values. Return the pages."""
    shared = {"tool": "delete_note", "service": "shelf", "trial": "1"}
    failed = {"state": "failed", "error": {"kind": "timeout", "message": MARK}}
    sent = {"state": "sending", "reason": MARK, "arguments": MARK}
    who = Who.of(person)
    audit_log.append(
        [
            AuditEvent(kind=kind, data={**shared, **values}, actor=who, person=who)
            for kind, values in ((Kind.TRIAL_SENT, sent), (Kind.TRIAL_ENDED, failed))
        ]
    )
    entries = LogEntry.objects.filter(kind__in=(Kind.TRIAL_SENT, Kind.TRIAL_ENDED))
    return [LIST, *(f"{LIST}{entry.pk}/change/" for entry in entries)]


def reader_of_the_log(*more: str) -> Member:
    reader = Member.objects.create_user("reader", password="a-long-password", is_staff=True)
    codenames = ("view_logentry", "view_conversation", *more)
    reader.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return reader


def test_values_of_trials_are_hidden_without_the_right_to_trials(owner: Member) -> None:
    changelist, *entries = log_trials(owner)
    client = signed_in(reader_of_the_log())
    assert MARK not in read(client, changelist)
    for address in entries:
        page = read(client, address)
        assert MARK not in page and links(page) == []
        assert "to admins with the right to view trials" in page


def test_who_may_view_trials_reads_the_values_of_their_entries(owner: Member) -> None:
    _changelist, *entries = log_trials(owner)
    client = signed_in(reader_of_the_log("view_trial"))
    for address in entries:
        page = read(client, address)
        assert MARK in page and "right to view trials" not in page


def test_an_admin_reads_the_entries_of_their_own_trials() -> None:
    reader = reader_of_the_log()
    _changelist, *entries = log_trials(reader)
    for address in entries:
        assert MARK in read(signed_in(reader), address)


def test_no_search_finds_values_of_trials(owner: Member) -> None:
    """Threat: `admin-reads-unnoticed`."""
    log_trials(owner)
    client = signed_in(reader_of_the_log())
    assert "field-position" not in read(client, f"{LIST}?q={MARK}")
    assert read(client, f"{LIST}?q=delete_note").count("field-position") == 2
