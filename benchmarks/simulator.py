"""What replaying past calls costs: the simulator over many stored calls, under some rules.

Run `python -m benchmarks.simulator [--calls 100000]`. The calls are made in a database of its own,
which is not counted. CPU time of this process, so other load does not count.
"""

import argparse
import os
import time
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from django.test.utils import setup_databases, teardown_databases  # noqa: E402 - Django comes first

from chatapp.models import Member, PolicyRule  # noqa: E402
from chatapp.turns.admins_word import stored_word  # noqa: E402
from chatapp.turns.past_facts import Scope  # noqa: E402
from chatapp.turns.replay import replay  # noqa: E402
from tests.chatapp.turns.past import past, shop  # noqa: E402

PEOPLE = 20
RULES: tuple[dict[str, Any], ...] = (
    {"effect": "allow", "tool": "change_label", "condition": "amount < 1000"},
    {"effect": "deny", "tool": "delete_label", "condition": "amount > 50000"},
    {"effect": "ask", "levels": ["high"]},
    *({"effect": "ask", "tool": f"another_{number}"} for number in range(17)),
)


def measure(calls: int) -> None:
    people = [Member.objects.create(username=f"member-{number}") for number in range(PEOPLE)]
    past(people, shop(), calls)
    for number, fields in enumerate(RULES):
        PolicyRule.objects.create(name=f"Rule {number}", **fields)
    word, started = stored_word(), time.process_time()
    found = replay(word, Scope(days=1))
    seconds = time.process_time() - started
    print(f"{found.calls:,} calls under {len(RULES)} rules: {seconds:.1f} s,", end=" ")
    print(f"{seconds / found.calls * 1e6:.0f} µs a call; {found.would}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    calls = parser.parse_args().calls
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        measure(calls)
    finally:
        teardown_databases(databases, verbosity=0)


if __name__ == "__main__":
    main()
