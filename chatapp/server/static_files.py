"""Static files: bundles of style sheets and scripts, without comments and spare white space, and
collected and compressed only after a change."""

import contextlib
import ctypes
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import brotli
from django.conf import settings
from django.contrib.admin.widgets import SELECT2_TRANSLATIONS
from django.contrib.staticfiles.finders import BaseFinder, FileSystemFinder, get_finders
from django.core.files.storage import FileSystemStorage, Storage
from django.core.management import call_command
from rcssmin import cssmin
from rjsmin import jsmin
from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage

# The files that are served, each with its sources in order.
BUNDLES = {
    "css/countersign.css": [
        "css/base.css",
        "css/fonts.css",
        "css/layout.css",
        "css/conversation.css",
        "css/prose.css",
        "css/approval.css",
        "css/app.css",
        "css/composer.css",
        "css/gauge.css",
        "css/palette.css",
        "css/picker.css",
        "css/models.css",
        "css/tools.css",
        "css/question.css",
        "css/own_cards.css",
        "css/results.css",
        "css/services.css",
        "css/start.css",
        "css/print.css",
        "css/touch.css",
    ],
    # What the chat does not show at its opening: the other pages, charts and previews.
    "css/pages.css": [
        "css/pages_sheet.css",
        "css/inbox.css",
        "css/search.css",
        "css/own_services.css",
        "css/memory.css",
        "css/chart.css",
        "css/usage.css",
        "css/log.css",
        "css/tokens.css",
        "css/printed.css",
        "css/shared.css",
        "css/imports.css",
        "css/presets.css",
        "css/projects.css",
    ],
    "css/admin_skin.css": ["css/fonts.css", "css/admin.css"],
    "css/workbench.css": ["css/results.css", "css/bench.css"],
    "js/countersign.js": [
        "js/composer.js",
        "js/figures.js",
        "js/keyboard.js",
        "js/announce.js",
        "js/modules.js",
        "js/paint.js",
        "js/stream.js",
        "js/upload.js",
        "js/open.js",
    ],
}
# A diagram's script of 2.9 MB takes five seconds at the best quality, and is 10 % smaller then.
MOST_FOR_BEST_QUALITY = 256 * 1024
# No page requests these: sources of the admin's minified scripts, and our sources.
NEVER_SERVED = [
    "admin/js/vendor/jquery/jquery.js",
    "admin/js/vendor/select2/select2.full.js",
    "admin/js/vendor/xregexp/xregexp.js",
    *(source for sources in BUNDLES.values() for source in sources),
]


class BrotliCompressor(Compressor):
    """Compresses small files as well as Brotli can, and large ones in a tenth of that time."""

    @staticmethod
    def compress_brotli(data: bytes) -> bytes:
        return brotli.compress(data, quality=11 if len(data) <= MOST_FOR_BEST_QUALITY else 9)


class CompressedStorage(CompressedManifestStaticFilesStorage):
    """Static files under hashed names, each also compressed by Brotli and gzip."""

    def compress_files(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Compress one file after the other. Threads would save a second at the first start, but
        the server would keep up to 50 MB of what they used."""
        compressor = BrotliCompressor(quiet=True)
        for name in filter(compressor.should_compress, paths):
            path = self.path(name)
            for made in compressor.compress(path):
                yield name, made.removeprefix(path.removesuffix(name))


class BundleFinder(BaseFinder):
    """Finds the bundles for `collectstatic` and, with DEBUG, for the server."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.storage = FileSystemStorage(settings.VAR_DIR / "bundles")
        self.sources = FileSystemFinder()

    def check(self, **_: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **_: Any) -> Any:
        found = [self._build(path)] if path in BUNDLES else []
        return found if find_all else next(iter(found), None)

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Storage]]:
        for name in BUNDLES:
            self._build(name)
            yield name, self.storage

    def _build(self, name: str) -> str:
        """Write the bundle if its sources have changed, and return its path."""
        path = Path(self.storage.path(name))
        joined = "".join(Path(str(self.sources.find(s))).read_text() for s in BUNDLES[name])
        # The first line says of which sources it was made.
        first_line = f"/*{hashlib.sha256(joined.encode()).hexdigest()[:12]}*/\n"
        if not path.exists() or not path.read_text().startswith(first_line):
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f"{path.name}.{os.getpid()}")
            unfinished.write_text(first_line + minify(name, joined))
            unfinished.replace(path)
        return str(path)


def minify(name: str, text: str) -> str:
    """Return a style sheet or a script without its comments and spare white space."""
    return str(cssmin(text) if name.endswith(".css") else jsmin(text))


def list_unused() -> list[str]:
    """Return the patterns of files that no page requests. Of the admin's search boxes, these are
    the texts in languages that this server does not have."""
    used = {_find_search_texts(code) for code, _name in settings.LANGUAGES}
    others = sorted(set(SELECT2_TRANSLATIONS.values()) - used)
    return [*NEVER_SERVED, *(f"admin/js/vendor/select2/i18n/{name}.js" for name in others)]


def _find_search_texts(code: str) -> str:
    """Return the name of the texts as the admin does, which would load the whole language."""
    while code and code not in SELECT2_TRANSLATIONS:
        code = code.rpartition("-")[0]
    return SELECT2_TRANSLATIONS.get(code, "")


def collect() -> bool:
    """Bring STATIC_ROOT up to date. Return whether anything had changed."""
    root = Path(settings.STATIC_ROOT)
    stamp = root.with_name(f"{root.name}.stamp")
    state = compute_fingerprint()
    if (root / "staticfiles.json").exists() and stamp.exists() and stamp.read_text() == state:
        return False
    call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=list_unused())
    stamp.write_text(state)
    release_memory()
    return True


def release_memory() -> None:
    """Return freed memory to the system, where the C library can."""
    with contextlib.suppress(AttributeError, OSError):  # other libraries lack the function
        ctypes.CDLL(None).malloc_trim(0)


def compute_fingerprint() -> str:
    """Return a hash that changes when a source is added, removed or written, or a language
    added."""
    lines = sorted(list_sources())
    backend = settings.STORAGES["staticfiles"]["BACKEND"]
    return hashlib.sha256("\n".join([backend, *list_unused(), *lines]).encode()).hexdigest()


def list_sources() -> Iterator[str]:
    for finder in get_finders():
        for name, storage in finder.list(["CVS", ".*", "*~"]):
            found = Path(storage.path(name)).stat()
            yield f"{name} {found.st_size} {found.st_mtime_ns}"
