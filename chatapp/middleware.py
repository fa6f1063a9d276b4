"""A member without a password sets one before anything else."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin

from .views import health, sign_in


class PasswordFirst(MiddlewareMixin):
    """Sends a person who came by a link to the password page; the OPEN views stay reachable."""

    OPEN = (
        sign_in.set_password,
        sign_in.sign_out,
        sign_in.sign_in,
        sign_in.by_link,
        health.alive,
        health.ready,
    )

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., HttpResponseBase],
        _args: tuple[Any, ...],
        _kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        if view in self.OPEN or not request.user.is_authenticated:
            return None
        return None if request.user.has_usable_password() else redirect("set-password")
