"""How well the risk of real tools is recognised.

Run `python -m benchmarks.risk FILE [--wrong]`. FILE holds one labelled tool per line, as JSON:
`tool`, `summary`, `params` (names), `action_values` (lists by parameter), `annotations`, `label`,
and `alt_label` where a second rater could defend a neighbouring level. *Tolerant* counts either
label as right.

A tool *with a free destination* has a parameter that says by its name where data goes: its calls
ask after untrusted content.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chatapp.permissions.destinations import list_free_parameters
from chatapp.permissions.risk import ToolFacts, base_risk, classify
from chatapp.permissions.risk_evidence import LEVELS, Level

from .report import Figure, print_figures, read_options

EXAMPLES: list[dict[str, Any]] = [
    {"tool": "list_notes", "summary": "List the notes.", "params": ["page"], "label": "low"},
    {"tool": "add_note", "summary": "Add a note.", "params": ["text"], "label": "medium"},
    {"tool": "delete_note", "summary": "Delete a note.", "params": ["id"], "label": "high"},
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTool:
    """One tool with its label, and the risk that was found for it."""

    row: dict[str, Any]
    found: Level
    base: Level
    has_destination: bool

    @property
    def label(self) -> Level:
        level: Level = self.row["label"]
        return level

    @property
    def is_right(self) -> bool:
        return self.found in (self.label, self.row.get("alt_label"))


def read_facts(row: dict[str, Any]) -> ToolFacts:
    properties: dict[str, dict[str, Any]] = {name: {"type": "string"} for name in row["params"]}
    for name, values in (row.get("action_values") or {}).items():
        properties[name] = {"type": "string", "enum": values}
    return ToolFacts(
        name=row["tool"],
        description=row["summary"],
        input_schema={"type": "object", "properties": properties},
        annotations=row.get("annotations"),
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def classify_all(rows: Iterable[dict[str, Any]]) -> list[LabelledTool]:
    return [_classify(row, read_facts(row)) for row in rows]


def _classify(row: dict[str, Any], facts: ToolFacts) -> LabelledTool:
    return LabelledTool(
        row=row,
        found=classify(facts).level,
        base=base_risk(facts.name),
        has_destination=bool(list_free_parameters(facts)),
    )


def list_figures(tools: list[LabelledTool]) -> Iterator[Figure]:
    yield "tools", len(tools), "tools"
    yield "right, tolerant", percent(tool.is_right for tool in tools), "%"
    yield "right, exactly", percent(tool.found == tool.label for tool in tools), "%"
    yield "right by the table of names alone", percent(t.base == t.label for t in tools), "%"
    for level in LEVELS:
        labelled = [tool for tool in tools if tool.label == level]
        yield f"label {level}: right, tolerant", percent(tool.is_right for tool in labelled), "%"
        yield f"label {level}: right, exactly", percent(t.found == level for t in labelled), "%"
    counts = Counter((tool.label, tool.found) for tool in tools)
    for label in LEVELS:
        for level in LEVELS:
            yield f"label {label}, found {level}", counts[label, level], "tools"
    missed = [tool for tool in tools if tool.label == "high" and tool.found == "low"]
    for level in LEVELS:
        found = [tool.has_destination for tool in tools if tool.found == level]
        yield f"found {level}, with a free destination", sum(found), "tools"
        yield f"found {level}, with a free destination", percent(found), "%"
    yield "high found low, alternative labels aside", sum(not t.is_right for t in missed), "tools"


def percent(answers: Iterable[bool]) -> float:
    counted = list(answers)
    return 100 * sum(counted) / len(counted) if counted else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.risk", description=__doc__)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--wrong", action="store_true", help="list the tools with a wrong risk")
    options = read_options(parser)
    if options.file is None and not options.smoke:
        parser.error("name a file with labelled tools")
    tools = classify_all(EXAMPLES if options.file is None else read_rows(options.file))
    print_figures("risk of tools", list_figures(tools))
    for tool in tools if options.wrong else ():
        if not tool.is_right:
            row = tool.row
            print(f"{tool.label:>7} found {tool.found:>7}: {row['tool']} — {row['summary']}")


if __name__ == "__main__":
    main()
