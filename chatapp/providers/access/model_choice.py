"""Which models a person may use, and how a model id becomes one that can be asked.

An id is `prefix:name`. The prefix is a provider that an admin set up, else one of the environment.
"""

from dataclasses import dataclass
from typing import cast

from django.conf import settings
from django.db.models import QuerySet

from chatapp.models import ChatModel, Member, ModelProvider
from chatapp.providers import environment
from chatapp.providers.abilities import Abilities, known_abilities
from chatapp.providers.account import Account
from chatapp.providers.default_models import CONTEXT_TOKENS, DEFAULT_MODELS
from chatapp.providers.registry import (
    DEMO_MODEL,
    LABELS,
    account_for,
    is_offered,
    no_such_model,
)
from chatapp.providers.request import Effort, Parameters

from .accounts import account_of

# Two ways to ask one account: what closes one must close the other.
SAME_ACCOUNT = (("openai", "openai-chat"),)
KeyPlace = ModelProvider.KeyPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenModel:
    """A model that can be asked: how its provider is spoken to, and what an admin said of it."""

    kind: str
    name: str
    account: Account
    facts: ChatModel | None = None

    @property
    def abilities(self) -> Abilities:
        said = self.facts
        return known_abilities(
            self.kind,
            self.name,
            pictures=said.takes_pictures if said else None,
            documents=said.takes_documents if said else None,
        )

    @property
    def context_tokens(self) -> int | None:
        """How many tokens it reads at once, as an admin or its provider said."""
        said = self.facts.context_tokens if self.facts else None
        return said or CONTEXT_TOKENS.get(self.name)

    @property
    def takes_tools(self) -> bool:
        return self.facts is None or self.facts.takes_tools

    @property
    def system_prompt(self) -> str:
        return self.facts.system_prompt.strip() if self.facts else ""

    @property
    def parameters(self) -> Parameters:
        if self.facts is None:
            return Parameters()
        return Parameters(
            output_tokens=self.facts.asked_tokens,
            temperature=self.facts.temperature,
            effort=cast(Effort, self.facts.effort),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedModel:
    """A model in somebody's list. `abilities` are words: what it can do, or cannot."""

    id: str
    label: str
    provider_label: str
    abilities: tuple[str, ...] = ()


def chosen_model(model_id: str, person: Member | None) -> ChosenModel:
    """The model of this id, if this person may use it; else a ProviderError that does not tell
    a forbidden model from one that does not exist. Nobody in particular is in no group."""
    prefix, _, name = model_id.partition(":")
    row = ModelProvider.objects.filter(slug=prefix).first()
    if row is None:
        if _is_closed(prefix, name):
            raise no_such_model(model_id)
        return ChosenModel(kind=prefix, name=name, account=account_for(model_id))
    usable = ChatModel.objects.for_member(person).filter(provider=row, name=name)
    facts = usable.select_related("provider").first()
    if facts is None and not _is_open(row, name):
        raise no_such_model(model_id)
    return ChosenModel(kind=row.kind, name=name, account=account_of(row), facts=facts)


def offered_models(person: Member | None) -> list[OfferedModel]:
    """What a new message can be sent to, the default first."""
    models = [*_of_rows(person), *_of_environment()]
    default = settings.DEFAULT_MODEL
    if default and default not in {model.id for model in models} and _may_be_named(default):
        models.append(named_model(default))
    return sorted(models, key=lambda model: model.id != default)


def default_model(person: Member | None) -> str:
    """The model of a new chat; empty when nothing is configured and the demo is off."""
    return next((model.id for model in offered_models(person)), "")


def named_model(model_id: str) -> OfferedModel:
    """A model by what its id says."""
    prefix, _, name = model_id.partition(":")
    known = DEFAULT_MODELS.get(prefix, {})
    return OfferedModel(
        id=model_id,
        label="Demo assistant" if model_id == DEMO_MODEL else known.get(name, name or model_id),
        provider_label=LABELS.get(prefix, prefix),
    )


def abilities_of(model: ChatModel) -> tuple[str, ...]:
    """In words for a person, most useful first."""
    size = model.context_tokens
    words = {
        "sees pictures": model.takes_pictures,
        "no pictures": model.takes_pictures is False,
        "reads PDF": model.takes_documents,
        "reasons": model.reasons,
        "no tools": not model.takes_tools,
        f"{_count(size or 0)} context": size,
    }
    return tuple(word for word, holds in words.items() if holds)


def _count(tokens: int) -> str:
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.3g}M"
    return f"{round(tokens / 1_000)}k" if tokens >= 1_000 else str(tokens)


def _of_rows(person: Member | None) -> list[OfferedModel]:
    """The listed models, and after them the usual ones of an account that is open to any."""
    listed = ChatModel.objects.for_member(person).select_related("provider")
    found: list[OfferedModel] = []
    for row in ModelProvider.objects.filter(is_enabled=True):
        found += [_offered(model) for model in listed if model.provider_id == row.pk]
        if row.offers_unlisted and row.key_place == KeyPlace.ENVIRONMENT:
            usual = DEFAULT_MODELS[row.kind] if environment.is_set(row.kind) else {}
            taken = _listed(_rows_of_account(row))
            found += [
                OfferedModel(id=f"{row.slug}:{name}", label=label, provider_label=row.label)
                for name, label in usual.items()
                if name not in taken
            ]
    return found


def _offered(model: ChatModel) -> OfferedModel:
    return OfferedModel(
        id=model.id_in_chat,
        label=str(model),
        provider_label=model.provider.label,
        abilities=abilities_of(model),
    )


def _of_environment() -> list[OfferedModel]:
    taken = set(ModelProvider.objects.values_list("slug", flat=True))
    ids: list[str] = []
    for prefix, models in DEFAULT_MODELS.items():
        if prefix in taken or not is_offered(prefix):
            continue
        rows = _rows_of_environment(prefix)
        listed = _listed(rows)
        ids += [f"{prefix}:{name}" for name in models if _are_open(rows) and name not in listed]
    return [named_model(model_id) for model_id in [*ids, *([DEMO_MODEL] * settings.DEMO)]]


def _may_be_named(model_id: str) -> bool:
    """Whether no admin's row speaks against a model that is in no list."""
    prefix, _, name = model_id.partition(":")
    row = ModelProvider.objects.filter(slug=prefix).first()
    return not _is_closed(prefix, name) if row is None else _is_open(row, name)


def _is_open(row: ModelProvider, name: str) -> bool:
    """Whether a model that is not listed may be used by its name."""
    if not (name and row.is_enabled and row.offers_unlisted):
        return False
    return name.lower() not in _listed(_rows_of_account(row))


def _is_closed(prefix: str, name: str) -> bool:
    """Whether admins let this model of the environment's account be used through rows only."""
    rows = _rows_of_environment(prefix)
    return not _are_open(rows) or name.lower() in _listed(rows)


def _are_open(rows: QuerySet[ModelProvider]) -> bool:
    """Whether all of these rows, of one account, let members use any model."""
    return not rows.exclude(is_enabled=True, offers_unlisted=True).exists()


def _listed(rows: QuerySet[ModelProvider]) -> set[str]:
    """The names that these rows list, in small letters: a listed model has a rule of its own."""
    names = ChatModel.objects.filter(provider__in=rows).values_list("name", flat=True)
    return {name.lower() for name in names}


def _rows_of_account(row: ModelProvider) -> QuerySet[ModelProvider]:
    if row.key_place == KeyPlace.ENVIRONMENT:
        return _rows_of_environment(row.kind)
    return ModelProvider.objects.filter(pk=row.pk)


def _rows_of_environment(kind: str) -> QuerySet[ModelProvider]:
    """The rows that stand for the environment's account of this kind."""
    kinds = next((kinds for kinds in SAME_ACCOUNT if kind in kinds), (kind,))
    return ModelProvider.objects.filter(key_place=KeyPlace.ENVIRONMENT, kind__in=kinds)
