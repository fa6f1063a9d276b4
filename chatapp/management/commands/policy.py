"""`manage.py policy`: the risk of tools that are described one a line, the policy tests, and past
calls decided anew."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chatapp.management import drafting
from chatapp.permissions.risk import ToolFacts, classify
from chatapp.turns.admins_word import stored_word
from chatapp.turns.policy_tests import DECIDED, Failing, cases, failing
from chatapp.turns.replay import Replay, replay
from mcpconfig.management.ending import OperatorCommand
from mcpconfig.management.failures import Failure


class Command(OperatorCommand):
    help = "Say how risky tools are, and what policy decides about calls."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        one = verbs.add_parser("classify", help="One JSON object a line in, one a line out.")
        one.add_argument("file", type=Path, help="lines with name, description, inputSchema, …")
        tests = verbs.add_parser("test", help="Try the policy tests on policy as it is.")
        tests.add_argument("--json", action="store_true", dest="as_json")
        past = verbs.add_parser("simulate", help="Decide past calls anew, by policy or a draft.")
        drafting.add_options(past)
        past.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        match verb:
            case "classify":
                self._classify_all(options["file"])
            case "test":
                self._test(options["as_json"])
            case _:
                self._simulate(options)

    def _test(self, as_json: bool) -> None:
        tried = cases()
        broken = failing(stored_word(), tried)
        if as_json:
            value = {"tests": len(tried), "failing": [_failing_value(each) for each in broken]}
            self._print(value)
        else:
            for failure in broken:
                self.stdout.write(failure.sentence)
            self.stdout.write(f"{len(tried)} policy tests, {len(broken)} fail.")
        if broken:
            raise SystemExit(1)

    def _simulate(self, options: dict[str, Any]) -> None:
        scope, draft = drafting.scope_of(options), drafting.draft_of(options)
        found = replay(draft.word, scope, draft.allowed)
        if options["as_json"]:
            self._print(asdict(found))
        else:
            self.stdout.write("\n".join(_lines(found)))

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
            tool = tool_facts(line)
        except ValueError as error:
            raise Failure("refused", f"Line {number}: {error}") from error
        risk = classify(tool)
        judged = {"name": tool.name, "level": risk.level, "reasons": list(risk.reasons)}
        self.stdout.write(json.dumps(judged, ensure_ascii=False))


def _failing_value(failure: Failing) -> dict[str, Any]:
    return {
        "id": failure.test_id,
        "name": failure.name,
        "expected": failure.expected,
        "decided": failure.found,
        "reason": failure.decision.reason,
    }


def _lines(found: Replay) -> list[str]:
    """What came of it, for people."""
    would, did = found.would, found.happened
    return [
        f"{found.calls} calls. By themselves would have run {would['allow']} (did: {did['allow']}),"
        f" asked {would['ask']} ({did['ask']}), been refused {would['deny']} ({did['deny']}).",
        *(
            f"{each.tool_id}: {each.calls} times {DECIDED[each.would]}, not as it did"
            f" ({DECIDED[each.happened]}). {each.reason}"
            for each in found.changes
        ),
        *(
            f"{each.person}: {each.would_ask} questions, {each.asked} as it was, {each.calls} calls"
            for each in found.questions
        ),
    ]


def tool_facts(line: str) -> ToolFacts:
    """The tool of one line; ValueError with a sentence where it is not one."""
    try:
        tool = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("It is not JSON.") from error
    if not isinstance(tool, dict):
        raise ValueError("It is not a JSON object.")
    description = tool.get("description")
    return ToolFacts(
        name=_name(tool.get("name")),
        description=description if isinstance(description, str) else "",
        input_schema=tool.get("inputSchema", {}),
        annotations=tool.get("annotations"),
        is_trusted=tool.get("trusted") is True,
    )


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError("It has no name.")
    return name
