"""Static files: each bundle is its sources in order, wherever it is served from."""

import gzip
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import brotli
import pytest
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.test import Client, override_settings
from pytest_django import Settings

from chatapp.models import Member, Turn
from chatapp.server import static_files
from chatapp.server.static_files import BUNDLES, NEVER_SERVED, BundleFinder
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.turns import rows

STATIC = Path(__file__).resolve().parents[3] / "static"
HASHED = "chatapp.server.static_files.CompressedStorage"
REQUESTS = 6  # the page, a sheet, htmx, our script, the module that copies, the icon


def joined(name: str) -> str:
    return "".join((STATIC / source).read_text() for source in BUNDLES[name])


def served(name: str) -> str:
    """What is served: the sources without comments, after a line that says of which they are."""
    sources = joined(name)
    stamp = hashlib.sha256(f"{static_files.list_tools()}{sources}".encode()).hexdigest()[:12]
    return f"/*{stamp}*/\n{static_files.minify(name, sources)}"


@pytest.fixture
def collected(tmp_path: Path, settings: Settings) -> Iterator[Path]:
    """STATIC_ROOT as a server fills it at its first start, with hashed names."""
    settings.STATIC_ROOT = tmp_path / "static"
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": HASHED}}
    assert static_files.collect()
    yield tmp_path / "static"


def assets_of(client: Client, address: str) -> list[str]:
    page = parse(client.get(address).content.decode())
    links = [each["href"] for each in page.all("link") if each["rel"] in ("stylesheet", "icon")]
    return [*links, *(each["src"] for each in page.all("script") if "src" in each)]


# --- what a bundle is -----------------------------------------------------------------------------
@pytest.mark.parametrize("folder", ["css", "js"])
def test_every_source_is_in_one_bundle(folder: str) -> None:
    bundled = [source for sources in BUNDLES.values() for source in sources]
    there = {
        path.relative_to(STATIC).as_posix()
        for path in (STATIC / folder).rglob("*")
        if path.is_file()
    }
    # What services answered looks the same in the chat and on the admin's pages, in one font.
    assert {source for source in bundled if bundled.count(source) > 1} == {
        "css/results.css",
        "css/fonts.css",
    }
    # They stand one after the other, so each ends its last line.
    assert all((STATIC / source).read_bytes().endswith(b"\n") for source in bundled)
    # Sheets for some of the admin's pages, one for the settings, a sheet and a script for the frame
    # of a diagram, and the worker, which has an address of its own.
    alone = {
        "css/admin_cards.css",
        "css/admin_services.css",
        "css/diagram.css",
        "css/settings.css",
        "js/diagram.js",
        "js/worker.js",
    }
    assert there - alone == {each for each in bundled if each.startswith(folder)}


def test_the_order_of_the_layers_is_told_before_the_first_rule() -> None:
    sheet = joined("css/countersign.css")
    assert BUNDLES["css/countersign.css"][0] == "css/base.css"
    found = re.search(r"@layer ([\w, ]+);", sheet)
    assert found is not None
    assert found.start() < sheet.index("{")
    used = set(re.findall(r"@layer (\w+) \{", sheet))
    assert used == set(found[1].split(", "))


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_is_found_as_its_sources_in_order(name: str) -> None:
    found = finders.find(name)
    assert isinstance(found, str)
    assert Path(found).read_text() == served(name)
    assert finders.find(name, find_all=True) == [found]


DECLARED = re.compile(r"^(?:const|let|var|class|(?:async )?function\*?) +([^;(={]*)", re.M)


def find_declared(script: str) -> list[str]:
    """Return the names that a script declares outside of any block, as our style writes them."""
    names = [name for found in DECLARED.findall(script) for name in found.split(",")]
    return [name.strip().partition(" ")[0] for name in names]


def test_no_name_is_declared_twice_in_a_bundle() -> None:
    """The scripts of a bundle share one scope: a second `const` would stop all of them."""
    for name in BUNDLES:
        if name.endswith(".js"):
            declared = find_declared(joined(name))
            assert len(declared) == len(set(declared)), name
    assert len(find_declared(joined("js/countersign.js"))) > 30
    planted = "let box, words, last;\nconst words = () => 1;\n  const words = 2;\n"
    assert find_declared(planted) == ["box", "words", "last", "words"]


NESTED = re.compile(r"`[^`]*\$\{[^}`]*`")


def test_no_template_is_inside_another_in_a_script() -> None:
    """rjsmin would take the spaces out of the inner one."""
    for name in BUNDLES:
        if name.endswith(".js"):
            assert not NESTED.search(joined(name)), name
    planted = "say(`${lines.map((line) => `> ${line}`)}`);"
    assert NESTED.search(planted)
    assert "`>${line}`" in static_files.minify("a.js", planted)


def test_nothing_else_is_taken_for_a_bundle() -> None:
    assert BundleFinder().find("css/other.css") is None
    assert BundleFinder().find("../secret_key", find_all=True) == []


def test_a_bundle_is_written_again_only_when_a_source_has_changed(
    tmp_path: Path, settings: Settings
) -> None:
    source = tmp_path / "static" / "js" / "open.js"
    for sources in BUNDLES.values():
        for name in sources:
            (tmp_path / "static" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "static" / name).write_text(f"say('{name}');")
    settings.VAR_DIR = tmp_path / "var"
    settings.STATICFILES_DIRS = [tmp_path / "static"]
    finder = BundleFinder()
    built = Path(finder.find("js/countersign.js"))
    first = built.stat()
    finder.find("js/countersign.js")
    assert built.stat().st_mtime_ns == first.st_mtime_ns
    assert built.stat().st_ino == first.st_ino
    source.write_text("say('new');")
    finder.find("js/countersign.js")
    assert "say('new');" in built.read_text()
    assert "js/open.js" not in built.read_text()
    assert [path.name for path in built.parent.iterdir()] == ["countersign.js"]


# --- what is served -------------------------------------------------------------------------------
@pytest.mark.django_db
def test_a_page_needs_few_files_and_each_has_a_name_for_ever(
    collected: Path, owner_client: Client, client: Client
) -> None:
    names = assets_of(owner_client, "/")
    assert len(names) == len(set(names)) == REQUESTS - 1
    assert all(re.search(r"\.[0-9a-f]{12}\.(css|js|svg)$", name) for name in names), names
    for name in names:
        path = collected / name.removeprefix("/static/")
        assert path.exists() and path.stat().st_size
    # The scripts of passkeys are django-allauth's.
    at_the_door = set(assets_of(client, "/sign-in/"))
    of_passkeys = {name for name in at_the_door if name.startswith(("/static/mfa", "/static/acc"))}
    assert len(of_passkeys) == 3
    assert at_the_door - of_passkeys < set(names)


@pytest.mark.django_db
def test_the_modules_of_a_chat_have_names_for_ever_too(
    collected: Path, owner_client: Client, owner: Member
) -> None:
    turn = rows.turn(owner, Turn.State.DONE)
    page = owner_client.get(f"/c/{turn.conversation_id}/").content.decode()
    names = set(re.findall(r'data-module="/static/([^"]+)"', page))
    assert {re.sub(r"\.[0-9a-f]{12}\.", ".", name) for name in names} == {
        "js/copy.js",
        "js/palette.js",
        "js/quote.js",
    }
    assert all((collected / name).stat().st_size for name in names)
    assert len(names) == 3


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["en", "de"])
def test_the_files_of_the_admin_are_there_in_every_language(
    collected: Path, admin: Member, language: str
) -> None:
    client = signed_in(admin)
    client.post("/language/", {"language": language})
    # A page with a box in which a person is searched for.
    names = assets_of(client, "/admin/chatapp/standin/add/")
    assert any(f"select2/i18n/{language}." in name for name in names)
    files = [name.removeprefix("/static/") for name in names if name.startswith("/static/")]
    assert all((collected / name).exists() for name in files)


def test_texts_of_languages_that_nobody_can_choose_are_not_collected(collected: Path) -> None:
    folder = collected / "admin/js/vendor/select2/i18n"
    assert {path.name.partition(".")[0] for path in folder.iterdir()} >= {"en", "de"}
    assert not list(folder.glob("fr.*"))


@pytest.mark.django_db
def test_debugging_serves_the_same_files(
    collected: Path, owner_client: Client, settings: Settings
) -> None:
    hashed = [re.sub(r"\.[0-9a-f]{12}\.", ".", name) for name in assets_of(owner_client, "/")]
    with override_settings(DEBUG=True):
        plain = assets_of(owner_client, "/")
    assert plain == hashed
    assert all(finders.find(name.removeprefix("/static/")) for name in plain)


def test_sources_of_a_bundle_are_not_served_beside_it(collected: Path) -> None:
    names = {path.relative_to(collected).as_posix() for path in collected.rglob("*.*")}
    assert any(name.startswith("css/countersign.") for name in names)
    assert any(name.startswith("css/admin_skin.") for name in names)
    for source in (source for sources in BUNDLES.values() for source in sources):
        assert source in NEVER_SERVED
        stem, _, kind = source.rpartition(".")
        assert not [name for name in names if re.fullmatch(rf"{stem}\.\w+\.{kind}(\.gz)?", name)]


def test_files_are_compressed_twice_and_large_ones_quickly(
    collected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pattern in ("css/countersign.*.css", "vendor/mermaid-tiny-*.js"):
        (file,) = collected.glob(pattern)
        text, best = file.read_bytes(), file.with_name(f"{file.name}.br").read_bytes()
        other = file.with_name(f"{file.name}.gz").read_bytes()
        assert brotli.decompress(best) == gzip.decompress(other) == text
        assert len(best) < 0.9 * len(other)
    qualities: list[int] = []

    def note(_data: bytes, quality: int) -> bytes:
        qualities.append(quality)
        return b""

    monkeypatch.setattr(brotli, "compress", note)
    for size in (256 * 1024, 256 * 1024 + 1):
        static_files.BrotliCompressor.compress_brotli(bytes(size))
    assert qualities == [11, 9]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.css",
            "/* why */\n@layer parts {\n  /* its space counts */\n  a :is(b, i) { top: 0; }\n}\n",
            "@layer parts{a :is(b,i){top:0}}\n",
        ),
        ("a.js", "// why\nconst a = 1;\n  // more\nlet b;\n", "const a=1;let b;"),
    ],
)
def test_comments_and_white_space_are_not_served(name: str, text: str, expected: str) -> None:
    assert static_files.minify(name, text) == expected


def test_a_second_start_collects_nothing(collected: Path) -> None:
    assert not static_files.collect()


def test_the_plain_command_collects_the_bundles_too(tmp_path: Path, settings: Settings) -> None:
    settings.STATIC_ROOT = tmp_path
    call_command("collectstatic", interactive=False, verbosity=0)
    for name in BUNDLES:
        assert (tmp_path / name).read_text() == served(name)


@pytest.mark.django_db
def test_no_script_holds_up_the_first_paint(owner_client: Client) -> None:
    page = parse(owner_client.get("/").content.decode())
    late = [each for each in page.all("script") if "defer" in each or each["type"] == "module"]
    assert late == page.all("script")
    assert len(page.all("link", rel="stylesheet")) == 1
    assert len(page.all("script")) <= 3
