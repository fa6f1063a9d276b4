"""Rules of the turn engine that a database could break are tested on PostgreSQL as well: row locks,
characters that it refuses, JSON that it compares."""

import os
import subprocess
import sys

import pytest

from .server import ROOT, spare_database

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# Whole files, or of a file only the tests in which the two databases could differ: emptying
# PostgreSQL's tables after each takes a second.
RUNS = {
    "stopping": ("stopping",),
    "group_commit": ("group_commit",),
    "lease": ("lease",),
    "ledger": ("ledger",),
    "away": (
        "database_away::test_a_turn_that_the_database_refuses_each_time_ends_with_a_plain_word",
        "database_away::test_a_rest_forgets_what_the_database_refused_before",
        "cancelling::test_a_call_that_a_closing_process_cuts_off_is_as_if_the_process_had_died",
    ),
    "questions": (
        "question_pause::test_the_turn_parks_and_the_same_call_goes_on_with_the_answer",
        "question_pause::test_what_is_asked_together_is_answered_together",
        "question_pause::test_the_state_of_the_service_comes_back_to_it_and_lies_here_encrypted",
        "question_pause::test_only_the_first_answer_counts",
        "question_races::test_of_answers_at_the_same_moment_one_counts_and_the_service_hears_one",
        "question_pause::test_stop_withdraws_the_question",
        "question_pause::test_nobody_answers_in_time_and_the_model_is_told",
        "question_pause::test_a_call_that_is_wanted_again_later_goes_on_when_its_time_has_come",
        "live_questions::test_the_answer_reaches_the_open_call",
        "live_questions::test_with_its_worker_the_question_is_gone_and_the_outcome_unknown",
    ),
    "sign-ins": (
        "sign_in_pause::test_the_turn_parks_and_the_same_call_goes_on_after_the_sign_in",
        "sign_in_pause::test_nobody_signs_in_in_time_and_the_model_is_told",
        "sign_in_pause::test_a_sign_in_that_came_while_the_call_was_under_way_is_not_asked_for_again",
        "sign_in_pause::test_a_sign_in_whose_news_was_lost_is_noticed_by_the_sweep",
        "task_sign_in::test_the_card_asks_for_the_sign_in_and_the_same_task_goes_on_after_it",
    ),
    "tasks": (
        "remote_tasks::test_the_turn_is_parked_and_goes_on_with_the_result",
        "remote_tasks::test_of_two_processes_one_asks",
        "remote_tasks::test_a_service_that_is_away_is_asked_again_and_less_often",
        "remote_tasks::test_stop_reaches_the_service_and_the_card_says_what_came_of_it",
        "task_questions::test_a_task_asks_on_the_same_card_and_gets_the_answer",
        "task_questions::test_the_same_question_again_is_shown_unless_the_answer_may_have_crossed_it",
    ),
    "apps": (
        "apps::test_a_low_risk_call_of_an_app_runs_under_a_permit_and_asks_no_model",
        "apps::test_a_high_risk_call_of_an_app_waits_for_the_person",
        "apps::test_an_app_ends_no_question_that_is_open",
        "apps::test_an_app_may_not_ask_without_end",
        "apps::test_an_app_is_read_once_and_stays_as_it_was_shown",
        "apps::test_the_model_is_told_later_what_an_app_did",
    ),
    "core tools": (
        "core_calls::test_what_a_database_cannot_keep_fails_the_call_and_not_the_turn",
        "core_calls::test_strangers_words_from_an_earlier_chat_count_as_strangers_words",
        "core_calls::test_what_fails_halfway_has_done_nothing_and_tells_no_internals",
        "core_plans::test_what_is_ticked_in_a_later_turn_changes_the_same_plan",
        "core_questions::test_the_answers_go_back_to_the_model_as_the_result",
        "core_services::test_to_prepare_holds_no_transaction_and_its_result_reaches_the_tool",
    ),
    "log": ("log", "log_of_calls", "log_of_changes"),
    "whatever order": ("pauses_machine",),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_turn_engine_keeps_its_rules_on_postgresql(name: str) -> None:
    """The same tests in a process of their own, whose database is dropped afterwards."""
    chosen = [node.partition("::") for node in RUNS[name]]
    nodes = [f"tests/chatapp/turns/test_{file}.py{sep}{test}" for file, sep, test in chosen]
    with spare_database() as url:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *nodes],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=280,
        )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
    assert "[100%]" in done.stdout
