"""Wiring: opens the runtime of the process and the hooks of `mcpconfig` when Django starts."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _lazy


class ChatAppConfig(AppConfig):
    name = "chatapp"
    verbose_name = _lazy("Chat")

    def ready(self) -> None:
        # These modules import models, which are loaded only now.
        from chatapp.tools.catalogue import describe_tool  # noqa: PLC0415
        from mcpconfig.values.hooks import Hooks, open_hooks  # noqa: PLC0415

        from . import checks  # noqa: F401, PLC0415
        from .accounts import entries, second_factor  # noqa: PLC0415
        from .approvals.sign_ins import continue_after_sign_in  # noqa: PLC0415
        from .audit import change_entries  # noqa: PLC0415
        from .background import results  # noqa: PLC0415
        from .demo import listener  # noqa: PLC0415
        from .notifications import devices  # noqa: PLC0415
        from .people import ended_sessions, sign_in_counts  # noqa: PLC0415
        from .server.runtime import Runtime, open_runtime  # noqa: PLC0415
        from .telemetry import database_statements, operations, tracing  # noqa: PLC0415

        open_runtime(Runtime())
        open_hooks(
            Hooks(
                builtin_addresses={"notebook": listener.find_address},
                describe_tool=describe_tool,
                further_secrets=(second_factor.iterate_factor_secrets,),
                sign_in_listeners=(continue_after_sign_in,),
                trace_context=tracing.get_trace_context,
                observe_operation=operations.observe_operation,
                count_refused_connection=operations.count_refused_connection,
                log_forgotten_registration=change_entries.log_forgotten_registration,
            )
        )
        change_entries.connect_signals()
        entries.connect_signals()
        second_factor.connect_signals()
        database_statements.connect_signals()
        ended_sessions.connect_signals()
        sign_in_counts.connect_signals()
        results.connect_signals()
        devices.connect_signals()
