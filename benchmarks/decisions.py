"""What one decision costs with many rules, limits and pre-approvals that all have to be checked.

Run `python -m benchmarks.decisions [--rules 200]`. The figure is CPU time of this process, so other
load does not count. The rows are read once for all calls of a step and are not counted.
"""

import argparse
import time

from chatapp.permissions.decide import decide
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import AdminRule, CallFacts, Consent, DailyLimit, PersonFacts, Rule

from .report import print_figures, read_options

CONDITION = 'amount < 100 and currency == "EUR"'


def create_policy(size: int) -> list[Rule]:
    """So many rules, limits and pre-approvals, none of which decides about the call. Half of the
    rules have a condition on the arguments."""
    rules: list[Rule] = []
    for number in range(size):
        condition = CONDITION if number % 2 else ""
        service = "pay" if number % 2 else "mail"
        rules.append(AdminRule(effect="deny", service=service, condition=condition, id=number))
        rules.append(DailyLimit(calls=1_000, service=service))
        hashes = frozenset({f"hash-{number}"})
        rules.append(
            Consent(person_id=1, service="pay", endpoint="https://pay", definition_hashes=hashes)
        )
    return rules


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decisions", description=__doc__)
    parser.add_argument("--rules", type=int, default=200)
    parser.add_argument("--calls", type=int, default=2_000)
    options = read_options(parser, rules=10, calls=50)
    call = CallFacts(
        service="pay",
        tool="send_money",
        is_confirmed=True,
        identical_calls_before=0,
        endpoint="https://pay",
        definition_hash="another",
        arguments={"amount": 500, "currency": "EUR", "to": "Ada"},
    )
    policy, person = create_policy(options.rules), PersonFacts(id=1)
    risk = Risk(level="medium", reasons=("Its name says that it sends.",))
    assert decide(call, risk, policy, person).effect == "ask"
    started = time.process_time()
    for _ in range(options.calls):
        decide(call, risk, policy, person)
    each = (time.process_time() - started) / options.calls
    title = f"{options.rules} rules, {options.rules} limits, {options.rules} pre-approvals"
    print_figures(title, [("one decision", each * 1e6, "µs")])


if __name__ == "__main__":
    main()
