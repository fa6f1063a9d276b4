"""How well the risk of real tools is told: `python -m benchmarks.risk FILE`.

FILE holds one labelled tool a line: `tool`, `summary`, `params` (names), `action_values` (lists by
parameter), `annotations`, `label`, and `alt_label` where a second rater could defend a neighbouring
level. *Tolerant* counts either label as right.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chatapp.permissions.findings import LEVELS, Level
from chatapp.permissions.risk import ToolFacts, base_risk, classify


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One tool: what people said of it and what was told of it."""

    row: dict[str, Any]
    told: Level
    base: Level

    @property
    def label(self) -> Level:
        level: Level = self.row["label"]
        return level

    @property
    def is_right(self) -> bool:
        return self.told in (self.label, self.row.get("alt_label"))


def facts_of(row: dict[str, Any]) -> ToolFacts:
    properties: dict[str, dict[str, Any]] = {name: {"type": "string"} for name in row["params"]}
    for name, values in (row.get("action_values") or {}).items():
        properties[name] = {"type": "string", "enum": values}
    return ToolFacts(
        name=row["tool"],
        description=row["summary"],
        input_schema={"type": "object", "properties": properties},
        annotations=row["annotations"],
    )


def judged(path: Path) -> list[Judged]:
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return [
        Judged(row=row, told=classify(facts_of(row)).level, base=base_risk(row["tool"]))
        for row in rows
    ]


def kept(tools: Iterable[Judged], label: Level) -> str:
    """The share of a label's tools that were told so, exactly and tolerantly."""
    labelled = [tool for tool in tools if tool.label == label]
    exact = sum(tool.told == label for tool in labelled) / len(labelled)
    tolerant = sum(tool.is_right for tool in labelled) / len(labelled)
    return f"{tolerant:.3f} (exactly {exact:.3f})"


def report(tools: list[Judged]) -> None:
    matrix = Counter((tool.label, tool.told) for tool in tools)
    print(f"{len(tools)} tools; rows: the label, columns: what was told")
    print("        " + "".join(f"{level:>8}" for level in LEVELS))
    for label in LEVELS:
        print(f"{label:>8}" + "".join(f"{matrix[label, told]:8}" for told in LEVELS))
    exact = sum(tool.told == tool.label for tool in tools) / len(tools)
    base = sum(tool.base == tool.label for tool in tools) / len(tools)
    tolerant = sum(tool.is_right for tool in tools) / len(tools)
    blind = [tool for tool in tools if tool.label == "high" and tool.told == "low"]
    wrong = [tool for tool in blind if not tool.is_right]
    print(f"exact {exact:.3f}, tolerant {tolerant:.3f}, base table alone {base:.3f}")
    print(f"high called low {len(wrong)} (with an alternative low {len(blind) - len(wrong)} more)")
    print(f"high found {kept(tools, 'high')}")
    print(f"low kept low {kept(tools, 'low')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--wrong", action="store_true", help="list what was told wrongly")
    options = parser.parse_args()
    tools = judged(options.file)
    report(tools)
    if options.wrong:
        for tool in tools:
            if not tool.is_right:
                row = tool.row
                print(f"{tool.label:>7} told {tool.told:>7}: {row['tool']} — {row['summary']}")


if __name__ == "__main__":
    main()
