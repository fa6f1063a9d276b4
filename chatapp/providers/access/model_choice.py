"""Which models a person may use, and how a model id becomes a model that can be asked.

An id is `prefix:name`. The prefix is the slug of a provider's row, or else a kind of the
environment.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeVar, cast

from django.conf import settings
from django.db.models import QuerySet
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from chatapp.models import ChatModel, Member, ModelProvider
from chatapp.providers import environment
from chatapp.providers.account import Account, ListedModel
from chatapp.providers.environment import find_account, is_offered, unknown_model_error
from chatapp.providers.events import ProviderError
from chatapp.providers.model_facts import (
    CONTEXT_TOKENS,
    DEFAULT_MODELS,
    find_abilities,
    fit_temperature,
)
from chatapp.providers.provider import Abilities
from chatapp.providers.registry import DEMO_MODEL, PROVIDERS
from chatapp.providers.request import EFFORTS, Effort, Parameters
from chatapp.server.compiled_queries import compiled

from . import server_models
from .accounts import build_account

KeyPlace = ModelProvider.KeyPlace
Number = TypeVar("Number", int, float)
# Currencies that most readers know by a sign.
SIGNS = {"USD": "$", "EUR": "€", "GBP": "£"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenModel:
    """A model that can be asked, with what an admin set for it."""

    kind: str
    name: str
    account: Account
    facts: ChatModel | None = None
    # What a compatible server listed, where no admin set anything.
    listed: ListedModel | None = None

    @property
    def is_named_here(self) -> bool:
        """Whether an admin, the operator, the server or the provider's list names this model.

        Otherwise the name is what a person typed.
        """
        return (
            self.facts is not None
            or self.listed is not None
            or self.name in PROVIDERS[self.kind].models
            or self.name == settings.DEFAULT_MODEL.partition(":")[2]
            or f"{self.kind}:{self.name}" == DEMO_MODEL
        )

    @property
    def abilities(self) -> Abilities:
        said = self.facts or self.listed
        return find_abilities(
            self.kind,
            self.name,
            pictures=said.takes_pictures if said else None,
            documents=said.takes_documents if said else None,
        )

    @property
    def context_tokens(self) -> int | None:
        """How many tokens it reads at once, from an admin or its provider."""
        facts = self.facts or self.listed
        said = facts.context_tokens if facts else None
        return said or CONTEXT_TOKENS.get(self.name)

    def set_parameters(
        self, effort: str, temperature: float | None = None, output_tokens: int | None = None
    ) -> Parameters:
        """Return the admin's parameters with those of a chat.

        What an admin set for the model is the highest that a chat can have: the effort, the
        temperature and the length of an answer. A model that takes no temperature gets none.
        """
        asked = self._set_effort(effort)
        temperature = _choose_lowest(temperature, asked.temperature)
        if temperature is not None:
            temperature = fit_temperature(self.kind, self.name, asked.effort, temperature)
        if output_tokens is not None:
            facts = self.facts or self.listed
            longest = facts.output_tokens if facts else None
            output_tokens = _choose_lowest(output_tokens, asked.output_tokens, longest)
        else:
            output_tokens = asked.output_tokens
        return replace(asked, temperature=temperature, output_tokens=output_tokens)

    def _set_effort(self, effort: str) -> Parameters:
        facts = self.facts or self.listed
        chosen = next((each for each in EFFORTS if each and each == effort), None)
        if chosen is None or (facts is not None and facts.reasons is False):
            return self.parameters
        most = self.parameters.effort
        levels = list(EFFORTS)
        if most and levels.index(chosen) > levels.index(most):
            return self.parameters
        return replace(self.parameters, effort=chosen)

    def takes_temperature(self, effort: str) -> bool:
        """Return whether the model takes a temperature in a chat with this effort."""
        asked = self._set_effort(effort).effort
        return fit_temperature(self.kind, self.name, asked, 0.0) is not None

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


def _choose_lowest(*values: Number | None) -> Number | None:
    return min((each for each in values if each is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedModel:
    """A model in a person's list. `abilities` are short texts about what it can do. `may_reason` is
    False only for a model that is known not to reason, and `takes_pictures` only for one that
    refuses them. `context_tokens` is how many tokens it reads at once, and `price` what a million
    tokens cost, of input and of output; both where they are known."""

    id: str
    label: str
    provider_label: str
    abilities: tuple[str, ...] = ()
    may_reason: bool = True
    takes_pictures: bool = True
    takes_tools: bool = True
    context_tokens: int | None = None
    price: str = ""

    @property
    def context(self) -> str:
        """The size of its context in a few characters, such as 200k."""
        return format_count(self.context_tokens) if self.context_tokens else ""


def choose_model(model_id: str, person: Member | None) -> ChosenModel:
    """Return the model of this id, or raise ProviderError.

    The error does not distinguish a forbidden model from one that does not exist. None as the
    person is in no group.
    """
    prefix, _colon, name = model_id.partition(":")
    rows = _load_providers()
    row = next((row for row in rows if row.slug == prefix), None)
    if row is None:
        if _is_closed(_choose_environment_rows(rows, prefix), name):
            raise unknown_model_error(model_id)
        return _choose_by_name(model_id)
    usable = ChatModel.objects.for_member(person).filter(provider=row, name=name)
    facts = usable.select_related("provider").first()
    if facts is None and not _is_open(row, name):
        raise unknown_model_error(model_id)
    return ChosenModel(kind=row.kind, name=name, account=build_account(row), facts=facts)


@compiled
def _load_providers() -> QuerySet[ModelProvider]:
    return ModelProvider.objects.all()


def _choose_by_name(model_id: str) -> ChosenModel:
    """Return a model of the environment's account. Raise ProviderError if there is none."""
    if not model_id and (problem := find_list_problem()):
        raise problem
    kind, _, name = model_id.partition(":")
    account = find_account(model_id)
    return ChosenModel(
        kind=kind, name=name, account=account, listed=server_models.find_listed(kind, name)
    )


def find_list_problem() -> ProviderError | None:
    """Return why the models of the compatible server at OPENAI_BASE_URL are not known."""
    kind = server_models.KIND
    if not is_offered(kind) or ModelProvider.objects.filter(slug=kind).exists():
        return None
    if not _are_open(_find_environment_rows(kind)):
        return None
    return server_models.read_list().problem


def list_offered_models(person: Member | None) -> list[OfferedModel]:
    """Return the models for a new message. First comes the one that the person chose for new chats,
    or else the default."""
    rows = list(ModelProvider.objects.all())
    models = [*_list_row_models(person, rows), *_list_environment_models(rows)]
    default = settings.DEFAULT_MODEL
    if default and default not in {model.id for model in models} and _may_be_named(default):
        models.append(describe_model(default))
    preferred = person.preferred_model if person else ""
    return sorted(models, key=lambda model: (model.id != preferred, model.id != default))


def find_default_model(person: Member | None) -> str:
    """Return the model id for a new chat, or an empty text if there is no model."""
    return next((model.id for model in list_offered_models(person)), "")


def describe_model(model_id: str) -> OfferedModel:
    """Describe a model by its id alone."""
    prefix, _colon, name = model_id.partition(":")
    known = DEFAULT_MODELS.get(prefix, {})
    listed = next((each for each in server_models.list_known(prefix) if each.name == name), None)
    return OfferedModel(
        id=model_id,
        label=_("Demo assistant") if model_id == DEMO_MODEL else known.get(name, name or model_id),
        provider_label=PROVIDERS[prefix].label if prefix in PROVIDERS else prefix,
        may_reason=model_id != DEMO_MODEL,
        takes_pictures=_takes_pictures(prefix, name, listed.takes_pictures if listed else None),
        context_tokens=(listed.context_tokens if listed else None) or CONTEXT_TOKENS.get(name),
    )


def describe_abilities(model: ChatModel) -> tuple[str, ...]:
    """Return short texts about a model, the most useful first."""
    words = {
        _("reads images"): model.takes_pictures,
        _("no images"): model.takes_pictures is False,
        _("reads PDF"): model.takes_documents,
        _("can reason"): model.reasons,
        _("no tools"): not model.takes_tools,
    }
    return tuple(word for word, holds in words.items() if holds)


def _takes_pictures(kind: str, name: str, said: bool | None) -> bool:
    return find_abilities(kind, name, pictures=said).picture_bytes > 0


def _format_price(model: ChatModel) -> str:
    """Return the prices of input and output, such as $3 / $15, or an empty text."""
    if model.input_price is None or model.output_price is None:
        return ""
    if not model.input_price and not model.output_price:
        return _("Free")
    prices = (model.input_price, model.output_price)
    return " / ".join(_format_money(price, model.currency) for price in prices)


def _format_money(price: Decimal, currency: str) -> str:
    digits = max(0 if price == price.to_integral_value() else 2, _count_decimals(price))
    number = number_format(price, digits)
    sign = SIGNS.get(currency)
    return f"{sign}{number}" if sign else f"{number} {currency}"


def _count_decimals(price: Decimal) -> int:
    exponent = price.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def format_count(tokens: int) -> str:
    """Return a number of tokens in a few characters, such as 200k."""
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.3g}M"
    return f"{round(tokens / 1_000)}k" if tokens >= 1_000 else str(tokens)


def _list_row_models(person: Member | None, rows: list[ModelProvider]) -> list[OfferedModel]:
    """Return the listed models, and after them the usual models of rows that allow any model."""
    listed = ChatModel.objects.for_member(person).select_related("provider")
    found: list[OfferedModel] = []
    for row in (each for each in rows if each.is_enabled):
        found += [_describe_row(model) for model in listed if model.provider_id == row.pk]
        if row.offers_unlisted and row.key_place == KeyPlace.ENVIRONMENT:
            usual = _list_usual_models(row.kind) if environment.is_set(row.kind) else {}
            taken = _list_names(_find_account_rows(row))
            found += [
                OfferedModel(
                    id=f"{row.slug}:{name}",
                    label=label,
                    provider_label=row.label,
                    takes_pictures=_takes_pictures(row.kind, name, None),
                    context_tokens=CONTEXT_TOKENS.get(name),
                )
                for name, label in usual.items()
                if name.lower() not in taken
            ]
    return found


def _describe_row(model: ChatModel) -> OfferedModel:
    return OfferedModel(
        id=model.id_in_chat,
        label=str(model),
        provider_label=model.provider.label,
        abilities=describe_abilities(model),
        may_reason=model.reasons is not False,
        takes_pictures=_takes_pictures(model.provider.kind, model.name, model.takes_pictures),
        takes_tools=model.takes_tools,
        context_tokens=model.context_tokens or CONTEXT_TOKENS.get(model.name),
        price=_format_price(model),
    )


def _list_environment_models(rows: list[ModelProvider]) -> list[OfferedModel]:
    taken = {row.slug for row in rows}
    found: list[OfferedModel] = []
    for prefix in DEFAULT_MODELS:
        if prefix in taken or not is_offered(prefix):
            continue
        of_account = _choose_environment_rows(rows, prefix)
        if not _are_open(of_account):
            continue
        listed = _list_names(of_account)
        found += [
            replace(describe_model(f"{prefix}:{name}"), label=label)
            for name, label in _list_usual_models(prefix).items()
            if name.lower() not in listed
        ]
    return [*found, *([describe_model(DEMO_MODEL)] * settings.DEMO)]


def _list_usual_models(kind: str) -> Mapping[str, str]:
    """Return names and labels of the models that the environment's account offers."""
    if not environment.is_compatible_server(kind):
        return DEFAULT_MODELS[kind]
    if kind != server_models.KIND:
        return {}
    return {model.name: model.label or model.name for model in server_models.read_list().models}


def _may_be_named(model_id: str) -> bool:
    """Whether no row of an admin forbids a model that is in no list."""
    prefix, _colon, name = model_id.partition(":")
    row = ModelProvider.objects.filter(slug=prefix).first()
    if row is None:
        return not _is_closed(_find_environment_rows(prefix), name)
    return _is_open(row, name)


def _is_open(row: ModelProvider, name: str) -> bool:
    """Whether a model that is not listed may be used by its name."""
    if not (name and row.is_enabled and row.offers_unlisted):
        return False
    return name.lower() not in _list_names(_find_account_rows(row))


def _is_closed(rows: Iterable[ModelProvider], name: str) -> bool:
    """Whether a model of the environment's account, which has these rows, may be used through rows
    only."""
    return not _are_open(rows) or name.lower() in _list_names(rows)


def _are_open(rows: Iterable[ModelProvider]) -> bool:
    """Whether all of these rows of one account allow any model."""
    return all(row.is_enabled and row.offers_unlisted for row in rows)


def _list_names(rows: Iterable[ModelProvider]) -> set[str]:
    """Return the listed names in lower case. A listed model has a rule of its own."""
    known = list(rows)
    if not known:
        return set()
    names = ChatModel.objects.filter(provider__in=known).values_list("name", flat=True)
    return {name.lower() for name in names}


def _find_account_rows(row: ModelProvider) -> QuerySet[ModelProvider]:
    if row.key_place == KeyPlace.ENVIRONMENT:
        return _find_environment_rows(row.kind)
    return ModelProvider.objects.filter(pk=row.pk)


def _choose_environment_rows(rows: Iterable[ModelProvider], kind: str) -> list[ModelProvider]:
    """Return those of all rows that are of the environment's account of this kind."""
    kinds = environment.kinds_of_account(kind)
    return [row for row in rows if row.key_place == KeyPlace.ENVIRONMENT and row.kind in kinds]


def _find_environment_rows(kind: str) -> QuerySet[ModelProvider]:
    """Return the rows of the environment's account of this kind."""
    kinds = environment.kinds_of_account(kind)
    return ModelProvider.objects.filter(key_place=KeyPlace.ENVIRONMENT, kind__in=kinds)
