"""What SQLite shows of messages, the journal and storage, once more on PostgreSQL.

Only where the two differ: emptying PostgreSQL's tables after each test takes a second or more.
"""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.flows.server import ROOT
from tests.migrated import POSTGRESQL

TESTS = Path(__file__).parents[1]
CHOSEN = [
    "engine/on_postgresql.py",
    "approvals/test_two_tabs.py::test_at_the_same_moment_one_decision_counts[20 stories]",
    "conversations/test_intake.py::test_the_same_message_sent_ten_times_at_once_is_one_turn",
    "conversations/test_intake.py::test_the_same_post_from_eight_tabs_begins_one_chat_and_none_is_refused",
    "conversations/test_intake.py::test_the_same_post_to_an_open_chat_is_stored_once_and_none_is_refused",
    "conversations/test_intake.py::test_of_different_messages_at_once_one_is_sent_and_the_others_are_queued",
    "conversations/test_intake.py::test_chats_that_begin_at_once_are_all_whole",
    "journal/test_journal.py::test_what_was_written_is_read_as_it_was[text]",
    "journal/test_journal.py::test_an_event_may_belong_to_no_turn",
    "journal/test_journal.py::test_words_of_many_conversations_cost_two_statements",
    "journal/test_journal.py::test_writers_at_the_same_time_leave_no_gap_and_no_double",
    "server/test_compiled_queries.py",
    "engine/test_statements.py",
    "calls/test_statements.py",
    "policy/test_stored_policy.py",
    "server/test_database.py::test_a_snapshot_is_of_one_moment_and_hinders_no_writer",
    "server/test_database.py::test_what_was_made_storable_comes_back_as_it_was",
    "approvals/test_two_signers.py::test_a_requester_in_many_tabs_signs_once",
    "approvals/test_two_signers.py::test_of_many_approvers_who_sign_and_refuse_at_once_one_decides",
    "approvals/test_two_signers.py::test_the_requester_takes_it_back_while_another_signs",
    "approvals/test_two_signers.py::test_nobody_signs_second_before_somebody_has_signed_first",
    "approvals/test_two_signers.py::test_whoever_answers_at_once_it_is_sent_at_most_once[1]",
    "approvals/test_two_signers.py::test_whoever_answers_at_once_it_is_sent_at_most_once[2]",
    "people/test_second_signers.py::test_the_earlier_of_both_deadlines_counts",
    "approvals/test_signers.py::test_after_a_while_others_may_sign_too_without_anybody_doing_anything",
    "approvals/test_signers.py::test_a_stand_in_signs_in_the_approvers_right",
    "context/test_history.py::test_a_long_chat_is_read_in_as_many_statements_as_a_short_one",
]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_same_holds_on_postgresql() -> None:
    """In a process of its own: Django's settings name one database. The run makes its own one
    beside the named one, and drops it."""
    environment = {**os.environ, "DATABASE_URL": f"{POSTGRESQL}/turns_{uuid.uuid4().hex[:12]}"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", ""]
    done = subprocess.run(
        [*command, *(str(TESTS / name) for name in CHOSEN)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=880,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    assert "[100%]" in done.stdout
