"""The manifest and the service worker: what makes devices install Countersign as an app."""

import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from chatapp.server import static_files
from tests.chatapp.server.test_static_files import HASHED
from tests.dom_tree import parse

pytestmark = pytest.mark.django_db
STATIC = Path(__file__).resolve().parents[3] / "static"


def test_the_manifest_names_what_exists(client: Client) -> None:
    answer = client.get("/manifest.webmanifest")
    assert answer["Content-Type"] == "application/manifest+json"
    read = answer.json()
    assert (read["start_url"], read["scope"], read["display"]) == ("/", "/", "standalone")
    assert {icon["purpose"] for icon in read["icons"]} == {"any", "maskable"}
    for icon in read["icons"]:
        name = re.sub(r"\.[0-9a-f]{12}\.", ".", icon["src"]).removeprefix("/static/")
        assert (STATIC / name).exists()


def test_every_page_leads_to_the_manifest(client: Client) -> None:
    page = parse(client.get("/sign-in/").content.decode())
    assert page.one("link", rel="manifest")["href"] == "/manifest.webmanifest"
    colours = page.all("meta", name="theme-color")
    assert len({each["content"] for each in colours}) == 2


def test_the_worker_serves_the_whole_site_and_is_always_fresh(client: Client) -> None:
    answer = client.get("/worker.js")
    assert answer["Content-Type"].startswith("text/javascript")
    assert answer["Cache-Control"] == "no-cache"
    assert "connect-src 'self'" in answer["Content-Security-Policy"]
    assert "worker-src 'self'" in client.get("/sign-in/")["Content-Security-Policy"]


def test_the_worker_changes_with_the_static_files(
    client: Client, tmp_path: Path, settings: Settings
) -> None:
    def read_version() -> str:
        found = re.match(r'const VERSION = "(\w+)"', client.get("/worker.js").content.decode())
        assert found
        return found[1]

    plain = read_version()
    settings.STATIC_ROOT = tmp_path / "static"
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": HASHED}}
    static_files.collect()
    assert read_version() != plain


@pytest.mark.parametrize(
    ("path", "is_kept"),
    [
        ("/static/css/countersign.0123456789ab.css", True),
        ("/static/js/countersign.0123456789ab.js", True),
        ("/static/css/countersign.css", False),
        ("/c/0123456789ab.html", False),
        ("/attachments/x.0123456789ab.png", False),
        ("/", False),
        ("/shared/static/x.0123456789ab.css", False),
    ],
)
def test_only_files_whose_names_have_a_hash_are_kept(
    client: Client, path: str, is_kept: bool
) -> None:
    text = client.get("/worker.js").content.decode()
    found = re.search(r'new RegExp\("(.*)" \+ location\.origin \+ "(.*)"\)', text)
    assert found
    before, after = (part.replace(r"\\", "\\") for part in found.groups())
    origin = "https://chat.example"
    assert bool(re.search(before + re.escape(origin) + after, origin + path)) == is_kept
