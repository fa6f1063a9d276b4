"""Addresses that are printed outside of any request, where pages are at home, and the first admin's
way in."""

import os
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.http import HttpRequest

from .models import Member, SignInLink

PORTS = range(6740, 6750)
FIRST_ADMIN = "admin"
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto")


def base_url() -> str:
    """PUBLIC_URL, or the address of the server that was started last."""
    if settings.PUBLIC_URL:
        return str(settings.PUBLIC_URL)
    return f"http://127.0.0.1:{port()}"


def home_of(request: HttpRequest) -> str:
    """The address where pages get their live stream, if this one was opened at another; else
    nothing. Behind a proxy, which may change the host, nobody can tell here."""
    hosts = {urlsplit(origin).netloc for origin in settings.ALLOWED_ORIGINS}
    is_forwarded = any(name in request.headers for name in FORWARDED)
    if not hosts or is_forwarded or request.get_host() in hosts:
        return ""
    return str(settings.PUBLIC_URL or settings.ALLOWED_ORIGINS[0])


def port() -> int:
    return int(os.environ.get("COUNTERSIGN_PORT") or remembered_port())


def remembered_port() -> int:
    path = settings.VAR_DIR / "port"
    return int(path.read_text()) if path.exists() else PORTS[0]


def remember_port(number: int) -> None:
    """For this process and its workers, and for commands that run beside them."""
    os.environ["COUNTERSIGN_PORT"] = str(number)
    settings.VAR_DIR.mkdir(parents=True, exist_ok=True)
    (settings.VAR_DIR / "port").write_text(str(number))


def sign_in_link(member: Member) -> str:
    return f"{base_url()}/sign-in/{SignInLink.issue(member)}/"


def first_sign_in_link() -> str | None:
    """A link for the first admin, until somebody has set a password."""
    if (
        Member.objects.filter(is_active=True)
        .exclude(password__startswith=UNUSABLE_PASSWORD_PREFIX)
        .exists()
    ):
        return None
    admin = Member.objects.filter(is_active=True, is_superuser=True).order_by("pk").first()
    if admin is None and not Member.objects.filter(username=FIRST_ADMIN).exists():
        admin = Member.objects.create_superuser(FIRST_ADMIN)
    return None if admin is None else sign_in_link(admin)
