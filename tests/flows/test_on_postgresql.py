"""Rules of the turn engine that a database could break are tested on PostgreSQL as well: row locks,
characters that it refuses, JSON that it compares."""

import os
import subprocess
import sys

import pytest

from .server import ROOT, spare_database

pytestmark = [pytest.mark.long, pytest.mark.timeout(960)]

# Whole files, or of a file only the tests in which the two databases could differ: emptying
# PostgreSQL's tables after each takes a second.
RUNS = {
    "stopping": ("chatapp/engine/test_stopping.py",),
    "group_commit": ("chatapp/journal/test_group_commit.py", "chatapp/journal/test_journal.py"),
    "search": ("chatapp/conversations/test_search.py",),
    "versions": (
        "chatapp/conversations/test_versions.py",
        "chatapp/conversations/test_versions_of_copies.py::test_of_two_acts_at_the_same_moment_one_is_refused",
    ),
    "queue": (
        "chatapp/conversations/test_message_queue.py",
        "chatapp/views/chat/test_drafts.py",
    ),
    "titles": ("chatapp/engine/test_titles.py",),
    "lease": ("chatapp/journal/test_lease.py",),
    "ledger": ("chatapp/calls/test_ledger.py",),
    "away": (
        "chatapp/engine/test_database_away.py::test_a_turn_that_the_database_refuses_each_time_ends_with_a_plain_word",
        "chatapp/engine/test_database_away.py::test_a_rest_forgets_what_the_database_refused_before",
        "chatapp/approvals/test_cancelling.py::test_a_call_that_a_closing_process_cuts_off_is_as_if_the_process_had_died",
    ),
    "questions": (
        "chatapp/calls/test_question_pause.py::test_the_turn_parks_and_the_same_call_goes_on_with_the_answer",
        "chatapp/calls/test_question_pause.py::test_what_is_asked_together_is_answered_together",
        "chatapp/calls/test_question_pause.py::test_the_state_of_the_service_comes_back_to_it_and_lies_here_encrypted",
        "chatapp/calls/test_question_pause.py::test_only_the_first_answer_counts",
        "chatapp/approvals/test_question_races.py::test_of_answers_at_the_same_moment_one_counts_and_the_service_hears_one",
        "chatapp/calls/test_question_pause.py::test_stop_withdraws_the_question",
        "chatapp/calls/test_question_pause.py::test_nobody_answers_in_time_and_the_model_is_told",
        "chatapp/calls/test_question_pause.py::test_a_call_that_is_wanted_again_later_goes_on_when_its_time_has_come",
        "chatapp/calls/test_live_questions.py::test_the_answer_reaches_the_open_call",
        "chatapp/calls/test_live_questions.py::test_with_its_worker_the_question_is_gone_and_the_outcome_unknown",
    ),
    "sign-ins": (
        "chatapp/calls/test_sign_in_pause.py::test_the_turn_parks_and_the_same_call_goes_on_after_the_sign_in",
        "chatapp/calls/test_sign_in_pause.py::test_nobody_signs_in_in_time_and_the_model_is_told",
        "chatapp/calls/test_sign_in_pause.py::test_a_sign_in_that_came_while_the_call_was_under_way_is_not_asked_for_again",
        "chatapp/calls/test_sign_in_pause.py::test_a_sign_in_whose_news_was_lost_is_noticed_by_the_sweep",
        "chatapp/calls/test_task_sign_in.py::test_the_card_asks_for_the_sign_in_and_the_same_task_goes_on_after_it",
    ),
    "tasks": (
        "chatapp/calls/test_remote_tasks.py::test_the_turn_is_parked_and_goes_on_with_the_result",
        "chatapp/calls/test_remote_tasks.py::test_of_two_processes_one_asks",
        "chatapp/calls/test_remote_tasks.py::test_a_service_that_is_away_is_asked_again_and_less_often",
        "chatapp/calls/test_remote_tasks.py::test_stop_reaches_the_service_and_the_card_says_what_came_of_it",
        "chatapp/calls/test_task_questions.py::test_a_task_asks_on_the_same_card_and_gets_the_answer",
        "chatapp/calls/test_task_questions.py::test_the_same_question_again_is_shown_unless_the_answer_may_have_crossed_it",
    ),
    "apps": (
        "chatapp/api/test_apps.py::test_a_low_risk_call_of_an_app_runs_under_a_permit_and_asks_no_model",
        "chatapp/api/test_apps.py::test_a_high_risk_call_of_an_app_waits_for_the_person",
        "chatapp/api/test_apps.py::test_an_app_ends_no_question_that_is_open",
        "chatapp/api/test_apps.py::test_an_app_may_not_ask_without_end",
        "chatapp/api/test_apps.py::test_an_app_is_read_once_and_stays_as_it_was_shown",
        "chatapp/api/test_apps.py::test_the_model_is_told_later_what_an_app_did",
    ),
    "core tools": (
        "chatapp/calls/test_own_tool_calls.py::test_what_a_database_cannot_keep_fails_the_call_and_not_the_turn",
        "chatapp/calls/test_own_tool_calls.py::test_strangers_words_from_an_earlier_chat_count_as_strangers_words",
        "chatapp/calls/test_own_tool_calls.py::test_what_fails_halfway_has_done_nothing_and_tells_no_internals",
        "chatapp/calls/test_own_tool_plans.py::test_what_is_ticked_in_a_later_turn_changes_the_same_plan",
        "chatapp/calls/test_own_tool_questions.py::test_the_answers_go_back_to_the_model_as_the_result",
        "chatapp/calls/test_own_tool_services.py::test_to_prepare_holds_no_transaction_and_its_result_reaches_the_tool",
    ),
    "log": (
        "chatapp/audit/test_audit_log.py",
        "chatapp/audit/test_call_entries.py",
        "chatapp/audit/test_change_entries.py",
    ),
    "policy changes": ("chatapp/policy_changes/test_decisions.py",),
    "accounts": (
        "chatapp/accounts/test_second_factor.py",
        "chatapp/accounts/test_settings_page.py",
        "chatapp/accounts/test_directory.py",
    ),
    "whatever order": ("chatapp/calls/test_pauses_machine.py",),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_turn_engine_keeps_its_rules_on_postgresql(name: str) -> None:
    """The same tests in a process of their own, whose database is dropped afterwards."""
    nodes = [f"tests/{node}" for node in RUNS[name]]
    with spare_database() as url:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *nodes],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=900,
        )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
    assert "[100%]" in done.stdout
