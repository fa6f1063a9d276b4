"""What makes Countersign an app that devices install: its manifest, and the service worker that
shows push messages and keeps static files. Both are the same for all people."""

import hashlib
import json
import re
from functools import cache

from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

# The colours of the page, light and dark, as in static/css/base.css.
CANVAS, DARK_CANVAS = "#fdfdfb", "#15161b"
ICON = "img/icon-512.png"


@require_safe
@cache_control(max_age=3_600)
def manifest(request: HttpRequest) -> HttpResponse:
    icons = [
        {"src": static("img/mark.svg"), "sizes": "any", "type": "image/svg+xml", "purpose": "any"},
        {"src": static(ICON), "sizes": "512x512", "type": "image/png", "purpose": "any"},
        {"src": static(ICON), "sizes": "512x512", "type": "image/png", "purpose": "maskable"},
    ]
    home = reverse("home")
    described = {
        "name": "Countersign",
        "short_name": "Countersign",
        "id": home,
        "start_url": home,
        "scope": home,
        "display": "standalone",
        "theme_color": CANVAS,
        "background_color": CANVAS,
        "icons": icons,
    }
    return JsonResponse(described, content_type="application/manifest+json")


@require_safe
@cache_control(no_cache=True)
def worker(request: HttpRequest) -> HttpResponse:
    """Serve the service worker, at the top so that it may serve every page. Its text changes with
    the static files, so that browsers drop the files of earlier versions."""
    head = f'const VERSION = "{_compute_version()}", FILES = {_build_pattern()};\n'
    return HttpResponse(head + _read_source(), content_type="text/javascript")


def _compute_version() -> str:
    """Return a word that changes with the static files."""
    names = getattr(staticfiles_storage, "hashed_files", {})
    return hashlib.sha256(json.dumps(sorted(names.items())).encode()).hexdigest()[:12]


def _build_pattern() -> str:
    """Return the expression for the addresses of static files whose names have a hash. Only these
    never change."""
    place = json.dumps("^" + "{}" + re.escape(settings.STATIC_URL) + r".+\.[0-9a-f]{12}\.\w+$")
    before, after = place.split("{}", 1)
    return f'new RegExp({before}" + location.origin + "{after})'


@cache
def _read_source() -> str:
    return (settings.BASE_DIR / "static" / "js" / "worker.js").read_text()
