"""The request of one model call, built from rows in one visit of the database."""

from dataclasses import dataclass

from chatapp.context.calibration import Calibration
from chatapp.context.fitting import SummaryText, load_summary
from chatapp.context.history import build_history
from chatapp.context.projects import find_project_of_turn, has_files
from chatapp.context.request_facts import load_request_facts
from chatapp.context.system_prompt import PLANNING, build_system_prompt, collect_guidance
from chatapp.context.unsupported_media import describe_unsupported, replace_unsupported
from chatapp.models import Conversation, Turn
from chatapp.providers.access.model_choice import ChosenModel, choose_model
from chatapp.providers.access.usage import Price, find_price
from chatapp.providers.events import ProviderError
from chatapp.providers.request import ModelRequest, Parameters
from chatapp.server.database import in_database
from chatapp.tool_menu.offered_tools import offer_tools
from chatapp.tool_menu.turn_selection import choose_tools
from chatapp.tools.catalogue import Catalogue, build_catalogue, load_fresh_catalogue
from chatapp.tools.core_catalogue import add_core_tools, remove_file_tools, remove_memory_tools
from mcpconfig.values.tool_apps import Audience


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One call of a model: the whole request, which may not fit yet, and what goes with it.

    `summary` is that of older turns. `unseen` says what the model cannot see; `saved_tokens` are
    those of tools that are not sent.
    """

    model: ChosenModel
    request: ModelRequest
    calibration: Calibration
    summary: SummaryText
    price: Price | None
    unseen: tuple[str, ...]
    saved_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """The tools of a turn, and the call of its model or why it cannot be called."""

    catalogue: Catalogue
    call: ModelCall | ProviderError

    def get_call(self) -> ModelCall:
        """Return the call. Raises ProviderError."""
        if isinstance(self.call, ProviderError):
            raise self.call
        return self.call


def prepare_at_once(turn: Turn) -> PreparedRequest | None:
    """Build the request of a turn that was read just now, with its conversation and owner. Return
    None if a service must be asked for its tools first."""
    person = turn.conversation.owner
    found = load_fresh_catalogue(person, turn.services, get_audience(turn))
    return None if found is None else prepare_request(complete_catalogue(turn, found), turn)


def prepare_request(catalogue: Catalogue, turn: Turn) -> PreparedRequest:
    """Build the request with what is chosen of these tools."""
    chosen = choose_tools(catalogue, turn, turn.conversation.owner)
    try:
        return PreparedRequest(catalogue=chosen, call=_build_call(turn, chosen))
    except ProviderError as error:
        return PreparedRequest(catalogue=chosen, call=error)


async def load_catalogue(turn: Turn) -> Catalogue:
    """Load all tools that a turn may use, also from services that must be asked first."""
    person, audience = turn.conversation.owner, get_audience(turn)
    found = await build_catalogue(person, turn.services, turn.conversation_id, audience)
    return await in_database(complete_catalogue, turn, found)


def complete_catalogue(turn: Turn, found: Catalogue) -> Catalogue:
    """Return the catalogue of services with the core tools, which apps do not use. A temporary chat
    neither reads nor changes the memory, and only a chat of a project with files searches in
    files."""
    if turn.app_of_id is not None:
        return found
    complete = add_core_tools(found, turn.conversation.owner)
    if turn.conversation.is_temporary:
        complete = remove_memory_tools(complete)
    return complete if has_files(find_project_of_turn(turn)) else remove_file_tools(complete)


def get_audience(turn: Turn) -> Audience:
    return "model" if turn.app_of_id is None else "app"


def _build_call(turn: Turn, catalogue: Catalogue) -> ModelCall:
    """Build the whole request, and read what fitting it needs. Whether this person may use the
    model is read again each time. Raises ProviderError."""
    model = choose_model(turn.model, turn.conversation.owner)
    history = build_history(turn)
    facts = load_request_facts(turn)
    project = find_project_of_turn(turn)
    offer = offer_tools(turn, model, catalogue, has_memories=facts.has_memories)
    request = ModelRequest(
        model=model.name,
        system=build_system_prompt(
            catalogue,
            model.system_prompt,
            _get_mode_instructions(turn),
            turn.instructions,
            offer.instructions,
            collect_guidance(
                turn.conversation.owner,
                (catalogue[spec.name] for spec in offer.tools if spec.name in catalogue),
            ),
            of_project=project.instructions if project else "",
            of_chat=_get_chat_instructions(turn),
        ),
        history=replace_unsupported(model.abilities, history),
        tools=offer.tools,
        parameters=_choose_parameters(model, turn.conversation),
        cache_key=str(turn.conversation_id),
    )
    return ModelCall(
        model=model,
        request=request,
        calibration=facts.calibration,
        summary=load_summary(turn) if facts.has_summaries else SummaryText(),
        price=find_price(model.facts),
        unseen=describe_unsupported(turn, model.abilities, history),
        saved_tokens=offer.saved_tokens,
    )


def _choose_parameters(model: ChosenModel, chat: Conversation) -> Parameters:
    return model.set_parameters(chat.effort, chat.temperature, chat.output_tokens)


def _get_mode_instructions(turn: Turn) -> str:
    return "" if turn.conversation.mode == Conversation.Mode.ACT else PLANNING


def _get_chat_instructions(turn: Turn) -> str:
    """Return what the person wrote for this chat. A program brings its own instructions."""
    return "" if turn.is_of_program else turn.conversation.instructions
