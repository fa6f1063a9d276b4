"""Wiring: what the chat tells the layers below it when Django starts."""

from django.apps import AppConfig


class ChatAppConfig(AppConfig):
    name = "chatapp"
    verbose_name = "Chat"

    def ready(self) -> None:
        # Models, and what stands on them, can be imported only from here on.
        from chatapp import checks  # noqa: F401, PLC0415
        from chatapp.demo import listener  # noqa: PLC0415
        from chatapp.tools.describe import describe_tool  # noqa: PLC0415
        from chatapp.turns import log_of_changes, sign_ins  # noqa: PLC0415
        from mcpconfig import builtin, describe  # noqa: PLC0415
        from mcpconfig.oauth import listeners  # noqa: PLC0415

        builtin.register("notebook", listener.address)
        describe.set_describer(describe_tool)
        listeners.when_signed_in(sign_ins.go_on)
        log_of_changes.watch()
