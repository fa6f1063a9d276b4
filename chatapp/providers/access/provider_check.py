"""Checks an account at a provider step by step: its address, its key, its list of models, and one
short answer."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal, Self

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.providers.account import Account, ListedModel, ListedPrice
from chatapp.providers.events import (
    ProviderError,
    TextDelta,
    ToolCallReady,
    ToolLeftOut,
    ToolsLeftOut,
    Usage,
)
from chatapp.providers.registry import load_provider
from chatapp.providers.request import ModelRequest, Parameters, ToolSpec, UserMessage

from .fetched_models import fetch_models

State = Literal["passed", "failed", "skipped"]
STEPS = ("address", "key", "models", "answer")
# Errors of a request that reached no provider.
UNREACHED = ("network", "timeout", "protocol")
# Reasoning counts as output. With fewer tokens, some models end before their first word.
SAMPLE_TOKENS = 2_000
SAMPLE_CHARACTERS = 4_000
SAMPLE_TOOL = ToolSpec(
    name="current_time",
    description="Returns the current time.",
    input_schema={"type": "object", "properties": {}},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStep:
    """One step. `raw` is the provider's text, `fix` what an admin can do."""

    name: str
    state: State
    detail: str = ""
    raw: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A short answer. Times are in milliseconds; `tools` is "accepted", "called", "refused" or
    empty if the answer failed."""

    model: str
    text: str = ""
    first_ms: int | None = None
    total_ms: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    tools: str = ""
    problem: str = ""
    raw: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What the check of an account found."""

    steps: tuple[CheckStep, ...]
    models: tuple[ListedModel, ...] = ()
    milliseconds: int = 0

    @property
    def blocking(self) -> CheckStep | None:
        """The step without which no model can be used. A provider need not list its models."""
        failed = (step for step in self.steps if step.state == "failed" and step.name != "models")
        return next(failed, None)

    @property
    def passed(self) -> int:
        return sum(step.state == "passed" for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        models = [asdict(model) for model in self.models]
        for model in models:
            prices = model["price"]
            model["price"] = prices and {
                name: None if value is None else str(value) for name, value in prices.items()
            }
        steps = [asdict(step) for step in self.steps]
        return {"steps": steps, "models": models, "milliseconds": self.milliseconds}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        return cls(
            steps=tuple(CheckStep(**step) for step in stored["steps"]),
            models=tuple(
                ListedModel(**(model | {"price": _read_stored_price(model["price"])}))
                for model in stored["models"]
            ),
            milliseconds=stored["milliseconds"],
        )


def _read_stored_price(stored: dict[str, str | None] | None) -> ListedPrice | None:
    if stored is None:
        return None
    prices = {name: None if text is None else Decimal(text) for name, text in stored.items()}
    return ListedPrice(**prices)  # type: ignore[arg-type]  # input and output are never None


async def check_account(kind: str, account: Account) -> CheckReport:
    """List the models of the account, which costs nothing, and say what that shows."""
    begun = time.monotonic()
    try:
        models = await fetch_models(kind, account)
    except ProviderError as error:
        return CheckReport(steps=_explain_failure(account, error), milliseconds=_measure(begun))
    count = len(models)
    listed = ngettext("%(count)s model listed", "%(count)s models listed", count)
    return CheckReport(
        steps=(
            _pass_address(account),
            _pass_key(account),
            CheckStep(name="models", state="passed", detail=listed % {"count": count}),
        ),
        models=models,
        milliseconds=_measure(begun),
    )


def fail_settings(error: ProviderError) -> CheckReport:
    """Return the report about settings with which no request can be sent."""
    name = "key" if error.kind == "auth" else "address"
    return CheckReport(steps=_fail_at(name, error, ()))


def _explain_failure(account: Account, error: ProviderError) -> tuple[CheckStep, ...]:
    if error.kind in UNREACHED:
        return _fail_at("address", error, ())
    reached = (_pass_address(account),)
    if error.kind == "auth":
        return _fail_at("key", error, reached)
    skipped = CheckStep(
        name="key", state="skipped", detail=_("Not known, because the models could not be listed.")
    )
    return _fail_at("models", error, (*reached, skipped))


def _fail_at(
    name: str, error: ProviderError, before: tuple[CheckStep, ...]
) -> tuple[CheckStep, ...]:
    failed = CheckStep(
        name=name,
        state="failed",
        detail=error.message,
        raw=error.detail[:SAMPLE_CHARACTERS],
        fix=error.hint or _suggest_fix(name),
    )
    rest = STEPS[STEPS.index(name) + 1 : -1]
    later = (CheckStep(name=each, state="skipped", detail=_("Not checked.")) for each in rest)
    return (*before, failed, *later)


def _suggest_fix(name: str) -> str:
    return {
        "address": _("Check the address. For a compatible server it usually ends in /v1."),
        "key": _("Copy the key again from the pages of the provider."),
    }.get(name, _("Enter the names of the models by hand below."))


def _pass_address(account: Account) -> CheckStep:
    detail = account.host or _("The provider’s own address")
    return CheckStep(name="address", state="passed", detail=detail)


def _pass_key(account: Account) -> CheckStep:
    has_key = account.key or account.headers
    detail = _("Accepted") if has_key else _("No key is sent. The server asks for none.")
    return CheckStep(name="key", state="passed", detail=detail)


async def stream_sample(
    kind: str, account: Account, model: str
) -> AsyncGenerator[str | Sample, None]:
    """Ask the model for one sentence, with one tool. Yield its text as it comes, then the sample.

    The deadlines are those of every model call.
    """
    request = ModelRequest(
        model=model,
        system="This is a test of the connection. Do not use tools.",
        history=(UserMessage(text="Say hello in one short sentence."),),
        tools=(SAMPLE_TOOL,),
        parameters=Parameters(output_tokens=SAMPLE_TOKENS),
    )
    begun, first_ms, text, tools = time.monotonic(), None, "", "accepted"
    usage: Usage | None = None
    problem: ProviderError | None = None
    try:
        provider = await load_provider(kind)
        async with aclosing(provider.stream(request, account)) as events:
            async for event in events:
                match event:
                    case TextDelta():
                        first_ms = _measure(begun) if first_ms is None else first_ms
                        text += event.text
                        yield event.text
                    case ToolLeftOut() | ToolsLeftOut():
                        tools = "refused"
                    case ToolCallReady():
                        tools = "called"
                    case Usage():
                        usage = event
                if len(text) > SAMPLE_CHARACTERS:
                    break
    except ProviderError as error:
        problem = error
    yield Sample(
        model=model,
        text=text[:SAMPLE_CHARACTERS],
        first_ms=first_ms,
        total_ms=_measure(begun),
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        tools="" if problem else tools,
        problem=problem.message if problem else "",
        raw=problem.detail[:SAMPLE_CHARACTERS] if problem else "",
        fix=problem.hint if problem else "",
    )


def _measure(begun: float) -> int:
    return round((time.monotonic() - begun) * 1_000)
