"""What every file keeps: imports at the top and without circles, each package known to one place,
templates and scripts within their weight. CONTRIBUTING.md names the limits."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from chatapp.server.static_files import BUNDLES, minify

ROOT = Path(__file__).resolve().parent.parent
OURS = ("chatapp", "mcpconfig")

TEMPLATE_LINES = 120
SCRIPT_BYTES = 12 * 1024
# Only for who may use a service with apps, and only on a conversation's page.
APP_FRAME, APP_FRAME_BYTES = "static/js/modules/app_frame.js", 6 * 1024
# Only in the frame of a diagram.
DIAGRAM = "static/js/diagram.js"
# Registered when a browser turns notifications on.
WORKER = "static/js/worker.js"
# Loaded where open pages notify.
NOTIFYING = "static/js/modules/notify.js"
# A module that is loaded with each page, because Safari copies only within the click.
COPYING = "static/js/modules/copy.js"
# Modules, each loaded when an element that names it is used.
LAZY_MODULES = {
    "static/js/modules/figure_view.js",
    "static/js/modules/lightbox.js",
    "static/js/modules/palette.js",
    "static/js/modules/push.js",
    "static/js/modules/quote.js",
}
ALL_SCRIPT_BYTES = 24 * 1024

# Files that import inside a function and why they must.
LATE_IMPORTS = {
    "chatapp/apps.py": "Django forbids models before its applications are ready",
    "mcpconfig/apps.py": "the same",
}
# What each outside thing is known to: files, or folders that end in a slash.
KNOWN_TO = {
    "anthropic": ["chatapp/providers/anthropic/client.py"],
    "boto3": ["chatapp/providers/bedrock/client.py"],
    "botocore": ["chatapp/providers/bedrock/client.py", "chatapp/server/object_storage.py"],
    "storages": ["chatapp/server/object_storage.py"],
    "google": ["chatapp/providers/google/client.py"],
    "openai": ["chatapp/providers/openai/client.py"],
    "mcp": ["mcpconfig/", "chatapp/demo/notebook.py", "chatapp/api/mcp_server.py"],
    "httpx2": [
        *("mcpconfig/", "chatapp/providers/connections.py", "chatapp/audit/anchors.py"),
        *("chatapp/providers/anthropic/client.py", "chatapp/providers/google/client.py"),
        *("chatapp/providers/openai/client.py", "chatapp/providers/http_client.py"),
        *("chatapp/providers/access/server_models.py", "chatapp/notifications/outbound.py"),
    ],
    "pywebpush": ["chatapp/notifications/push_messages.py"],
    "py_vapid": ["chatapp/notifications/push_messages.py"],
    "aiohttp": ["chatapp/providers/http_client.py"],
    "httpx_aiohttp": ["chatapp/providers/http_client.py"],
    "redis": [],
    "jsonschema": ["mcpconfig/values/arguments.py"],
    "nh3": ["chatapp/rendering/markdown/sanitiser.py"],
    "pypdf": ["chatapp/files/pdf_text.py"],
    "defusedxml": ["chatapp/files/office_package.py"],
    "docx": ["chatapp/files/word_text.py"],
    "openpyxl": ["chatapp/files/workbook_text.py"],
    "pptx": ["chatapp/files/slides_text.py"],
    "PIL": ["chatapp/files/square_picture.py"],
    "pygments": ["chatapp/rendering/markdown/code_colours.py"],
    "math_core": ["chatapp/rendering/markdown/formulas.py"],
    "markdown_it": ["chatapp/rendering/"],
    "cryptography": [
        *("mcpconfig/secrets/encryption.py", "chatapp/settings.py", "chatapp/checks.py"),
        *("chatapp/audit/anchors.py", "chatapp/notifications/push_keys.py"),
    ],
    "idna": ["chatapp/permissions/hosts.py"],
    "rfc8785": ["chatapp/permissions/binding.py", "mcpconfig/"],
    "uritemplate": ["mcpconfig/values/uri_templates.py"],
    "uvicorn": [
        *("chatapp/server/serving.py", "chatapp/server/http_protocol.py"),
        "chatapp/demo/listener.py",
    ],
    "httptools": ["chatapp/server/http_protocol.py"],
    "limits": ["chatapp/server/request_rates.py"],
    "prometheus_client": ["chatapp/telemetry/metrics.py"],
    "opentelemetry": ["chatapp/telemetry/otlp.py"],
    "pythonjsonlogger": ["chatapp/telemetry/log_ids.py"],
    "asgi_correlation_id": ["chatapp/telemetry/http_requests.py"],
}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    left_out = {"migrations", "environments", "node_modules"}
    return sorted(path for path in found if not left_out & set(path.parts))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions(path: Path) -> list[Function]:
    return [node for node in ast.walk(parsed(path)) if isinstance(node, FUNCTIONS)]


def modules() -> dict[str, Path]:
    """Every module of ours by its dotted name."""
    found = {}
    for path in sources(*OURS):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(module: str, path: Path, node: ast.Import | ast.ImportFrom) -> list[tuple[str, ...]]:
    """For each name that is imported: the dotted names it may have, most exact first."""
    if isinstance(node, ast.Import):
        return [(alias.name,) for alias in node.names]
    base = node.module or ""
    if node.level:
        is_package = path.name == "__init__.py"
        parents = module.split(".")
        kept = parents[: len(parents) - node.level + is_package]
        base = ".".join([*kept, base] if base else kept)
    return [(f"{base}.{alias.name}", base) for alias in node.names]


def top_level_imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports outside of functions, also those under `if TYPE_CHECKING`."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If):
            yield from top_level_imports([*node.body, *node.orelse])


def graph() -> dict[str, set[str]]:
    """Return the modules that each module imports, imports for type checking included."""
    known = modules()
    edges: dict[str, set[str]] = {module: set() for module in known}
    for module, path in known.items():
        for node in top_level_imports(parsed(path).body):
            for names in imported(module, path, node):
                reached = [found for found in names if found in known]
                edges[module].update(reached[:1])
        edges[module].discard(module)
    return edges


def test_imports_have_no_cycle() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_import_graph_sees_relative_package_and_type_imports() -> None:
    found = graph()
    assert "chatapp.models.people.member" in found["chatapp.models.conversations.conversation"]
    assert "chatapp.models" in found["chatapp.people.sign_in_links"]
    assert "chatapp.admin.activity.turns" in found["chatapp.admin"]
    assert "chatapp.tools.blueprint" in found["chatapp.tools.core_catalogue"]
    with pytest.raises(CycleError):
        TopologicalSorter(
            {**found, "chatapp.models.people.member": {"chatapp.people.sign_in_links"}}
        ).prepare()


def test_imports_are_at_the_top() -> None:
    late = {
        name(path)
        for path in sources(*OURS)
        for function in functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert late == set(LATE_IMPORTS)


def test_each_outside_thing_is_known_where_it_is_wrapped() -> None:
    strangers = []
    for module, path in modules().items():
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for package in {names[0].split(".")[0] for names in imported(module, path, node)}:
                allowed = tuple(KNOWN_TO.get(package, [name(path)]))
                if not name(path).startswith(allowed or ("nowhere",)):
                    strangers.append(f"{name(path)} imports {package}")
    assert strangers == []


def test_templates_are_short() -> None:
    sizes = {
        name(path): len(path.read_text().splitlines())
        for path in (ROOT / "templates").rglob("*.html")
    }
    assert sizes
    assert {file: size for file, size in sizes.items() if size > TEMPLATE_LINES} == {}


def test_templates_hold_no_script_style_or_handler() -> None:
    """The content policy would block them, silently for everybody but a reader of the console."""
    for path in (ROOT / "templates").rglob("*.html"):
        text = path.read_text()
        for forbidden in (" style=", "<style", " onclick=", "hx-on", "javascript:", "hx-vals='js:"):
            assert forbidden not in text, f"{name(path)} has {forbidden}"


def test_our_scripts_are_light() -> None:
    bundled = {f"static/{source}" for sources in BUNDLES.values() for source in sources}
    sizes = {}
    for path in (ROOT / "static/js").rglob("*.js"):
        text = path.read_text()
        served = minify(path.name, text) if name(path) in bundled else text
        sizes[name(path)] = len(served.encode())
    assert sizes[APP_FRAME] <= APP_FRAME_BYTES
    later = {APP_FRAME, DIAGRAM, WORKER, NOTIFYING, COPYING, *LAZY_MODULES}
    eager = {file: size for file, size in sizes.items() if file not in later}
    assert len(eager) == len(sizes) - len(later)
    assert sum(eager.values()) <= SCRIPT_BYTES, eager
    assert sum(sizes.values()) <= ALL_SCRIPT_BYTES, sizes


def test_each_copy_button_names_the_module_that_copies() -> None:
    buttons = [
        button
        for path in (ROOT / "templates").rglob("*.html")
        for button in re.findall(r"<button[^>]*data-copy=[^>]*(?:%}[^>]*)*>", path.read_text())
    ]
    assert len(buttons) > 3
    assert [each for each in buttons if 'data-module="{% static "js/copy.js" %}"' not in each] == []


def test_a_script_is_a_module_only_if_an_element_names_it() -> None:
    """The others are joined to one file, which a module could not be part of."""
    named = {
        f"static/{source}"
        for template in (ROOT / "templates").rglob("*.html")
        for path in re.findall(r'data-module="{% static "([^"]+)" %}"', template.read_text())
        for source in BUNDLES[path]
    }
    exports = {
        name(path)
        for path in (ROOT / "static/js").rglob("*.js")
        if re.search(r"^(export|import) ", path.read_text(), re.MULTILINE)
    }
    assert named == exports == {COPYING, *LAZY_MODULES}
