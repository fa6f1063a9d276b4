"""The address of a company's directory: SCIM 2.0 with a token of its own. Sessions are ignored."""

import json
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt

from chatapp.accounts import directory
from chatapp.audit import audit_log
from chatapp.models import DirectoryToken
from chatapp.server.address import base_url
from mcpconfig.values.lazy_module import LazyModule
from mcpconfig.values.results import make_storable

from .bearer import Problem, check_method, check_rate, open_token

if TYPE_CHECKING:
    from chatapp.accounts import scim_service
else:
    scim_service = LazyModule("chatapp.accounts.scim_service")

MAX_BYTES = 1_000_000
CONTENT_TYPE = "application/scim+json"
ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"
HINT = "Create a token with “manage.py directory create-token” and send it as “Bearer scim_…”."
View = Callable[..., HttpResponse]


def for_directories(*methods: str) -> Callable[[View], View]:
    """Allow directories with a token and these methods only. Changes are logged as the token's."""

    def decorate(view: View) -> View:
        @csrf_exempt
        @wraps(view)
        def guarded(request: HttpRequest, **ids: str) -> HttpResponse:
            try:
                token = _admit(request)
                check_method(request, methods)
                actor = audit_log.Who(name=f"directory {token.name}")
                with audit_log.acting_as(lambda: actor), scim_service.open_service(find_base()):
                    response = view(request, **ids)
            except Problem as problem:
                response = _answer_problem(problem)
            except Exception as error:
                response = _answer_error(error)
            add_never_cache_headers(response)
            return response

        return guarded

    return decorate


def find_base() -> str:
    return f"{base_url()}/scim/v2"


@for_directories("GET", "POST")
def users(request: HttpRequest) -> HttpResponse:
    if request.method == "GET":
        return _answer(scim_service.list_users(request.GET.dict(), find_base()))
    return _answer(scim_service.create_user(_read_body(request), find_base()), 201)


@for_directories("GET", "PUT", "PATCH", "DELETE")
def user(request: HttpRequest, user_id: str) -> HttpResponse:
    match request.method:
        case "PUT":
            found = scim_service.replace_user(user_id, _read_body(request), find_base())
        case "PATCH":
            found = scim_service.patch_user(user_id, _read_body(request), find_base())
        case "DELETE":
            scim_service.delete_user(user_id)
            return HttpResponse(status=204)
        case _:
            found = scim_service.get_user(user_id, request.GET.dict(), find_base())
    return _answer(found)


@for_directories("GET", "POST")
def groups(request: HttpRequest) -> HttpResponse:
    if request.method == "GET":
        return _answer(scim_service.list_all_groups(request.GET.dict(), find_base()))
    return _answer(scim_service.create_group(_read_body(request), find_base()), 201)


@for_directories("GET", "PUT", "PATCH", "DELETE")
def group(request: HttpRequest, group_id: str) -> HttpResponse:
    match request.method:
        case "PUT":
            found = scim_service.replace_group(group_id, _read_body(request), find_base())
        case "PATCH":
            found = scim_service.patch_group(group_id, _read_body(request), find_base())
        case "DELETE":
            scim_service.delete_group(group_id)
            return HttpResponse(status=204)
        case _:
            found = scim_service.get_group(group_id, request.GET.dict(), find_base())
    return _answer(found)


@for_directories("GET")
def service(_request: HttpRequest) -> HttpResponse:
    return _answer(scim_service.describe_service(find_base()))


@for_directories("GET")
def resource_types(_request: HttpRequest) -> HttpResponse:
    return _answer(scim_service.list_resource_types(find_base()))


@for_directories("GET")
def resource_type(_request: HttpRequest, name: str) -> HttpResponse:
    return _answer(scim_service.get_resource_type(name, find_base()))


@for_directories("GET")
def schemas(_request: HttpRequest) -> HttpResponse:
    return _answer(scim_service.list_schemas(find_base()))


@for_directories("GET")
def schema(_request: HttpRequest, urn: str) -> HttpResponse:
    return _answer(scim_service.get_schema(urn, find_base()))


def _admit(request: HttpRequest) -> DirectoryToken:
    """Return the token of the request. Raises Problem."""
    token = open_token(request, DirectoryToken.find_by_text)
    check_rate("scim", str(token.pk), settings.SCIM_REQUESTS_PER_MINUTE)
    directory.note_use(token)
    return token


def _read_body(request: HttpRequest) -> dict[str, Any]:
    """Return the JSON object of the request. Raises Problem."""
    try:
        body = request.body
    except UnreadablePostError:
        raise _build_problem(400, _("The request ended early.")) from None
    except RequestDataTooBig:
        body = b" " * (MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise _build_problem(413, _("The request is too large."))
    try:
        found = make_storable(json.loads(body))
    except (ValueError, RecursionError):
        raise _build_problem(400, _("The request is not valid JSON.")) from None
    if not isinstance(found, dict):
        raise _build_problem(400, _("The request must be a JSON object."))
    return found


def _build_problem(status: int, message: str) -> Problem:
    kind = "invalidSyntax" if status == 400 else ""
    return Problem(status=status, kind=kind, message=message)


def _answer(value: dict[str, Any], status: int = 200) -> HttpResponse:
    response = JsonResponse(value, status=status, content_type=CONTENT_TYPE)
    location = value.get("meta", {}).get("location")
    if status == 201 and location:
        response["Location"] = location
    return response


def _answer_problem(problem: Problem) -> HttpResponse:
    value = {"schemas": [ERROR], "status": str(problem.status), "detail": problem.message}
    if problem.status == 401:
        value["detail"] = f"{problem.message} {HINT}"
    if problem.kind == "invalidSyntax":
        value["scimType"] = problem.kind
    response = _answer(value, problem.status)
    for name, text in problem.headers.items():
        response[name] = text
    return response


def _answer_error(error: Exception) -> HttpResponse:
    """Answer an error of the request in the form of SCIM. Raises all others."""
    if isinstance(error, IntegrityError):
        raised = Problem(status=409, kind="", message=_("Another request changed the same."))
        return _answer_problem(raised)
    found = scim_service.describe_error(error)
    if found is None:
        raise error
    status, value = found
    return _answer(value, status)
