"""Short texts that a model is asked for beside the answers of a chat: titles and opinions."""

from contextlib import aclosing

from chatapp.providers.access.model_choice import ChosenModel
from chatapp.providers.access.observed_calls import ObservedCall
from chatapp.providers.events import Finished, TextDelta
from chatapp.providers.registry import load_provider
from chatapp.providers.request import ModelRequest

from .metering import Meter


async def ask_for_text(
    model: ChosenModel, request: ModelRequest, meter: Meter, purpose: str
) -> str:
    """Return the complete answer of the model, or an empty text if it is not complete. `purpose` is
    that of an `ObservedCall`. Raises ProviderError."""
    provider = await load_provider(model.kind)
    stream = provider.stream(request, model.account)
    observed = ObservedCall(model, purpose)
    async with aclosing(meter.read(request, stream, observed)) as events:
        found = [event async for event in events]
    if not any(isinstance(event, Finished) and event.reason == "stop" for event in found):
        return ""
    return "".join(event.text for event in found if isinstance(event, TextDelta))
