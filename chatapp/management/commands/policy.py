"""`manage.py policy`: classify the risk of tools, run policy tests, simulate the policy, and apply
policy changes."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.management import draft_options
from chatapp.models import PolicyChange
from chatapp.people.refused import Refused
from chatapp.permissions.destinations import list_free_parameters
from chatapp.permissions.reasons import translate_reason
from chatapp.permissions.risk import ToolFacts, classify
from chatapp.policy.policy_set import load_policy_set
from chatapp.policy_changes import decisions
from chatapp.simulation.policy_tests import DECIDED, FailedTest, list_failing, load_cases
from chatapp.simulation.simulator import Simulation, simulate
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand

MOST_CHANGES = 50


class Command(OperatorCommand):
    help = gettext_lazy(
        "Classify tools by risk, run policy tests, simulate policy, and apply policy changes."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        classify_parser = verbs.add_parser(
            "classify",
            help=_(
                "The risk of each tool, and the parameters that decide where data goes. "
                "Reads and writes one JSON object per line."
            ),
        )
        classify_parser.add_argument(
            "file", type=Path, help=_("lines with name, description, inputSchema, …")
        )
        test = verbs.add_parser("test", help=_("Run the policy tests against the current policy."))
        test.add_argument("--json", action="store_true", dest="as_json")
        simulation = verbs.add_parser(
            "simulate", help=_("Decide past calls again, with the current policy or a draft.")
        )
        draft_options.add_options(simulation)
        simulation.add_argument("--json", action="store_true", dest="as_json")
        changes = verbs.add_parser("changes", help=_("List the newest changes."))
        changes.add_argument("--json", action="store_true", dest="as_json")
        for name, text in {
            "apply": _("Apply a policy change, without a second admin. It is logged."),
            "undo": _("Undo an applied policy change, without a second admin. It is logged."),
        }.items():
            verb = verbs.add_parser(name, help=text)
            verb.add_argument("change", type=int, metavar="ID", help=_("the number of the change"))
            verb.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        match verb:
            case "classify":
                self._classify_all(options["file"])
            case "test":
                self._run_tests(options["as_json"])
            case "changes":
                self._list_changes(options["as_json"])
            case "apply" | "undo":
                self._decide(verb, options["change"], options["as_json"])
            case _:
                self._simulate(options)

    def _list_changes(self, as_json: bool) -> None:
        for change in PolicyChange.objects.select_related("author")[:MOST_CHANGES]:
            value = {
                "id": change.pk,
                "state": change.state,
                "title": change.title,
                "author": change.author.username if change.author else "",
                "created_at": change.created_at.isoformat(),
            }
            if as_json:
                self._print(value)
            else:
                text = _("%(id)s  %(state)s  %(title)s (%(author)s)")
                self.stdout.write(text % {**value, "state": change.get_state_display()})

    def _decide(self, verb: str, change_id: int, as_json: bool) -> None:
        """Apply or undo a change as the operator of the server."""
        try:
            if verb == "apply":
                decisions.apply_as_operator(change_id)
            else:
                _reverse, refusal = decisions.undo(change_id, None)
                if refusal is not None:
                    raise refusal
        except PolicyChange.DoesNotExist as error:
            text = _("There is no policy change %(id)s.") % {"id": change_id}
            raise Failure("refused", text, _("List them: manage.py policy changes")) from error
        except Refused as refused:
            raise Failure("refused", refused.sentence) from refused
        change = PolicyChange.objects.get(pk=change_id)
        if as_json:
            self._print({"id": change.pk, "state": change.state})
        else:
            text = _("“%(title)s” is %(state)s.")
            values = {"title": change.title, "state": change.get_state_display()}
            self.stdout.write(text % values)

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
            self.stdout.write(
                _("%(count)s policy tests, %(failing)s failed.")
                % {"count": len(cases), "failing": len(failing)}
            )
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
            raise Failure(
                "files", _("%(file)s can’t be read: it is not UTF-8 text.") % {"file": file}
            ) from error

    def _classify(self, number: int, line: str) -> None:
        if not line.strip():
            return
        try:
            tool = parse_tool(line)
        except ValueError as error:
            raise Failure(
                "refused", _("Line %(number)s: %(reason)s") % {"number": number, "reason": error}
            ) from error
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
        (
            _(
                "%(calls)s calls. Allowed: %(allow)s (before: %(allowed)s). Asked: %(ask)s "
                "(before: %(asked)s). Refused: %(deny)s (before: %(denied)s)."
            )
            % {
                "calls": simulation.calls,
                "allow": would["allow"],
                "allowed": did["allow"],
                "ask": would["ask"],
                "asked": did["ask"],
                "deny": would["deny"],
                "denied": did["deny"],
            }
        ),
        *(
            _("%(tool)s, %(calls)s calls: %(would)s (before: %(before)s). %(reason)s")
            % {
                "tool": each.tool_id,
                "calls": each.calls,
                "would": DECIDED[each.would],
                "before": DECIDED[each.happened],
                "reason": translate_reason(each.reason),
            }
            for each in simulation.changes
        ),
        *(
            (
                _(
                    "%(person)s: %(questions)s approval requests (before: %(before)s), %(calls)s "
                    "calls"
                )
                % {
                    "person": each.person,
                    "questions": each.would_ask,
                    "before": each.asked,
                    "calls": each.calls,
                }
            )
            for each in simulation.questions
        ),
    ]


def parse_tool(line: str) -> ToolFacts:
    """Parse the tool in one line of JSON. Raise `ValueError` with a sentence if it is invalid."""
    try:
        tool = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(_("It is not JSON.")) from error
    if not isinstance(tool, dict):
        raise ValueError(_("It is not a JSON object."))
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
        raise ValueError(_("It has no name."))
    return name
