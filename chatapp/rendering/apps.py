"""Whether a call's tool brings an app that may be shown."""

from chatapp.models import Review, ToolCall
from mcpconfig.tool_apps import app_uri


def app_uri_of(call: ToolCall) -> str:
    """Where the app of this call is at its service; empty where none is shown.

    A call that an app asked for shows none: its answer goes to that app, and otherwise an app could
    fill the chat with others.
    """
    service, definition = call.service, call.definition
    if call.turn.app_of_id is not None:
        return ""
    if call.state != ToolCall.State.SUCCEEDED or call.result is None:
        return ""
    if service is None or definition is None or not (service.is_enabled and service.allows_apps):
        return ""
    return app_uri(definition.meta) if _may_be_told(call) else ""


def _may_be_told(call: ToolCall) -> bool:
    """Whether nobody has to look at the result first, or somebody gave it: an app may pass on what
    it is told."""
    review: Review | None = getattr(call, "review", None)
    return review is None or review.state == Review.State.GIVEN
