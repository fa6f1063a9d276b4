"""Static files: bundles of style sheets and scripts, without comments and spare white space, and
collected and compressed only after a change."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import brotli
from django.conf import settings
from django.contrib.admin.widgets import SELECT2_TRANSLATIONS
from django.contrib.staticfiles.finders import BaseFinder, FileSystemFinder, get_finders
from django.core.files.storage import FileSystemStorage, Storage
from django.core.management import call_command
from rjsmin import jsmin
from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage

from mcpconfig.values.lazy_module import LazyModule

if TYPE_CHECKING:
    import lightningcss
else:  # needed only where a bundle is written: at a start after a change
    lightningcss = LazyModule("lightningcss")

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
    # Loaded when they are needed.
    **{
        f"js/{name}.js": [f"js/modules/{name}.js"]
        for name in (
            *("app_frame", "copy", "figure_view", "lightbox"),
            *("notify", "palette", "push", "quote"),
        )
    },
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


class BrotliCompressor(Compressor):  # type: ignore[misc]  # untyped
    """Compresses small files as well as Brotli can, and large ones in a tenth of that time."""

    @staticmethod
    def compress_brotli(data: bytes) -> bytes:
        return bytes(brotli.compress(data, quality=11 if len(data) <= MOST_FOR_BEST_QUALITY else 9))


class CompressedStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # untyped
    """Static files under hashed names, each also compressed by Brotli and gzip."""

    def create_compressor(self, **kwargs: Any) -> Compressor:
        return BrotliCompressor(**kwargs)


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
        found = [Path(str(self.sources.find(source))) for source in BUNDLES[name]]
        joined = "".join(each.read_text(encoding="utf-8") for each in found)
        # The first line says of what it was made.
        state = hashlib.sha256(f"{list_tools()}{joined}".encode()).hexdigest()[:12]
        first_line = f"/*{state}*/\n"
        if not path.exists() or not path.read_text(encoding="utf-8").startswith(first_line):
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f"{path.name}.{os.getpid()}")
            unfinished.write_text(first_line + minify(name, joined), encoding="utf-8")
            unfinished.replace(path)
        return str(path)


@cache
def list_tools() -> list[str]:
    """Return what makes the served files of the sources, with versions."""
    return [f"{name} {version(name)}" for name in ("lightningcss", "rjsmin", "brotli")]


def minify(name: str, text: str) -> str:
    """Return a style sheet or a script without its comments and spare white space."""
    if name.endswith(".css"):
        return lightningcss.process_stylesheet(text, filename=name) + "\n"
    return str(jsmin(text))


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


def collect(run: Callable[..., object] = call_command) -> bool:
    """Bring STATIC_ROOT up to date. Return whether anything had changed.

    `run` runs a command of Django with these arguments.
    """
    root = Path(settings.STATIC_ROOT)
    stamp = root.with_name(f"{root.name}.stamp")
    state = compute_fingerprint()
    if (root / "staticfiles.json").exists() and stamp.exists() and stamp.read_text() == state:
        return False
    left_out = [f"--ignore={pattern}" for pattern in list_unused()]
    run("collectstatic", "--noinput", "--verbosity=0", *left_out)
    stamp.write_text(state)
    return True


def compute_fingerprint() -> str:
    """Return a hash that changes when a source is added, removed or written, or a language
    added."""
    lines = sorted(list_sources())
    backend = settings.STORAGES["staticfiles"]["BACKEND"]
    known = [backend, repr(BUNDLES), *list_tools(), *list_unused(), *lines]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()


def list_sources() -> Iterator[str]:
    for finder in get_finders():
        # Its files are made of those that the others find.
        if isinstance(finder, BundleFinder):
            continue
        for name, storage in finder.list(["CVS", ".*", "*~"]):
            found = Path(storage.path(name)).stat()
            yield f"{name} {found.st_size} {found.st_mtime_ns}"
