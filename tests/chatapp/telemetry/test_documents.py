"""Documents, dashboard and alert rules name the metrics that there are, and no others."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from chatapp.telemetry import metrics
from tests.test_documents import words_in_tables

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs/monitoring"
SUFFIXES = ("_bucket", "_count", "_sum")
# What Prometheus itself knows of a target.
OF_PROMETHEUS = {"up"}


def names_in_code() -> set[str]:
    """Every metric by the name with which people write it."""
    found = set(metrics.READINGS)
    for family in metrics.REGISTRY.collect():
        found.add(f"{family.name}_total" if family.type == "counter" else family.name)
    return found


def names_in(expression: str) -> set[str]:
    found = set(re.findall(r"\bcountersign_\w+", expression))
    known = names_in_code()
    histograms = {f"{name}{suffix}": name for name in known for suffix in SUFFIXES}
    return {histograms.get(name, name) for name in found}


def labels_in(expression: str) -> set[str]:
    grouped = ", ".join(re.findall(r"\bby \(([^)]*)\)", expression))
    matched = re.findall(r"[{,]\s*(\w+)(?:=~|!~|!=|=)", expression)
    return {label.strip() for label in grouped.split(",") if label.strip()} | set(matched)


def labels_in_code() -> set[str]:
    declared = [value for value in vars(metrics).values() if hasattr(value, "_labelnames")]
    found = {label for metric in declared for label in metric._labelnames}
    return found | {label for _text, labels in metrics.READINGS.values() for label in labels}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return list(json.loads((FOLDER / "grafana-dashboard.json").read_text())["panels"])


def expressions() -> list[str]:
    in_panels = [each["expr"] for panel in panels() for each in panel.get("targets", [])]
    return in_panels + [rule["expr"] for rule in rules()]


def test_the_table_of_metrics_has_each_metric() -> None:
    rows = {
        word for word in words_in_tables("docs/monitoring.md") if word.startswith("countersign")
    }
    assert rows == names_in_code()


def test_the_dashboard_shows_each_metric_and_no_other() -> None:
    shown = {
        name
        for panel in panels()
        for each in panel.get("targets", [])
        for name in names_in(each["expr"])
    }
    assert shown == names_in_code()


def test_alerts_name_only_metrics_that_there_are() -> None:
    for rule in rules():
        named = names_in(rule["expr"])
        assert named <= names_in_code()
        assert named or set(re.findall(r"^\w+", rule["expr"])) <= OF_PROMETHEUS
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_expressions_use_only_labels_that_there_are() -> None:
    for expression in expressions():
        assert labels_in(expression) <= labels_in_code() | {"le", "job"}, expression


def test_the_labels_of_an_expression_are_found() -> None:
    assert labels_in('sum by (le, kind) (x{state="a", how!~"b"})') == {"le", "kind", "state", "how"}
    assert names_in("rate(countersign_commit_seconds_bucket[5m])") == {"countersign_commit_seconds"}


def test_each_alert_says_what_to_do() -> None:
    documented = {
        word for word in words_in_tables("docs/monitoring.md") if word.startswith("Countersign")
    }
    assert documented == {rule["alert"] for rule in rules()}


def test_panels_do_not_cover_each_other() -> None:
    places = [tuple(panel["gridPos"][key] for key in "xy") for panel in panels()]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in panels()}) == len(places)
