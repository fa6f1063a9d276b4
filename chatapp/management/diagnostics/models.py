"""Checks of the models: the default model, the keys of providers, and models near their end date.

Keys are not tested against the provider, because this would need a request.
"""

from django.utils.translation import gettext as _

from chatapp.models import EmbeddingProgress, ModelProvider
from chatapp.providers.access.accounts import build_account
from chatapp.providers.access.embeddings import find_embedder
from chatapp.providers.access.model_choice import (
    OfferedModel,
    choose_model,
    find_default_model,
    find_list_problem,
    list_offered_models,
)
from chatapp.providers.events import ProviderError
from chatapp.providers.model_facts import find_end_date
from chatapp.providers.registry import DEMO_MODEL

from .findings import Finding, report_doubtful, report_good, report_wrong

SUBJECT = "models"


def check_models() -> list[Finding]:
    """Check the models that are offered to a member of no group."""
    default_model = find_default_model(None)
    try:
        choose_model(default_model, None)
    except ProviderError as error:
        return [report_wrong(SUBJECT, error.message, error.hint), *check_providers()]
    offered = list_offered_models(None)
    findings = [
        report_good(
            SUBJECT,
            _("New chats use %(model)s. Models offered: %(count)s.")
            % {"model": default_model, "count": len(offered)},
        )
    ]
    if {model.id for model in offered} == {DEMO_MODEL}:
        hint = _("Set a provider’s key, such as OPENAI_API_KEY, or add a provider in the admin.")
        findings.append(report_doubtful(SUBJECT, _("Only the demo assistant is available."), hint))
    return [
        *findings,
        *_check_server(),
        *check_providers(),
        *_check_embeddings(),
        *_check_end_dates(offered),
    ]


def _check_server() -> list[Finding]:
    """Report a server at OPENAI_BASE_URL that does not list its models."""
    problem = find_list_problem()
    return [report_doubtful(SUBJECT, problem.message, problem.hint)] if problem else []


def check_providers() -> list[Finding]:
    """Report providers without a usable key."""
    findings = []
    for provider in ModelProvider.objects.filter(is_enabled=True):
        try:
            build_account(provider)
        except ProviderError as error:
            findings.append(report_wrong(SUBJECT, error.message, error.hint))
    return findings


def _check_embeddings() -> list[Finding]:
    """Report a model for the search by meaning that cannot be asked, or that failed last."""
    try:
        if find_embedder() is None:
            return []
    except ProviderError as error:
        return [report_wrong(SUBJECT, error.message, error.hint)]
    progress = EmbeddingProgress.objects.exclude(problem="").filter(pk=1).first()
    if progress is None:
        return []
    message = _("The search by meaning failed: %(problem)s") % {"problem": progress.problem}
    hint = _("Test the model on the admin page Search by meaning. Files are found by words.")
    return [report_doubtful(SUBJECT, message, hint)]


def _check_end_dates(offered: list[OfferedModel]) -> list[Finding]:
    ends = {model.id: find_end_date(model.id.partition(":")[2]) for model in offered}
    hint = _("Offer its successor, and remove this one from the list.")
    return [
        report_doubtful(
            SUBJECT,
            _("The provider ends %(model)s on %(date)s.")
            % {"model": model_id, "date": f"{end:%Y-%m-%d}"},
            hint,
        )
        for model_id, end in ends.items()
        if end
    ]
