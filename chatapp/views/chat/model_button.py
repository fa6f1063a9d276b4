"""The choice of a model as pages show it: a short list in the message box, or a button to a longer
one with a search."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from chatapp.models import Member
from chatapp.providers.events import ProviderError
from chatapp.turns.model_choice import OfferedModel, chosen_model, named_model, offered_models

FEW = 15
Groups = list[tuple[str, list[OfferedModel]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPick:
    """What can be chosen, by provider, and what is."""

    chosen: OfferedModel
    groups: Groups
    is_short: bool


def model_pick(person: Member, chosen_id: str) -> ModelPick:
    """A conversation keeps a model that is no longer offered."""
    offered = offered_models(person)
    chosen = next((model for model in offered if model.id == chosen_id), None)
    if chosen is None:
        chosen = replace(named_model(chosen_id), provider_label="This chat")
        offered += [chosen] if chosen_id else []
    is_plain = not any(model.abilities for model in offered)
    return ModelPick(
        chosen=chosen, groups=_by_provider(offered), is_short=is_plain and len(offered) <= FEW
    )


def found_models(person: Member, query: str) -> Groups:
    """The models with these words in their names or abilities; a whole id finds a model that no
    list has, if this person may use it."""
    words = query.lower().split()
    offered = offered_models(person)
    fitting = [model for model in offered if all(word in _words(model) for word in words)]
    wanted = query.strip()
    if (
        ":" in wanted
        and wanted not in {model.id for model in fitting}
        and _is_there(wanted, person)
    ):
        fitting.append(replace(named_model(wanted), provider_label="By its name"))
    return _by_provider(fitting)


def _words(model: OfferedModel) -> str:
    return " ".join((model.id, model.label, model.provider_label, *model.abilities)).lower()


def _is_there(model_id: str, person: Member) -> bool:
    try:
        chosen_model(model_id, person)
    except ProviderError:
        return False
    return True


def _by_provider(models: Iterable[OfferedModel]) -> Groups:
    """Providers in the order of their first models: the default one comes with its neighbours."""
    groups: dict[str, list[OfferedModel]] = {}
    for model in models:
        groups.setdefault(model.provider_label, []).append(model)
    return [*groups.items()]
