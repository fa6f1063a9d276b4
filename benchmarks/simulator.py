"""What replaying past calls costs: the simulator over many stored calls, under some rules.

Run `python -m benchmarks.simulator [--calls 100000]`. The figures are CPU time of this process, so
other load does not count. Creating the calls is not counted.
"""

import argparse
import time
from collections.abc import Iterator
from typing import Any

from chatapp.models import Member, PolicyRule
from chatapp.policy.policy_set import load_policy_set
from chatapp.simulation.past_calls import Scope
from chatapp.simulation.simulator import simulate
from tests.turns.past_turns import past, shop

from .own_database import own_database
from .report import Figure, print_figures, read_options

PEOPLE = 20
RULES: tuple[dict[str, Any], ...] = (
    {"effect": "allow", "tool": "change_label", "condition": "amount < 1000"},
    {"effect": "deny", "tool": "delete_label", "condition": "amount > 50000"},
    {"effect": "ask", "levels": ["high"]},
    *({"effect": "ask", "tool": f"another_{number}"} for number in range(17)),
)


def measure(calls: int) -> Iterator[Figure]:
    people = [Member.objects.create(username=f"member-{number}") for number in range(PEOPLE)]
    past(people, shop(), calls)
    for number, fields in enumerate(RULES):
        PolicyRule.objects.create(name=f"Rule {number}", **fields)
    policy, started = load_policy_set(), time.process_time()
    found = simulate(policy, Scope(days=1))
    seconds = time.process_time() - started
    assert found.calls == calls
    yield "all calls", seconds, "s"
    yield "one call", seconds / found.calls * 1e6, "µs"
    for effect, count in found.would.items():
        yield f"calls that would be decided as “{effect}”", count, "calls"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulator", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    options = read_options(parser, calls=200)
    with own_database():
        print_figures(f"{options.calls:,} calls, {len(RULES)} rules", measure(options.calls))


if __name__ == "__main__":
    main()
