"""`manage.py policy` as people and other programs use it."""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.test import Client

from chatapp.models import Member, PolicyChange, PolicyRule, PolicyTest, ToolLimit
from chatapp.permissions import reasons
from chatapp.policy_changes import drafting
from chatapp.policy_changes.rows import read_values
from mcpconfig.models import Service
from tests.commands import Ran
from tests.turns.past_turns import past, shop
from tests.turns.second_signers import second_signature


def classified(path: Path, *lines: Any) -> list[dict[str, Any]]:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts), encoding="utf-8")
    out = StringIO()
    call_command("policy", "classify", str(path), stdout=out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tools.jsonl"


def test_every_line_is_answered_in_order(path: Path) -> None:
    answers = classified(
        path,
        {"name": "delete_memo", "description": "", "inputSchema": {}, "annotations": None},
        "",
        {"name": "list_memos", "inputSchema": {"properties": {"page_url": {"type": "string"}}}},
    )
    deletes, reads = reasons.NAME_SAYS["deletes"], reasons.NAME_SAYS["reads"]
    sends = {"page_url": "address"}
    assert answers == [
        {"name": "delete_memo", "level": "high", "reasons": [deletes], "destinations": {}},
        {"name": "list_memos", "level": "low", "reasons": [reads], "destinations": sends},
    ]


def test_the_schema_the_hints_and_the_trust_are_taken_into_account(path: Path) -> None:
    hints = {"readOnlyHint": True}
    sql = {"properties": {"sql": {"type": "string"}}}
    answers = classified(
        path,
        {"name": "read_rows", "inputSchema": sql},
        {"name": "frobnicate", "annotations": hints, "trusted": False},
        {"name": "frobnicate", "annotations": hints, "trusted": True},
        {"name": "list_memos", "inputSchema": None},
        {"name": "list_memos", "description": "Deletes all memos."},
    )
    assert [answer["level"] for answer in answers] == ["high", "medium", "low", "high", "high"]


@pytest.mark.parametrize("line", ["{", "[]", '{"name": ""}', '{"name": 5}', "{}", "[" * 100_000])
def test_a_bad_line_fails_with_its_number(path: Path, line: str) -> None:
    path.write_text('{"name": "list_memos"}\n' + line)
    ran = Ran("policy", "classify", str(path))
    assert ran.code == 1
    assert re.match(r"refused: Line 2: It .*\.$", ran.err)


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_cannot_be_read_fails_with_a_sentence(tmp_path: Path, name: str) -> None:
    ran = Ran("policy", "classify", str(tmp_path / name))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("files: ")


def test_a_file_of_bytes_fails_with_a_sentence(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in Ran("policy", "classify", str(path)).err


@pytest.mark.gate
def test_the_exit_codes_are_those_of_the_contract(path: Path) -> None:
    path.write_text("{", encoding="utf-8")
    failed = subprocess.run(
        [sys.executable, "manage.py", "policy", "classify", str(path)],
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "Line 1" in failed.stderr and "Traceback" not in failed.stderr
    misused = subprocess.run(
        [sys.executable, "manage.py", "policy"], capture_output=True, text=True, timeout=150
    )
    assert misused.returncode == 2


# --- test and simulate -----------------------------------------------------------------------


@pytest.fixture
def service(owner: Member) -> Service:
    made = shop()
    past([owner], made, 30)
    return made


def told(*words: str) -> dict[str, Any]:
    out = Ran("policy", *words, "--json").out
    value: dict[str, Any] = json.loads(out)
    return value


def test_policy_tests_are_tried_and_a_failing_one_ends_with_1(
    owner: Member, service: Service
) -> None:
    assert Ran("policy", "test").out == "0 policy tests, 0 failed.\n"
    values = {"person": owner, "service": service, "tool": "change_label"}
    PolicyTest.objects.create(name="Holds", expected="ask", **values)
    assert Ran("policy", "test").code == 0
    broken = PolicyTest.objects.create(name="Runs", expected="allow", **values)
    ran = Ran("policy", "test")
    assert ran.code == 1
    assert "“Runs”. Expected: runs without asking. Actual: needs approval. " in ran.out
    assert "Holds" not in ran.out
    assert told("test") == {
        "tests": 2,
        "failing": [
            {
                "id": broken.pk,
                "name": "Runs",
                "expected": "allow",
                "decided": "ask",
                "reason": reasons.NEEDS_APPROVAL["medium"],
            }
        ],
    }


@pytest.mark.parametrize(
    ("expected", "demands", "found", "words"),
    [
        ("type", (), "ask", "Actual: needs approval without typed confirmation."),
        ("type", ("second",), "two", "Actual: needs a second approval without typed confirmation."),
        ("two", (), "ask", "Actual: needs one approval."),
        (
            "two",
            ("wants_typing",),
            "type",
            "Actual: needs one approval with typed confirmation.",
        ),
        ("deny", ("wants_typing", "second"), "type+two", "Actual: needs a second approval with"),
        ("allow", (), "ask", "Actual: needs approval."),
    ],
)
def test_a_failing_test_is_told_with_exactly_what_was_expected_and_what_was_found(
    owner: Member,
    service: Service,
    expected: str,
    demands: tuple[str, ...],
    found: str,
    words: str,
) -> None:
    values = {"person": owner, "service": service, "tool": "change_label"}
    PolicyTest.objects.create(name="One", expected=expected, **values)
    ways = {"wants_typing": True, "second": second_signature()}
    PolicyRule.objects.create(name="R", effect="ask", **{way: ways[way] for way in demands})
    (failing,) = told("test")["failing"]
    assert (failing["expected"], failing["decided"]) == (expected, found)
    assert words in Ran("policy", "test").out


def test_past_calls_are_replayed_under_a_draft(service: Service) -> None:
    off = PolicyRule.objects.create(name="Off", effect="deny", is_enabled=False)
    on = PolicyRule.objects.create(name="On", effect="allow", tool="change_label")
    for words, would in (
        ((), {"allow": 20, "ask": 10, "deny": 0}),
        (("--without", str(on.pk)), {"allow": 10, "ask": 20, "deny": 0}),
        (("--with", str(off.pk)), {"allow": 0, "ask": 0, "deny": 30}),
        (("--runs-up-to", "nothing"), {"allow": 10, "ask": 20, "deny": 0}),
        (("--runs-up-to", "medium"), {"allow": 20, "ask": 10, "deny": 0}),
    ):
        assert told("simulate", *words)["would"] == would, words
    shown = Ran("policy", "simulate").out
    assert "30 calls. Allowed: 20 (before: 10)." in shown
    assert "shop_change_label, 10 calls: runs without asking (before: needs approval)." in shown
    assert "owner: 10 approval requests (before: 20), 30 calls" in shown


# What the page of the simulator is asked, what the command is, and what would have run of 30 calls.
DRAFTS: list[tuple[dict[str, Any], str, int]] = [
    ({}, "", 8),
    ({"limits": None}, "--without-limit {limit}", 10),
    ({"limit_calls": 2, "limit_tool": "read_label"}, "--limit 2 --limit-tool read_label", 2),
    ({"limit_calls": 0, "limit_is_core": "on"}, "--limit 0 --limit-own", 8),
    ({"limit_calls": 0, "limit_service": "{service}"}, "--limit 0 --limit-service shop", 0),
    ({"limit_calls": 0, "limit_group": "{group}"}, "--limit 0 --limit-group Sales", 8),
    ({"allowed_service": "{service}"}, "--allowed-service shop", 18),
    (
        {"allowed_service": "{service}", "consents_to_high": "on"},
        "--allowed-service shop --consents-to-high",
        28,
    ),
    (
        {"allowed_service": "{service}", "allowed_tool": "delete_label"},
        "--allowed-service shop --allowed-tool delete_label",
        8,
    ),
    (
        {"allowed_service": "{service}", "widest_consent": "once"},
        "--allowed-service shop --widest-consent once",
        8,
    ),
    ({"asks_everything": "on"}, "--asks-everything", 0),
    ({"runs_up_to": "medium"}, "--runs-up-to medium", 18),
    ({"medium_needs": "{second}"}, "--medium-needs Operations", 8),
    (
        {"allowed_service": "{service}", "medium_needs": "{second}"},
        "--allowed-service shop --medium-needs Operations",
        8,
    ),
    (
        {"allowed_service": "{service}", "consents_to_high": "on", "high_needs": "{second}"},
        "--allowed-service shop --consents-to-high --high-needs Operations",
        18,
    ),
    ({"rule-effect": "allow"}, "--rule allow", 28),
    (
        {"rule-effect": "allow", "rule-levels": "medium", "rule-service": "{service}"},
        "--rule allow --rule-risk medium --rule-service shop",
        18,
    ),
    (
        {"rule-effect": "deny", "rule-tool": "read_label", "rule-condition": "amount < 12"},
        "--rule deny --rule-tool read_label --rule-condition amount<12",
        4,
    ),
    ({"rule-effect": "deny", "rule-groups": "{group}"}, "--rule deny --rule-group Sales", 8),
    ({"rule-effect": "deny", "rule-is_core": "on"}, "--rule deny --rule-own", 8),
    (
        {"rule-effect": "ask", "rule-second": "{second}"},
        "--rule ask --rule-second Operations",
        0,
    ),
    ({"allowed_hosts": "*.a.test"}, "--allowed-host *.a.test", 8),
    ({"person": "{owner}"}, "--person owner", 8),
    ({"service": "{service}"}, "--service shop", 8),
]


@pytest.mark.parametrize(("query", "words", "ran"), DRAFTS, ids=[each[1] for each in DRAFTS])
def test_the_command_drafts_what_the_page_does(
    admin_client: Client,
    owner: Member,
    service: Service,
    query: dict[str, Any],
    words: str,
    ran: int,
) -> None:
    limit = ToolLimit.objects.create(tool="read_label", calls=8)
    ids = {
        "owner": owner.pk,
        "service": service.pk,
        "limit": limit.pk,
        "group": Group.objects.create(name="Sales").pk,
        "second": second_signature().pk,
    }
    stored = {"days": 30, "runs_up_to": "low", "widest_consent": "service", "limits": limit.pk}
    typed = {name: value for name, value in (stored | query).items() if value is not None}
    asked = {name: str(value).format(**ids) for name, value in typed.items()}
    page = admin_client.get("/admin/chatapp/policyrule/simulator/", asked)
    assert told("simulate", *words.format(**ids).split()) == asdict(page.context["found"])
    assert page.context["found"].would["allow"] == ran


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--days 0", "--days must be"),
        ("--with 99", "There is no rule 99."),
        ("--without 99", "There is no rule 99."),
        ("--without-limit 99", "There is no limit 99."),
        ("--person nobody", "Not found: member “nobody”."),
        ("--limit-tool read_label", "--limit is required"),
        ("--limit -1", "--limit must be"),
        ("--limit 1 --limit-own --limit-service shop", "Use either"),
        ("--limit 1 --limit-own --limit-tool read_label", "no built-in tool"),
        ("--allowed-tool read_label", "--allowed-tool needs"),
        ("--rule-tool read_label", "--rule is required"),
        ("--rule deny --rule-own --rule-service shop", "Use either"),
        ("--rule deny --rule-condition amount<", "--rule-condition: "),
        ("--rule deny --rule-own --rule-tool remember --rule-condition txt==1", "named “txt”"),
        ("--rule deny --rule-group Nobody", "Not found: group “Nobody”."),
        ("--allowed-host https://a.test", "“https://a.test” is not a host."),
        ("--without-host a.test", "There is no allowed host “a.test”."),
        ("--high-needs Nobody", "Not found: second-approval requirement “Nobody”."),
    ],
)
def test_a_draft_that_cannot_be_is_refused_in_words(
    service: Service, words: str, says: str
) -> None:
    ran = Ran("policy", "simulate", *words.split())
    assert ran.code == 1
    assert says in ran.err


def drafted(admin: Member) -> PolicyChange:
    change = drafting.start(admin, "No pay")
    row = PolicyRule(name="No pay", effect="deny", tool="pay")
    drafting.store_edit(change, admin, "rule", None, read_values(row, []))
    return change


def test_an_operator_lists_applies_and_undoes_changes(admin: Member) -> None:
    change = drafted(admin)
    assert "draft  No pay (admin)" in Ran("policy", "changes").out
    assert Ran("policy", "apply", str(change.pk)).out == "“No pay” is applied.\n"
    assert PolicyRule.objects.count() == 1
    assert Ran("policy", "changes", "--json").out.count('"state": "applied"') == 1
    assert Ran("policy", "undo", str(change.pk), "--json").json == {
        "id": change.pk,
        "state": "undone",
    }
    assert not PolicyRule.objects.exists()


def test_what_an_operator_cannot_apply_gets_a_sentence(admin: Member) -> None:
    change = drafted(admin)
    ran = Ran("policy", "undo", str(change.pk))
    assert (ran.code, "This change is “draft” now." in ran.err) == (1, True)
    ran = Ran("policy", "apply", "999")
    assert ran.code == 1 and "There is no policy change 999." in ran.err
