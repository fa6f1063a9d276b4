"""Wiring: what must listen whenever rows of services change."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class McpConfigConfig(AppConfig):
    name = "mcpconfig"
    verbose_name = gettext_lazy("Services and tools")

    def ready(self) -> None:
        # Models, and what stands on them, can be imported only from here on.
        from .oauth import removal  # noqa: F401, PLC0415
