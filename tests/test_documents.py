"""The documents say what the code does: every setting, every dependency, every command."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def words_in_tables(document: str) -> set[str]:
    """What stands between backticks in the first cell of a table row."""
    rows = re.findall(r"^\| (`[^|]+) \|", (ROOT / document).read_text(), re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row)}


def test_every_setting_is_documented_and_every_documented_one_is_read() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "chatapp").rglob("*.py"))
    settings = (ROOT / "chatapp/settings.py").read_text()
    read = set(re.findall(r'\benv\.\w+\(\s*"([A-Z_]+)"', settings))
    documented = words_in_tables("docs/configuration.md")
    assert read <= documented, read - documented
    unread = {name for name in documented if f'"{name}"' not in source}
    assert unread == set()


def test_the_example_names_only_settings_that_exist() -> None:
    names = re.findall(r"^# ([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE)
    assert names
    assert set(names) <= words_in_tables("docs/configuration.md")


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[\[=<>~ ]", line)[0] for line in project["dependencies"]}
    assert needed == words_in_tables("DECISIONS.md")


def test_every_command_of_the_makefile_is_documented() -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets
    documented = (ROOT / "CONTRIBUTING.md").read_text() + (ROOT / "README.md").read_text()
    inner = {"setup", "test-slow", "clean"}
    for target in set(targets[1].split()) - inner:
        assert f"make {target}" in documented, target


def test_links_between_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
