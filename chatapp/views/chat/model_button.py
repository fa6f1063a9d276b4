"""The choice of a model on a page: a short list in the message box, or a button that opens a list
with a search."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import Conversation, Member
from chatapp.providers.access.model_choice import (
    OfferedModel,
    choose_model,
    describe_model,
    find_list_problem,
    list_offered_models,
)
from chatapp.providers.events import ProviderError
from chatapp.providers.request import DEFAULT_EFFORT, EFFORTS

MAX_IN_SHORT_LIST = 15
# Recent models are listed apart if there are more models than this.
MAX_WITHOUT_RECENT = 6
MAX_RECENT = 3
RECENT_CHATS = 20
LONG_CONTEXT_TOKENS = 200_000
Groups = list[tuple[str, list[OfferedModel]]]
# What a person may ask of a model: its label, and the test.
NEEDS: dict[str, tuple[Promise, Callable[[OfferedModel], bool]]] = {
    "tools": (_lazy("Tools"), lambda model: model.takes_tools),
    "images": (_lazy("Images"), lambda model: model.takes_pictures),
    "reasoning": (_lazy("Reasoning"), lambda model: model.may_reason),
    "context": (
        _lazy("200k context or more"),
        lambda model: (model.context_tokens or 0) >= LONG_CONTEXT_TOKENS,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPick:
    """The models by provider, and the chosen one. `offered` is None if it is no longer offered."""

    chosen: OfferedModel
    groups: Groups
    is_short: bool
    may_reason: bool = True
    offered: OfferedModel | None
    problem: ProviderError | None = None


def build_model_pick(person: Member, chosen_id: str) -> ModelPick:
    """Return the choice for this person, with the first model if `chosen_id` is empty. A
    conversation keeps a model that is no longer offered."""
    offered = list_offered_models(person)
    chosen_id = chosen_id or next((model.id for model in offered), "")
    chosen = next((model for model in offered if model.id == chosen_id), None)
    listed = chosen
    if chosen is None:
        chosen = replace(describe_model(chosen_id), provider_label=_("This chat"))
        offered += [chosen] if chosen_id else []
    is_plain = not any(model.abilities or model.price for model in offered)
    return ModelPick(
        chosen=chosen,
        groups=_group_by_provider(offered),
        is_short=is_plain and len(offered) <= MAX_IN_SHORT_LIST,
        may_reason=any(model.may_reason for model in offered),
        offered=listed,
        problem=find_list_problem(),
    )


def list_efforts(wanted: str, conversation: Conversation | None) -> list[tuple[str, str, bool]]:
    """Return how much a model may reason: value, label, and whether it is chosen. `wanted` is the
    choice in a message that is not sent yet."""
    stored = conversation.effort if conversation else ""
    chosen = wanted or stored or DEFAULT_EFFORT
    values = {effort or DEFAULT_EFFORT: label for effort, label in EFFORTS.items()}
    return [(value, str(label), value == chosen) for value, label in values.items()]


def takes_temperature(person: Member, model_id: str, effort: str) -> bool:
    """Return whether this model takes a temperature with this effort. One that the person cannot
    use is taken to."""
    try:
        return choose_model(model_id, person).takes_temperature(effort)
    except ProviderError:
        return True


def find_models(person: Member, query: str, needs: Collection[str] = ()) -> Groups:
    """Return the models that meet these `NEEDS`, with these words in their names or abilities. A
    complete id finds a model that no list contains, if this person may use it."""
    words = query.lower().split()
    offered = list_offered_models(person)
    fitting = [
        model
        for model in offered
        if all(word in _get_searched_text(model) for word in words)
        and all(NEEDS[need][1](model) for need in needs)
    ]
    wanted = query.strip()
    if (
        ":" in wanted
        and wanted not in {model.id for model in fitting}
        and _is_usable(wanted, person)
    ):
        fitting.append(
            replace(describe_model(wanted), provider_label=_("Not listed, found by name"))
        )
    return _group_by_provider(fitting)


def find_recent_models(person: Member, found: Groups) -> Groups:
    """Return those of the models that the person's latest chats used as a group of their own, if
    the list is long."""
    models = {model.id: model for _provider, group in found for model in group}
    if len(models) <= MAX_WITHOUT_RECENT:
        return []
    chats = Conversation.filter_owned(person).order_by("-active_at")
    used = dict.fromkeys(chats.values_list("model", flat=True)[:RECENT_CHATS])
    recent = [models[each] for each in used if each in models][:MAX_RECENT]
    return [(_("Recent"), recent)] if recent else []


def _get_searched_text(model: OfferedModel) -> str:
    said = (model.id, model.label, model.provider_label, *model.abilities, model.context)
    return " ".join(said).lower()


def _is_usable(model_id: str, person: Member) -> bool:
    try:
        choose_model(model_id, person)
    except ProviderError:
        return False
    return True


def _group_by_provider(models: Iterable[OfferedModel]) -> Groups:
    """Group models by provider, in the order of the first model of each."""
    groups: dict[str, list[OfferedModel]] = {}
    for model in models:
        groups.setdefault(model.provider_label, []).append(model)
    return [*groups.items()]
