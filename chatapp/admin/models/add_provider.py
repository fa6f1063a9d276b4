"""The admin page *Add a provider*: it checks address, key, list of models and a short answer before
anything is saved, and saves the provider with its models in one go."""

import uuid
from dataclasses import asdict
from functools import partial
from typing import Any, cast

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from chatapp.admin.adding import describe_blocking, list_groups
from chatapp.audit import audit_log
from chatapp.audit.admin_entries import log_act, log_model_test, name_host
from chatapp.audit.audit_log import Who
from chatapp.models import Member, ModelProvider, ProviderDraft
from chatapp.models.model_provider import is_model_name
from chatapp.providers.access import provider_check, provider_drafts
from chatapp.providers.access.fetched_models import save_models
from chatapp.providers.access.provider_check import CheckReport, Sample
from chatapp.providers.account import ListedModel
from chatapp.providers.events import ProviderError
from chatapp.providers.registry import PROVIDERS
from mcpconfig.services.own_services import TOO_OFTEN, claim_look

from . import model_rows
from .forms import AddProviderForm
from .model_rows import TermsProblem
from .provider_templates import TEMPLATES, get_template
from .sample_page import FOLDER, stream_page

ProviderPages = admin.ModelAdmin
STEP_NAMES = {
    "address": _lazy("Address"),
    "key": _lazy("Key"),
    "models": _lazy("Models"),
    "answer": _lazy("Answer"),
    "tools": _lazy("Tools"),
}
NOT_CHECKED = _lazy("Check this account before you add the provider.")
NOT_SAVED = _lazy("Nothing was saved. Correct the marked fields.")


def add_provider(
    pages: ProviderPages, request: HttpRequest, draft_id: uuid.UUID | None = None
) -> HttpResponseBase:
    """Show the page. A POST checks the account, streams an answer, adds the provider, or discards
    the draft."""
    if not pages.has_add_permission(request):
        raise PermissionDenied
    draft = _find_draft(request, draft_id)
    if request.method != "POST":
        return _render(pages, request, draft, AddProviderForm(draft=draft))
    try:
        return _act(pages, request, draft)
    except ProviderDraft.DoesNotExist:
        messages.warning(request, _("This page was saved or discarded in another window."))
        return redirect("admin:chatapp_modelprovider_changelist")


def _find_draft(request: HttpRequest, draft_id: uuid.UUID | None) -> ProviderDraft:
    person = cast(Member, request.user)
    if draft_id is not None:
        draft = ProviderDraft.find(person.pk, draft_id)
        if draft is None:
            raise Http404("No such draft.")
        return draft
    template = get_template(request.GET.get("template", ""))
    typed = {"kind": str(template.kind), "base_url": template.base_url}
    typed |= {"label": str(template.label), "key_place": str(template.key_place)}
    return ProviderDraft(id=uuid.uuid4(), person=person, typed=typed)


def _act(pages: ProviderPages, request: HttpRequest, draft: ProviderDraft) -> HttpResponseBase:
    act = request.POST.get("act", "check")
    if act == "discard":
        if ProviderDraft.objects.filter(pk=draft.pk).delete()[0]:
            _log(draft, "draft discarded")
        return redirect("admin:chatapp_modelprovider_changelist")
    provider_drafts.keep_typed(draft, request.POST)
    draft.store()
    form = AddProviderForm(_read_form(draft), draft=draft)
    if act in ("save", "save_off"):
        return _save(pages, request, draft, form, is_enabled=act == "save")
    if not form.is_valid():
        return _render(pages, request, draft, form, status=422)
    if not claim_look(cast(Member, request.user)):
        return _render(pages, request, draft, form, problem=str(TOO_OFTEN), status=429)
    if act == "answer":
        return _stream_answer(pages, request, draft, form)
    _log(draft, "account checked")
    draft.report = {"check": _check(draft, form).to_json()}
    draft.store()
    return redirect("admin:chatapp_modelprovider_connect_draft", draft.pk)


def _log(draft: ProviderDraft, act: str) -> None:
    """Record an act on the draft, with the kind of the provider and the host of its address."""
    typed = draft.typed
    address = typed.get("base_url") or ""
    at = f" at {name_host(address)}" if address else ""
    name = typed.get("slug") or typed.get("kind") or ""
    log_act(audit_log.Kind.MODELS_CHECKED, f"model provider {name}{at}", act)


def _read_form(draft: ProviderDraft) -> dict[str, Any]:
    return {name: draft.typed[name] for name in provider_drafts.FIELDS} | {"key": "", "headers": ""}


def _check(draft: ProviderDraft, form: AddProviderForm) -> CheckReport:
    try:
        account = provider_drafts.build_draft_account(draft, form.cleaned_data["headers"])
    except ProviderError as error:
        return provider_check.fail_settings(error)
    return async_to_sync(provider_check.check_account)(draft.typed["kind"], account)


def _stream_answer(
    pages: ProviderPages, request: HttpRequest, draft: ProviderDraft, form: AddProviderForm
) -> HttpResponseBase:
    refuse = partial(_render, pages, request, draft, form, status=422)
    model = draft.typed["sample_model"]
    if draft.report is None:
        return refuse(problem=str(NOT_CHECKED))
    if not is_model_name(model):
        return refuse(problem=_("Choose a model for the answer."))
    try:
        account = provider_drafts.build_draft_account(draft, form.cleaned_data["headers"])
    except ProviderError as error:
        return refuse(problem=error.message)
    prefix = draft.typed["slug"] or draft.typed["kind"]
    log_model_test(f"{prefix}:{model}", Who.of(cast(Member, request.user)))
    context = {
        **pages.admin_site.each_context(request),
        "opts": pages.opts,
        "title": _("A short answer of %(model)s") % {"model": model},
        "back": reverse("admin:chatapp_modelprovider_connect_draft", args=[draft.pk]),
        "back_text": _("Continue"),
    }
    return stream_page(
        request,
        context,
        kind=draft.typed["kind"],
        account=account,
        model=model,
        keep=partial(_keep_sample, draft),
    )


def _keep_sample(draft: ProviderDraft, sample: Sample) -> None:
    """Keep the answer, unless the account was changed or checked again while it came."""
    with transaction.atomic():
        stored = ProviderDraft.objects.select_for_update().filter(pk=draft.pk).first()
        if stored is None or stored.report is None or draft.report is None:
            return
        fields = provider_drafts.FIELDS
        if [stored.typed[name] for name in fields] != [draft.typed[name] for name in fields]:
            return
        stored.report |= {"sample": asdict(sample)}
        stored.save(update_fields=["report"])


# --- save ----------------------------------------------------------------------------------------
def _save(
    pages: ProviderPages,
    request: HttpRequest,
    draft: ProviderDraft,
    form: AddProviderForm,
    *,
    is_enabled: bool,
) -> HttpResponse:
    refuse = partial(_render, pages, request, draft, form, status=422)
    report = provider_drafts.read_report(draft)
    if report is None:
        return refuse(problem=str(NOT_CHECKED))
    if is_enabled and report.blocking is not None:
        return refuse(problem=describe_blocking(report.blocking.detail))
    if not form.is_valid():
        return refuse(problem=str(NOT_SAVED))
    try:
        models = [*report.models, *_read_more_models(draft, report)]
        extra = {model.name for model in models[len(report.models) :]}
        names = {each.name for each in models} & {*draft.typed["ticked"], *extra}
        terms = model_rows.read_terms(request.POST, names)
    except TermsProblem as problem:
        return refuse(problem=_("Nothing was saved. %(problem)s") % {"problem": problem})
    try:
        with transaction.atomic():
            # Another request may add the same draft: only one finds its row.
            if not ProviderDraft.objects.filter(pk=draft.pk).delete()[0]:
                raise ProviderDraft.DoesNotExist
            form.instance.is_enabled = is_enabled
            provider: ModelProvider = form.save()
            form.store_secrets()
            added = save_models(provider, models, names, terms)
            text = _("Added after a check of its address.")
            pages.log_addition(request, provider, text)
    except IntegrityError:
        form.add_error("slug", _("This name is taken. Choose another one."))
        return refuse(problem=str(NOT_SAVED))
    text = ngettext(
        "Added %(provider)s with %(number)s model.",
        "Added %(provider)s with %(number)s models.",
        added,
    )
    messages.success(request, text % {"provider": provider, "number": added})
    return redirect("admin:chatapp_modelprovider_change", provider.pk)


def _read_more_models(draft: ProviderDraft, report: CheckReport) -> list[ListedModel]:
    """Return the models that the admin entered by name and the provider does not list."""
    listed = {model.name for model in report.models}
    names = dict.fromkeys(line.strip() for line in draft.typed["more_models"].splitlines())
    for name in names:
        if name and not is_model_name(name):
            raise TermsProblem(_("“%(name)s” is not the name of a model.") % {"name": name[:40]})
    return [ListedModel(name=name) for name in names if name and name not in listed]


# --- page ----------------------------------------------------------------------------------------
def _render(
    pages: ProviderPages,
    request: HttpRequest,
    draft: ProviderDraft,
    form: AddProviderForm,
    *,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    report, sample, typed = (
        provider_drafts.read_report(draft),
        provider_drafts.read_sample(draft),
        draft.typed,
    )
    models = report.models if report else ()
    is_new, start = draft._state.adding, reverse("admin:chatapp_modelprovider_connect")
    template = get_template(request.GET.get("template", "")) if is_new else None
    context = {
        **pages.admin_site.each_context(request),
        "opts": pages.opts,
        "title": _("Add a provider"),
        "templates": TEMPLATES,
        "template": template,
        "form": form,
        "problem": problem,
        "start": start,
        "by_hand": reverse("admin:chatapp_modelprovider_add"),
        "address": start
        if is_new
        else reverse("admin:chatapp_modelprovider_connect_draft", args=[draft.pk]),
        "report": report,
        "steps": _list_steps(report),
        "seconds": round(report.milliseconds / 1000, 1) if report else 0,
        "blocking": describe_blocking(report.blocking.detail) if report and report.blocking else "",
        "sample": sample,
        "sample_model": typed.get("sample_model") or _choose_model(typed.get("kind", ""), models),
        "rows": model_rows.build_rows(
            models, ticked=typed.get("ticked") or (), prices=typed.get("prices")
        ),
        "may_type_prices": len(models) <= model_rows.MAX_TYPED,
        "more_models": typed.get("more_models", ""),
        "currency": typed.get("currency") or "USD",
        "access": model_rows.list_access(typed.get("access", "")),
        "groups": list_groups(typed.get("groups") or ()),
    }
    return TemplateResponse(request, f"{FOLDER}/connect.html", context, status=status)


def _list_steps(report: CheckReport | None) -> list[tuple[Any, Any]]:
    return [(STEP_NAMES[step.name], step) for step in report.steps] if report else []


def _choose_model(kind: str, models: tuple[ListedModel, ...]) -> str:
    """Return the first usual model of this kind of provider that it lists, or its first one."""
    names = [model.name for model in models]
    usual = PROVIDERS[kind].models if kind in PROVIDERS else {}
    return next((name for name in usual if name in names), names[0] if names else "")
