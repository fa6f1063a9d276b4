"""The models that a provider lists, as an admin chooses them: with their abilities, their prices,
and who may use them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from django import forms
from django.contrib.auth.models import Group
from django.contrib.humanize.templatetags.humanize import intcomma
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models.model_provider import check_currency
from chatapp.providers.access.fetched_models import Terms
from chatapp.providers.account import ListedModel
from chatapp.providers.model_facts import find_end_date
from mcpconfig.values.numbers import read_number

# A page with prices to type for more models would have more fields than a request may have.
MAX_TYPED = 100
PRICE_FIELD = forms.DecimalField(required=False, min_value=0, max_digits=12, decimal_places=6)
ACCESS = (
    ("nobody", _lazy("Nobody yet"), _lazy("The models are added disabled. Enable them later.")),
    ("groups", _lazy("Groups"), _lazy("Members of the groups you choose.")),
    ("everyone", _lazy("Every member"), _lazy("All members, also those who join later.")),
)
DEFAULT_ACCESS = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model. `price` is empty if the provider publishes none; then it can be typed."""

    name: str
    label: str
    abilities: str
    context: str
    price: str
    typed_input: str
    typed_output: str
    is_known: bool
    is_ticked: bool
    end: date | None


class TermsProblem(Exception):
    """What an admin entered cannot be used. The text says why."""


def build_rows(
    models: Iterable[ListedModel],
    known: Collection[str] = (),
    ticked: Collection[str] = (),
    prices: Mapping[str, str] | None = None,
) -> list[ModelRow]:
    typed = prices or {}
    return [
        ModelRow(
            name=model.name,
            label=model.label,
            abilities=", ".join(_list_abilities(model)) or "–",
            context=intcomma(model.context_tokens) if model.context_tokens else "–",
            price=_describe_price(model),
            typed_input=typed.get(f"input_price:{model.name}", ""),
            typed_output=typed.get(f"output_price:{model.name}", ""),
            is_known=model.name in known,
            is_ticked=model.name in known or model.name in ticked,
            end=find_end_date(model.name),
        )
        for model in models
    ]


def _list_abilities(model: ListedModel) -> Iterable[str]:
    abilities = (
        (model.takes_tools, _("tools")),
        (model.takes_pictures, _("images")),
        (model.takes_documents, _("PDF")),
        (model.reasons, _("reasoning")),
    )
    return [text for has, text in abilities if has]


def _describe_price(model: ListedModel) -> str:
    if model.price is None:
        return ""
    return _("$%(input)s in, $%(output)s out") % {
        "input": intcomma(_shorten(model.price.input)),
        "output": intcomma(_shorten(model.price.output)),
    }


def _shorten(price: Decimal) -> Decimal:
    """Return the price without zeros at its end, but with cents."""
    cents = price.quantize(Decimal("0.01"))
    return cents if cents == price else price.normalize()


def list_access(chosen: str) -> list[tuple[str, str, str, bool]]:
    wanted = chosen or DEFAULT_ACCESS
    return [(value, str(label), str(text), value == wanted) for value, label, text in ACCESS]


def read_terms(
    posted: QueryDict, names: Collection[str], default_access: str = DEFAULT_ACCESS
) -> Terms:
    """Return who may use the chosen models, and the prices that were typed for them. Raise
    `TermsProblem`."""
    access = posted.get("access") or default_access
    if access not in {value for value, *_rest in ACCESS}:
        raise TermsProblem(_("Choose who may use the models."))
    groups: Collection[Group] = ()
    if access == "groups":
        wanted = (read_number(pk) for pk in posted.getlist("groups"))
        groups = list(Group.objects.filter(pk__in=[pk for pk in wanted if pk is not None]))
        if not groups:
            raise TermsProblem(_("Choose a group. Otherwise no one can use the model."))
    currency = (posted.get("currency") or "USD").strip().upper()
    try:
        check_currency(currency)
    except ValidationError as error:
        raise TermsProblem(" ".join(error.messages)) from error
    prices = {name: price for name in names if (price := _read_prices(posted, name))}
    return Terms(access=access, groups=groups, prices=prices, currency=currency)


def _read_prices(posted: QueryDict, name: str) -> tuple[Decimal, Decimal] | None:
    try:
        given = [
            PRICE_FIELD.clean(posted.get(f"{side}_price:{name}", "").replace(",", "."))
            for side in ("input", "output")
        ]
    except ValidationError as error:
        values = {"model": name, "problem": " ".join(error.messages)}
        raise TermsProblem(_("Price of %(model)s: %(problem)s") % values) from error
    if given == [None, None]:
        return None
    if None in given:
        raise TermsProblem(_("Enter both prices of %(model)s, or none.") % {"model": name})
    return given[0], given[1]
