"""The effects of a change, stored with it: the policy tests that it breaks, and the past calls that
it decides otherwise."""

from dataclasses import asdict
from typing import Any

from django.db.models.functions import Now

from chatapp.models import PolicyChange
from chatapp.policy.policy_set import PolicySet
from chatapp.simulation.comparison import Comparison, compare
from chatapp.simulation.past_calls import Scope
from chatapp.simulation.policy_tests import FailedTest, list_failing, load_cases

from .proposal import Proposal, load_proposal

DAYS = 30
MOST_CALLS = 2_000
MOST_FAILING = 20
MOST_PEOPLE = 8


def run_checks(change: PolicyChange) -> Proposal:
    """Run the policy tests, and decide the newest past calls of the last days again."""
    proposal = load_proposal(change)
    before, after = proposal.stored.policy_set, proposal.drafted.policy_set
    scope = Scope(days=DAYS).limit(MOST_CALLS)
    checks = {
        "tests": _run_tests(before, after),
        "simulation": _summarize(compare(before, after, scope)),
    }
    change.checks, change.checked_for = checks, proposal.version
    PolicyChange.objects.filter(pk=change.pk).update(
        checks=checks, checked_for=proposal.version, checked_at=Now()
    )
    return proposal


def _run_tests(before: PolicySet, after: PolicySet) -> dict[str, Any]:
    cases = load_cases()
    already = {failure.test_id for failure in list_failing(before, cases)}
    failing = list_failing(after, cases)
    broken = [failure for failure in failing if failure.test_id not in already]
    return {
        "total": len(cases),
        "broken": len(broken),
        "failing_before": len(failing) - len(broken),
        "failures": [_describe_failure(failure) for failure in broken[:MOST_FAILING]],
    }


def _describe_failure(failure: FailedTest) -> dict[str, Any]:
    return {
        "id": failure.test_id,
        "name": failure.name,
        "expected": failure.expected,
        "found": failure.found,
        "reason": failure.decision.reason,
    }


def _summarize(found: Comparison) -> dict[str, Any]:
    people = found.people[:MOST_PEOPLE]
    rest = found.people[MOST_PEOPLE:]
    return {
        "since": found.since.isoformat(),
        "calls": found.calls,
        "left_out": found.left_out,
        "before": found.before,
        "after": found.after,
        "changed": found.changed,
        "examples": [
            asdict(each) | {"call_id": str(each.call_id), "at": each.at.isoformat()}
            for each in found.examples
        ],
        "people": [asdict(each) for each in people],
        "others": {
            "count": len(rest),
            "before": sum(each.before for each in rest),
            "after": sum(each.after for each in rest),
        },
    }
