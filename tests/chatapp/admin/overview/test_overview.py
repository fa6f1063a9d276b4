"""The overview of the admin: what needs an admin now, charts, and how much it costs."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessFailureLog
from bs4 import BeautifulSoup
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.timezone import override as override_zone
from django.utils.translation import override
from django_tasks_db.models import DBTaskResult

from chatapp.admin.overview import charts, needs, page
from chatapp.admin.overview.plots import draw_rows
from chatapp.approvals.reminders import MAX_REFUSALS
from chatapp.audit import chat_access
from chatapp.audit.last_runs import BACKUP, record_run
from chatapp.background import jobs
from chatapp.management.diagnostics import settings as diagnostics_settings
from chatapp.management.diagnostics.findings import report_wrong
from chatapp.models import (
    Allowance,
    Approval,
    LastRun,
    MailPreference,
    Member,
    ModelProvider,
    PolicyChange,
    ToolCall,
    Turn,
    UsageOfDay,
)
from chatapp.models.policy import audit_log_guards
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.conftest import signed_in
from tests.peers.post_office import free_port, post_office
from tests.turns import rows

pytestmark = pytest.mark.django_db
MOST_STATEMENTS = 25


@pytest.fixture(autouse=True)
def _always_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "KEPT_SECONDS", 1e-6)


def open_overview(client: Client, address: str = "/admin/") -> BeautifulSoup:
    answer: Any = client.get(address)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def read_needs(client: Client) -> dict[str, str]:
    """What needs the admin, in order: the text by name."""
    found = open_overview(client).select(".needs li")
    return {str(each["id"]).removeprefix("need-"): " ".join(each.text.split()) for each in found}


def fail_service() -> None:
    error = {
        "kind": "refused",
        "message": "It answered 401.",
        "hint": "",
        "at": "2026-01-01T00:00:00+00:00",
    }
    Service.objects.update_or_create(
        name="linear", defaults={"url": "https://linear.example/mcp", "last_error": error}
    )


def change_tool() -> None:
    service = Service.objects.create(
        name="crm", url="https://crm.example/mcp", visibility="everyone"
    )
    for name in ("delete_customer", "merge_customer"):
        ToolDefinition.objects.create(service=service, hash=name[0] * 64, name=name)
        ToolSetting.objects.create(service=service, name=name, confirmed_hash="0" * 64)


def wait_long() -> None:
    call = rows.question(rows.turn(Member.objects.get(username="owner")))
    Approval.objects.update(created_at=timezone.now() - timedelta(hours=3))
    assert call.state == ToolCall.State.AWAITING_APPROVAL


def expire_soon() -> None:
    rows.question(rows.turn(Member.objects.get(username="owner")))
    Approval.objects.update(expires_at=timezone.now() + timedelta(minutes=10))


def lose_outcome() -> None:
    rows.call(rows.turn(Member.objects.get(username="owner")), state=ToolCall.State.UNKNOWN)


def abandon() -> None:
    rows.turn(Member.objects.get(username="owner"), Turn.State.RUNNING)


def spend() -> None:
    person = Member.objects.get(username="owner")
    allowance = Allowance(cost=Decimal("10.00"), currency="USD")
    allowance.save()
    day = timezone.now().date()
    UsageOfDay.objects.create(
        person=person, day=day, model="a:b", currency="USD", cost=Decimal("9.30")
    )


def fail_sign_ins(name: str, number: int) -> None:
    AccessFailureLog.objects.bulk_create(
        AccessFailureLog(username=name, ip_address="203.0.113.24") for _ in range(number)
    )


def guess_password() -> None:
    fail_sign_ins("owner", 9)


def fail_task() -> None:
    jobs.prune_events.enqueue()
    DBTaskResult.objects.update(status="FAILED", finished_at=timezone.now())


def stop_workers() -> None:
    jobs.prune_events.enqueue()
    DBTaskResult.objects.update(enqueued_at=timezone.now() - timedelta(minutes=11))


def fail_backup() -> None:
    record_run(BACKUP)
    record_run(BACKUP, "the disk is full")


def stop_backups() -> None:
    record_run(BACKUP)
    LastRun.objects.update(at=timezone.now() - timedelta(days=8))


def alter_log() -> None:
    chat = rows.turn(Member.objects.get(username="owner")).conversation_id
    chat_access.open_chat(Member.objects.get(username="admin"), chat, "A complaint.")
    audit_log_guards.remove(connection)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE chatapp_logentry SET actor_name = 'nobody'")


def remove_log() -> None:
    chat = rows.turn(Member.objects.get(username="owner")).conversation_id
    chat_access.open_chat(Member.objects.get(username="admin"), chat, "A complaint.")
    audit_log_guards.remove(connection)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM chatapp_logentry")


CAUSES: list[tuple[Callable[[], None], str, str]] = [
    (fail_service, "failing-", "linear fails"),
    (change_tool, "tools-", "crm changed 2 tools"),
    (wait_long, "approvals-waiting", "It has waited 3"),
    (expire_soon, "approvals-expiring", "1 approval expires within a day"),
    (lose_outcome, "unknown-outcomes", "1 call has an unknown outcome"),
    (abandon, "abandoned", "1 turn runs without a worker"),
    (spend, "allowance-", "93 %"),
    (guess_password, "sign-ins-", "9 failed sign-ins for owner"),
    (fail_task, "tasks", "1 background task failed"),
    (stop_workers, "tasks-late", "1 background task waits for a worker"),
    (fail_backup, "run-backup", "The last backup failed The disk is full. Last success:"),
    (stop_backups, "run-backup", "The last backup is too old Last success:"),
    (alter_log, "log", "The activity log was altered"),
    (remove_log, "log", "The activity log was altered"),
]


def test_an_empty_list_says_so(admin_client: Client) -> None:
    assert read_needs(admin_client) == {}
    assert "Nothing needs you now." in open_overview(admin_client).select_one("#live").text  # type: ignore[union-attr]


@pytest.mark.parametrize(("cause", "name", "text"), CAUSES, ids=[name for _c, name, _t in CAUSES])
def test_what_needs_an_admin_is_listed_with_its_numbers_and_one_button(
    admin_client: Client, owner: Member, cause: Callable[[], None], name: str, text: str
) -> None:
    cause()
    found = {each: said for each, said in read_needs(admin_client).items() if each.startswith(name)}
    assert len(found) == 1
    (said,) = found.values()
    assert text in said
    (link,) = open_overview(admin_client).select(f"#need-{next(iter(found))} a.button")
    assert admin_client.get(str(link["href"])).status_code == 200


@pytest.fixture
def no_kept_problems() -> Iterator[None]:
    needs.list_problems.cache_clear()
    yield
    needs.list_problems.cache_clear()


def test_the_checks_name_models_the_clock_and_services_that_failed_last(
    admin_client: Client,
) -> None:
    fail_service()
    page = open_overview(admin_client, "/admin/checks/").text
    for words in ("models", "clock", "The last attempt failed"):
        assert words in page


def test_a_failing_service_opens_at_its_status(admin_client: Client) -> None:
    fail_service()
    (link,) = open_overview(admin_client).select("[id^=need-failing-] a.button")
    assert link["href"] == reverse(
        "admin:mcpconfig_service_status", args=[Service.objects.get().pk]
    )


@pytest.mark.usefixtures("no_kept_problems")
def test_a_failing_check_leads_to_the_page_of_checks(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = [report_wrong("settings", "The key is short.", "Set SECRET_KEY.")]
    for module in (needs, page):
        monkeypatch.setattr(module, "check_settings", lambda: failing)
    assert "The key is short. Set SECRET_KEY." in read_needs(admin_client)["checks"]
    assert "The key is short." in open_overview(admin_client, "/admin/checks/").text


def test_a_server_with_the_demo_assistant_alone_needs_nobody(admin_client: Client) -> None:
    assert "checks" not in read_needs(admin_client)
    assert "Only the demo assistant" in open_overview(admin_client, "/admin/checks/").text


def test_a_provider_without_a_key_needs_an_admin(admin_client: Client) -> None:
    ModelProvider.objects.create(slug="work", kind="openai", label="Work")
    said = read_needs(admin_client)["checks"]
    assert said.startswith("1 check fails") and "Work" in said and "key" in said


@pytest.mark.usefixtures("no_kept_problems")
def test_the_worst_check_is_named_first(admin_client: Client, settings: Any) -> None:
    settings.PUBLIC_URL = "https://elsewhere.example"
    settings.DEBUG = True
    said = read_needs(admin_client)["checks"]
    assert "which is not allowed" in said and "DEBUG" not in said


@pytest.mark.usefixtures("no_kept_problems")
def test_a_wrong_public_address_needs_an_admin(admin_client: Client, settings: Any) -> None:
    settings.PUBLIC_URL = "https://elsewhere.example"
    assert "elsewhere.example, which is not allowed" in read_needs(admin_client)["checks"]


def test_the_most_urgent_is_first(admin_client: Client, owner: Member) -> None:
    lose_outcome()
    change_tool()
    fail_service()
    named = [name.split("-")[0] for name in read_needs(admin_client)]
    assert named == ["failing", "tools", "unknown"]


def test_a_name_that_nobody_has_is_not_stored(admin_client: Client, settings: Any) -> None:
    """It may be a password that was typed into the wrong field."""
    settings.AXES_ENABLED = True
    stranger = Client()
    stranger.post("/sign-in/", {"username": "hunter2!", "password": "x"})
    assert AccessFailureLog.objects.get().username == ""
    fail_sign_ins("", 59)
    said = read_needs(admin_client)
    assert "60 failed sign-ins with other names" in said["sign-ins-unknown"]
    assert "hunter2!" not in open_overview(admin_client).text


def test_failed_sign_ins_are_known_for_a_day_whoever_signs_in_meanwhile(
    admin_client: Client, owner: Member, settings: Any
) -> None:
    """What locks a name is deleted a minute later, by anybody's next sign-in."""
    settings.AXES_ENABLED = True
    for _ in range(needs.FAILED_SIGN_INS):
        Client().post("/sign-in/", {"username": "owner", "password": "a guess"})
    Client().post("/sign-in/", {"username": "owner", "password": "while it pauses"})
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=2))
    Client().post("/sign-in/", {"username": "admin", "password": "a typing error"})
    assert AccessAttempt.objects.count() == 1
    (said,) = (text for name, text in read_needs(admin_client).items() if "sign-ins" in name)
    assert said.startswith("5 failed sign-ins for owner")


def test_typing_errors_of_members_are_not_taken_for_guesses(admin_client: Client) -> None:
    for number in range(15):
        Member.objects.create_user(f"person-{number}")
        fail_sign_ins(f"person-{number}", 4)
    assert read_needs(admin_client) == {}


def test_failed_sign_ins_are_deleted_after_a_day(admin_client: Client, owner: Member) -> None:
    guess_password()
    AccessFailureLog.objects.update(attempt_time=timezone.now() - timedelta(hours=25))
    fail_sign_ins("owner", 1)
    jobs.delete_old_sign_in_failures.call()
    assert AccessFailureLog.objects.count() == 1


def test_everyone_who_nearly_spent_a_shared_kind_of_allowance_is_listed(
    admin_client: Client,
) -> None:
    Allowance.objects.create(tokens=100)
    for name, used in (("ada", 95), ("grace", 120), ("kim", 10)):
        person = Member.objects.create_user(name)
        UsageOfDay.objects.create(
            person=person, day=timezone.now().date(), model="a:b", input_tokens=used
        )
    titles = [text for name, text in read_needs(admin_client).items() if "allowance" in name]
    assert [("grace" in text, "ada" in text) for text in titles] == [(True, False), (False, True)]


@pytest.mark.usefixtures("no_kept_problems")
def test_a_full_disk_and_refused_addresses_need_an_admin(
    admin_client: Client, owner: Member, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SENDS_MAIL = True
    MailPreference.objects.create(person=owner, is_on=False, refusals=MAX_REFUSALS)
    monkeypatch.setattr(diagnostics_settings, "MIN_FREE_BYTES", 10**18)
    found = read_needs(admin_client)
    assert "is nearly full. Free some space." in found["checks"]
    assert "The mail server refuses 1 address" in found["refused-addresses"]


def test_a_button_tests_connections_and_secrets(admin_client: Client, settings: Any) -> None:
    with post_office(settings):
        settings.EMAIL_PORT = free_port()
        assert "can’t be used" not in open_overview(admin_client, "/admin/checks/").text
        answer: Any = admin_client.post("/admin/checks/")
    assert answer.status_code == 200
    for words in ("so no mail is sent", "channel layer", "None are stored."):
        assert words in answer.text


def fill(owner: Member, times: int) -> None:
    for number in range(times):
        person = Member.objects.create_user(f"person-{times}-{number}")
        service = Service.objects.create(
            name=f"service-{times}-{number}",
            url="https://a.example/mcp",
            last_error={"kind": "x", "message": "No.", "at": "2026-01-01T00:00:00+00:00"},
            visibility="everyone",
        )
        other = Service.objects.create(
            name=f"other-{times}-{number}", url="https://b.example/mcp", visibility="everyone"
        )
        ToolDefinition.objects.create(service=other, hash=f"{times}{number}", name="new_tool")
        made = rows.turn(person, Turn.State.RUNNING)
        rows.question(made, service=service)
        rows.call(made, state=ToolCall.State.UNKNOWN, service=service)
        Allowance.objects.create(person=person, tokens=10)
        UsageOfDay.objects.create(
            person=person, day=timezone.now().date(), model="a:b", input_tokens=9
        )
        fail_sign_ins(person.username, 9)
    Group.objects.create(name=f"group-{times}")
    Approval.objects.update(created_at=timezone.now() - timedelta(hours=3))
    fail_task()


@pytest.mark.parametrize("times", [1, 15])
def test_the_overview_costs_few_statements_however_much_there_is(
    admin_client: Client, owner: Member, times: int, django_assert_max_num_queries: Any
) -> None:
    fill(owner, times)
    admin_client.get("/admin/")
    with django_assert_max_num_queries(MOST_STATEMENTS):
        open_overview(admin_client)
    with django_assert_max_num_queries(MOST_STATEMENTS):
        open_overview(admin_client, "/admin/live/")


def test_the_charts_come_with_the_live_part(admin_client: Client, owner: Member) -> None:
    page, live = open_overview(admin_client), open_overview(admin_client, "/admin/live/")
    names = [[each.text for each in shown.select("#figures .chart h3")] for shown in (page, live)]
    assert names[0] == names[1] != []
    assert [str(each["id"]) for each in live.select("[hx-swap-oob]")] == ["figures"]
    assert page.select("[hx-swap-oob]") == []


def test_charts_are_kept_for_admins_who_view_the_same_in_the_same_language(
    admin_client: Client, admin: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_chart() -> str:
        title: Any = open_overview(admin_client).select_one("#chart-turns")
        return str(title.parent.parent)

    # Every moment is the same one.
    monkeypatch.setattr(charts, "KEPT_SECONDS", 1e12)
    before = read_chart()
    rows.turn(admin)
    assert read_chart() == before
    with override("de"):
        other = charts.list_charts(admin)
    assert [chart.title for chart in other] != [chart.title for chart in charts.list_charts(admin)]
    with override_zone("Asia/Tokyo"):
        other = charts.list_charts(admin)
    assert [chart.rows for chart in other] != [chart.rows for chart in charts.list_charts(admin)]
    clerk = Member.objects.create_user("clerk", is_staff=True)
    assert charts.list_charts(clerk) == []
    clerk.user_permissions.add(Permission.objects.get(codename="view_approval"))
    (questions,) = charts.list_charts(Member.objects.get(pk=clerk.pk))
    assert questions.address == "/admin/chatapp/approval/"
    clerk.user_permissions.add(Permission.objects.get(codename="view_policyrule"))
    (questions,) = charts.list_charts(Member.objects.get(pk=clerk.pk))
    assert questions.address == "/admin/chatapp/policyrule/questions/"
    monkeypatch.setattr(charts, "KEPT_SECONDS", 1e-6)
    assert read_chart() != before


VIEWED = [
    *("mcpconfig.service", "chatapp.approval", "chatapp.toolcall", "chatapp.turn"),
    *("chatapp.allowance", "chatapp.member", "django_tasks_database.dbtaskresult"),
    *("chatapp.logentry", "chatapp.usageofday", "chatapp.policyrule", "mcpconfig.tooldefinition"),
]


def need_sign_in() -> None:
    Service.objects.create(
        name="drive",
        url="https://drive.example/mcp",
        authentication="oauth_shared",
        visibility="everyone",
    )


@pytest.mark.parametrize("viewed", VIEWED)
def test_no_link_of_the_overview_leads_an_admin_to_a_page_that_is_closed_to_them(
    owner: Member, viewed: str
) -> None:
    Member.objects.create_superuser("admin")
    for cause, _name, _text in CAUSES:
        cause()
    need_sign_in()
    for number in range(needs.SERVICES_MAX):
        Service.objects.create(
            name=f"failing-{number}",
            url="https://a.example/mcp",
            last_error={
                "kind": "x",
                "message": "No.",
                "hint": "",
                "at": "2026-01-01T00:00:00+00:00",
            },
            visibility="everyone",
        )
    clerk = Member.objects.create_user("clerk", password="clerk-password", is_staff=True)
    app, model = viewed.split(".")
    right = Permission.objects.get(codename=f"view_{model}", content_type__app_label=app)
    clerk.user_permissions.add(right)
    client = signed_in(clerk)
    links = {str(link["href"]) for link in open_overview(client).select("a[href^='/admin/']")}
    assert len(links) > 1
    for link in sorted(links):
        assert client.get(link, follow=True).status_code == 200, link


def test_the_live_part_leads_to_the_sign_in_page_when_the_session_is_over(client: Client) -> None:
    """htmx would follow a plain redirect and show the sign-in page inside the overview."""
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/admin/"}
    answer = client.get("/admin/live/", headers=headers, follow=True)
    assert answer.headers["HX-Redirect"] == "/sign-in/?next=/admin/"
    assert answer.content == b""


# --- charts --------------------------------------------------------------------------------------
def read_table(client: Client, name: str) -> list[list[str]]:
    table = open_overview(client).select(f"section[aria-labelledby=chart-{name}] tbody tr")
    return [[cell.text.strip() for cell in row.select("th, td")] for row in table]


def test_the_chart_of_calls_counts_what_ran_asked_and_was_refused(
    admin_client: Client, owner: Member
) -> None:
    made = rows.turn(owner)
    rows.call(made)
    rows.call(made)
    rows.question(made)
    rows.call(made, state=ToolCall.State.REFUSED)
    rows.call(made, risk="")  # failed before the policy checked it
    table = read_table(admin_client, "calls")
    assert len(table) == 14
    assert table[-1][1:] == ["2", "1", "1"]
    assert all(row[1:] == ["0", "0", "0"] for row in table[:-1])
    picture = open_overview(admin_client).select_one("section[aria-labelledby=chart-calls] svg")
    assert picture is not None
    assert "2 ran without asking, 1 needed approval, 1 were refused" in str(picture["aria-label"])
    assert len(picture.select("rect")) == 3


def test_a_chart_without_numbers_is_a_sentence(admin_client: Client, owner: Member) -> None:
    def read_charts() -> dict[str, bool]:
        """Whether each chart has a picture, by its name."""
        found = open_overview(admin_client).select(".chart")
        assert all(
            bool(each.select_one("svg")) != bool(each.select_one(".nothing")) for each in found
        )
        return {str(each["aria-labelledby"]): bool(each.select_one("svg")) for each in found}

    assert not any(read_charts().values())
    rows.turn(owner)
    assert [name for name, is_drawn in read_charts().items() if is_drawn] == ["chart-turns"]


def test_the_other_charts_count_questions_cost_and_turns(
    admin_client: Client, owner: Member
) -> None:
    rows.question(rows.turn(owner))
    UsageOfDay.objects.create(
        person=owner, day=timezone.now().date(), model="a:b", currency="USD", cost=Decimal("2.5")
    )
    assert read_table(admin_client, "questions") == [["owner", "1"]]
    assert read_table(admin_client, "cost")[-1][1] == "2.50 USD"
    assert read_table(admin_client, "turns")[-1][1] == "1"


@pytest.mark.parametrize(("language", "number"), [("en", "1.5k"), ("de", "1,5k")])
def test_a_chart_writes_its_numbers_in_the_language_of_the_page(language: str, number: str) -> None:
    with override(language):
        plot = draw_rows([("owner", 1500)], charts._write_short)
    assert [each.text for each in plot.words] == ["owner", number]


def test_each_admin_sees_only_what_they_may_view(owner: Member) -> None:
    wait_long()
    fail_service()
    clerk = Member.objects.create_user("clerk", password="clerk-password", is_staff=True)
    for address in ("/admin/", "/admin/live/"):
        shown = open_overview(signed_in(clerk), address)
        assert shown.select(".needs li") == shown.select(".chart") == []
    assert signed_in(clerk).get("/admin/checks/").status_code == 403
    assert signed_in(clerk).post("/admin/checks/").status_code == 403
    clerk.user_permissions.add(Permission.objects.get(codename="view_approval"))
    shown = open_overview(signed_in(clerk))
    assert [str(each["id"]) for each in shown.select(".needs li")] == ["need-approvals-waiting"]
    assert [each.text for each in shown.select(".chart h3")] == ["Questions per person"]
    assert "turns running" not in shown.text


def test_a_new_approval_is_shown_at_once(admin_client: Client, owner: Member) -> None:
    rows.question(rows.turn(owner))
    need = read_needs(admin_client)["approvals-new"]
    assert "1 new approval waits" in need


def test_what_is_cut_leads_to_the_rest(admin_client: Client) -> None:
    for number in range(needs.NAMES_MAX + 2):
        PolicyChange.objects.create(
            title=f"Change {number}", state="waiting", submitted_at=timezone.now()
        )
    need = read_needs(admin_client)["policy-more-18"]
    assert "2 more items like this" in need
    page = BeautifulSoup(admin_client.get("/admin/").content, "html.parser")
    link = page.select_one("#need-policy-more-18 a")
    assert link is not None
    assert admin_client.get(str(link["href"])).status_code == 200
