"""The documents say what the code does: every setting, every dependency, every command."""

import re
import tomllib
from pathlib import Path
from typing import get_args

from django.core.management import get_commands, load_command_class

from mcpconfig.values.errors import Kind
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.version import VERSION

from .peers.installing import PYTHON
from .peers.programs import bridge_words, bridged

ROOT = Path(__file__).resolve().parent.parent
# Every command has them.
GENERAL = {"--help", "--json", "--user"}


def read(document: str) -> str:
    return (ROOT / document).read_text()


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


def test_there_is_one_version_number() -> None:
    locked = tomllib.loads(read("uv.lock"))["package"]
    [own] = [package for package in locked if package["name"] == "countersign"]
    assert tomllib.loads(read("pyproject.toml"))["project"]["version"] == VERSION
    assert own["version"] == VERSION
    assert f"\n## {VERSION} (" in read("CHANGELOG.md")


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    lines = [*project["dependencies"], *extras]
    needed = {re.split(r"[\[=<>~ ]", line)[0] for line in lines}
    assert needed == words_in_tables("DECISIONS.md")


def test_every_command_of_the_makefile_is_documented() -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets
    documented = (ROOT / "CONTRIBUTING.md").read_text() + (ROOT / "README.md").read_text()
    inner = {"setup", "programs", "clean"}
    for target in set(targets[1].split()) - inner:
        assert f"make {target}" in documented, target


def test_links_between_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_command_that_a_document_names_exists() -> None:
    known = set(get_commands()) | {"help"}
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "compose.yaml"]
    named = {
        (document.name, word)
        for document in documents
        for word in re.findall(r"manage\.py ([a-z_]+)", document.read_text())
    }
    assert {"doctor", "mcp", "rotate_keys", "serve"} <= {word for _, word in named}
    assert {found for found in named if found[1] not in known} == set()


def test_the_image_holds_what_the_program_needs() -> None:
    recipe = (ROOT / "Dockerfile").read_text()
    copied = {
        word for line in re.findall(r"^COPY (?!--)(.*) \S+$", recipe, re.M) for word in line.split()
    }
    needed = {
        "LICENSE",
        "manage.py",
        "chatapp",
        "mcpconfig",
        "templates",
        "static",
        "locale",
        "pyproject.toml",
        "uv.lock",
    }
    assert copied == needed
    allowed = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.M)
    assert set(allowed) == needed
    assert re.search(r"^USER (?!root)\w+$", recipe, re.M)
    assert "/healthz" in recipe


def test_every_verb_and_option_of_the_services_command_is_documented() -> None:
    text = read("docs/services.md")
    parser = load_command_class("mcpconfig", "mcp").create_parser("manage.py", "mcp")
    verbs = next(action.choices for action in parser._actions if action.dest == "verb")
    assert verbs is not None
    for verb, inner in dict(verbs).items():
        assert f"mcp {verb}" in text, verb
        assert all(action.help for action in inner._actions), verb
        options = {option for action in inner._actions for option in action.option_strings}
        ours = {option for option in options if option.startswith("--")} - GENERAL
        missing = {each for each in ours if not re.search(rf"{each}\b", text)}
        assert {each for each in missing if not each.startswith("--no-")} == set(), verb


def test_the_limits_are_what_the_settings_and_the_code_say() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([\d.]+)` \|", read("docs/configuration.md"), re.MULTILINE)
    defaults = {name: float(value) for name, value in rows}
    limits = re.findall(r"^\| [^|]+ \| ([^|]+) \| (`[^|]+`) \|$", read("docs/services.md"), re.M)
    units = {"KiB": 1024}
    found: dict[str, float] = {}
    for amounts, names in limits:
        numbers = re.findall(r"(\d+)(?: (\w+))?", amounts)
        values = [float(number) * units.get(unit, 1) for number, unit in numbers]
        found |= dict(zip(re.findall(r"`(\w+)`", names), values, strict=True))
    assert len(found) > 8
    assert found == {name: defaults[name] for name in found}
    mib = {name: getattr(LIMITS, name) // 2**20 for name in ("response_bytes", "event_bytes")}
    for row in (
        f"one answer, one event in it | {mib['response_bytes']} MiB, {mib['event_bytes']} MiB",
        f"tools, and pages of a list | {LIMITS.tools:,}, {LIMITS.pages}",
        f"the schema of a tool | {LIMITS.schema_bytes // 1024} KiB, {LIMITS.schema_depth} levels",
        f"the result of a tool that is kept | {LIMITS.result_bytes // 2**20} MiB",
        f"a resource | {LIMITS.resource_bytes // 2**20} MiB",
        f"connecting | {LIMITS.connect_seconds:g} s",
    ):
        assert f"| {row} | |" in read("docs/services.md"), row


def test_every_kind_of_failure_has_its_remedy() -> None:
    assert words_in_tables("docs/services.md") >= {*get_args(Kind), "usage"}


def test_the_bridge_is_documented_as_it_is_tested() -> None:
    text = read("docs/services.md")
    said = re.search(r"^    uvx --from (\S+) (mcp-proxy .* -- )uvx (\S+)$", text, re.MULTILINE)
    assert said
    port = re.search(r"--port (\d+)", said[2])
    assert port
    assert [said[1]] == PYTHON["bridge"]
    assert said[2].split() == bridge_words("mcp-proxy", int(port[1]))
    assert any(package.startswith(f"{said[3]}==") for package in PYTHON["bridged"])
    assert f"http://127.0.0.1:{port[1]}{bridged(said[3]).path} --allow-private" in text
