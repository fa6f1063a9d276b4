"""The forms that the model server speaks, by the prefix of the models that are asked in them.

A new one is a module with a `Format`, a line here, and a list of models in `listings.py`.
"""

from .anthropic_format import ANTHROPIC
from .bedrock_format import BEDROCK
from .chat_format import CHAT
from .form import Format
from .gemini_format import GEMINI
from .http import Request
from .responses_format import RESPONSES

FORMATS: dict[str, Format] = {
    "openai": RESPONSES,
    "openai-chat": CHAT,
    "anthropic": ANTHROPIC,
    "google": GEMINI,
    "bedrock": BEDROCK,
}


def form_of(request: Request) -> tuple[Format, str] | None:
    """The form that a request is in and the model that it asks."""
    for form in FORMATS.values():
        if (model := form.model_of(request)) is not None:
            return form, model
    return None
