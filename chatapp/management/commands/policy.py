"""`manage.py policy`: classify the risk of tools, run policy tests, and simulate the policy."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chatapp.management import draft_options
from chatapp.permissions.destinations import list_free_parameters
from chatapp.permissions.risk import ToolFacts, classify
from chatapp.policy.policy_set import load_policy_set
from chatapp.simulation.policy_tests import DECIDED, FailedTest, list_failing, load_cases
from chatapp.simulation.simulator import Simulation, simulate
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Say how risky tools are, and what policy decides about calls."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        classify_parser = verbs.add_parser(
            "classify",
            help="The risk of each tool, and the parameters that say where data goes. One JSON "
            "object a line in, one a line out.",
        )
        classify_parser.add_argument(
            "file", type=Path, help="lines with name, description, inputSchema, …"
        )
        test = verbs.add_parser("test", help="Try the policy tests on policy as it is.")
        test.add_argument("--json", action="store_true", dest="as_json")
        simulation = verbs.add_parser(
            "simulate", help="Decide past calls again, by the policy or a draft."
        )
        draft_options.add_options(simulation)
        simulation.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        match verb:
            case "classify":
                self._classify_all(options["file"])
            case "test":
                self._run_tests(options["as_json"])
            case _:
                self._simulate(options)

    def _run_tests(self, as_json: bool) -> None:
        cases = load_cases()
        failing = list_failing(load_policy_set(), cases)
        if as_json:
            value = {
                "tests": len(cases),
                "failing": [_build_failure_value(failure) for failure in failing],
            }
            self._print(value)
        else:
            for failure in failing:
                self.stdout.write(failure.sentence)
            self.stdout.write(f"{len(cases)} policy tests, {len(failing)} fail.")
        if failing:
            raise SystemExit(1)

    def _simulate(self, options: dict[str, Any]) -> None:
        scope, draft = draft_options.build_scope(options), draft_options.build_draft(options)
        simulation = simulate(draft.policy_set, scope, draft.allowed)
        if options["as_json"]:
            self._print(asdict(simulation))
        else:
            self.stdout.write("\n".join(_format_simulation(simulation)))

    def _print(self, value: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(value, ensure_ascii=False))

    def _classify_all(self, file: Path) -> None:
        try:
            with file.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, start=1):
                    self._classify(number, line)
        except UnicodeDecodeError as error:
            raise Failure("files", f"{file} cannot be read: it is not UTF-8 text.") from error

    def _classify(self, number: int, line: str) -> None:
        if not line.strip():
            return
        try:
            tool = parse_tool(line)
        except ValueError as error:
            raise Failure("refused", f"Line {number}: {error}") from error
        risk = classify(tool)
        value = {
            "name": tool.name,
            "level": risk.level,
            "reasons": list(risk.reasons),
            "destinations": list_free_parameters(tool),
        }
        self.stdout.write(json.dumps(value, ensure_ascii=False))


def _build_failure_value(failure: FailedTest) -> dict[str, Any]:
    return {
        "id": failure.test_id,
        "name": failure.name,
        "expected": failure.expected,
        "decided": failure.found,
        "reason": failure.decision.reason,
    }


def _format_simulation(simulation: Simulation) -> list[str]:
    """Return the result of a simulation as lines of text."""
    would, did = simulation.would, simulation.happened
    return [
        f"{simulation.calls} calls. By themselves would have run {would['allow']}"
        f" (did: {did['allow']}),"
        f" asked {would['ask']} ({did['ask']}), been refused {would['deny']} ({did['deny']}).",
        *(
            f"{each.tool_id}: {each.calls} times {DECIDED[each.would]}, not as it did"
            f" ({DECIDED[each.happened]}). {each.reason}"
            for each in simulation.changes
        ),
        *(
            f"{each.person}: {each.would_ask} questions, {each.asked} as it was, {each.calls} calls"
            for each in simulation.questions
        ),
    ]


def parse_tool(line: str) -> ToolFacts:
    """Parse the tool in one line of JSON. Raise `ValueError` with a sentence if it is invalid."""
    try:
        tool = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("It is not JSON.") from error
    if not isinstance(tool, dict):
        raise ValueError("It is not a JSON object.")
    description = tool.get("description")
    return ToolFacts(
        name=_check_name(tool.get("name")),
        description=description if isinstance(description, str) else "",
        input_schema=tool.get("inputSchema", {}),
        annotations=tool.get("annotations"),
        is_trusted=tool.get("trusted") is True,
    )


def _check_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError("It has no name.")
    return name
