"""The address of this server and its port, also outside of requests."""

import os
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme

from chatapp.server.private_files import make_private_folder

PORTS = range(6740, 6750)


FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto")


def base_url() -> str:
    """Return PUBLIC_URL, or the address of the server that was started last."""
    if settings.PUBLIC_URL:
        return str(settings.PUBLIC_URL)
    return f"http://127.0.0.1:{get_port()}"


def find_home(request: HttpRequest) -> str:
    """Return the address where pages get their live stream if this request came to another one,
    else an empty string. Behind a proxy, which may change the host, this is unknown."""
    hosts = {urlsplit(origin).netloc for origin in settings.ALLOWED_ORIGINS}
    is_forwarded = any(name in request.headers for name in FORWARDED)
    if not hosts or is_forwarded or request.get_host() in hosts:
        return ""
    return str(settings.PUBLIC_URL or settings.ALLOWED_ORIGINS[0])


def get_port() -> int:
    return int(os.environ.get("COUNTERSIGN_PORT") or read_stored_port())


def read_stored_port() -> int:
    path = settings.VAR_DIR / "port"
    return int(path.read_text()) if path.exists() else PORTS[0]


def store_port(number: int) -> None:
    """Store the port for this process, its workers, and commands that run beside them."""
    os.environ["COUNTERSIGN_PORT"] = str(number)
    make_private_folder(settings.VAR_DIR)
    (settings.VAR_DIR / "port").write_text(str(number))


def is_own_path(address: str) -> bool:
    """Whether `address` is a path of this site, so that a redirect to it stays here."""
    is_plain = address.startswith("/") and address.isprintable()
    return is_plain and url_has_allowed_host_and_scheme(address, None)


def get_own_path(address: str) -> str:
    """Return `address` if it is a path of this site, otherwise the first page."""
    return address if is_own_path(address) else settings.LOGIN_REDIRECT_URL


def get_client_address(request: HttpRequest) -> str:
    """Return the address of the browser. The server has replaced it by the one that a trusted proxy
    named; a local socket has none."""
    return request.META.get("REMOTE_ADDR") or "127.0.0.1"
