"""The operations of SCIM 2.0 (RFC 7644): JSON in, JSON out. `views/api/scim.py` has the HTTP."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import QuerySet
from pydantic import ValidationError
from scim2_models import (
    Context,
    Error,
    InvalidFilterException,
    ListResponse,
    NotFoundException,
    PatchOp,
    Resource,
    SCIMException,
    ScimProvider,
    SearchRequest,
)

from chatapp.models import DirectoryGroup, Member
from chatapp.people.refused import Refused
from mcpconfig.values.numbers import read_number

from . import directory
from .scim import (
    MAX_RESULTS,
    Group,
    User,
    build_group,
    build_provider,
    build_user,
    list_groups,
    read_member_ids,
    read_person,
)
from .scim_filters import GROUP_FIELDS, USER_FIELDS, Fields, build_condition

MAX_FILTER_CHARACTERS = 1_000
MAX_INDEX = 2**31
SCIM_TYPES = {409: "uniqueness", 403: "mutability", 400: "invalidValue"}
Json = dict[str, Any]
Query = Mapping[str, str]
Row = TypeVar("Row", Member, DirectoryGroup)
AnyResource = TypeVar("AnyResource", User, Group)


def open_service(base: str) -> ScimProvider:
    """Return what validates and describes inside a `with` block."""
    return build_provider(base)


def describe_error(error: Exception) -> tuple[int, Json] | None:
    """Return the status and the answer for an error of the request, or None for another one."""
    match error:
        case SCIMException():
            found = error.to_error()
        case ValidationError():
            found = Error.from_validation_errors(error.errors())[0]
        case Refused():
            scim_type = SCIM_TYPES.get(error.status)
            found = Error(status=error.status, scim_type=scim_type, detail=error.sentence)
        case _:
            return None
    return int(found.status or 400), found.model_dump()


# --- users ---------------------------------------------------------------------------------
def list_users(query: Query, base: str) -> Json:
    request = _read_query(User, query)
    rows, total = _find_page(directory.list_people(), request, USER_FIELDS)
    return _list(User, [build_user(row, base) for row in rows], total, request)


def create_user(body: Json, base: str) -> Json:
    user = User.model_validate(body, scim_ctx=Context.RESOURCE_CREATION_REQUEST)
    member = directory.join(read_person(user))
    return build_user(member, base).model_dump(scim_ctx=Context.RESOURCE_CREATION_RESPONSE)


def get_user(user_id: str, query: Query, base: str) -> Json:
    return _dump(build_user(_find_member(user_id), base), _read_query(User, query))


@transaction.atomic
def replace_user(user_id: str, body: Json, base: str) -> Json:
    member = directory.lock_member(_find_member(user_id))
    user = User.model_validate(body, scim_ctx=Context.RESOURCE_REPLACEMENT_REQUEST)
    member = directory.change(member, read_person(user, is_active=member.is_active))
    return build_user(member, base).model_dump(scim_ctx=Context.RESOURCE_REPLACEMENT_RESPONSE)


@transaction.atomic
def patch_user(user_id: str, body: Json, base: str) -> Json:
    """Change what the operations name. The row is locked before it is read: another change that ran
    in between, such as that the person left, would be undone."""
    member = directory.lock_member(_find_member(user_id))
    user = build_user(member, base)
    shown = user.display_name or ""
    _patch(PatchOp[User], body, user)
    person = read_person(user, shown=shown, is_active=member.is_active)
    member = directory.change(member, person)
    return build_user(member, base).model_dump(scim_ctx=Context.RESOURCE_PATCH_RESPONSE)


def delete_user(user_id: str) -> None:
    directory.leave(_find_member(user_id))


def _find_member(user_id: str) -> Member:
    return _find(directory.list_people(), user_id)


# --- groups --------------------------------------------------------------------------------
def list_all_groups(query: Query, base: str) -> Json:
    request = _read_query(Group, query)
    rows, total = _find_page(list_groups(), request, GROUP_FIELDS)
    return _list(Group, [build_group(row, base) for row in rows], total, request)


def create_group(body: Json, base: str) -> Json:
    group = Group.model_validate(body, scim_ctx=Context.RESOURCE_CREATION_REQUEST)
    row = directory.create_group(
        group.display_name or "", group.external_id or "", read_member_ids(group)
    )
    made = build_group(row, base)
    return made.model_dump(scim_ctx=Context.RESOURCE_CREATION_RESPONSE)


def get_group(group_id: str, query: Query, base: str) -> Json:
    return _dump(build_group(_find(list_groups(), group_id), base), _read_query(Group, query))


def replace_group(group_id: str, body: Json, base: str) -> Json:
    row = _find(list_groups(), group_id)
    group = Group.model_validate(body, scim_ctx=Context.RESOURCE_REPLACEMENT_REQUEST)
    changed = build_group(_change_group(row, group), base)
    return changed.model_dump(scim_ctx=Context.RESOURCE_REPLACEMENT_RESPONSE)


@transaction.atomic
def patch_group(group_id: str, body: Json, base: str) -> Json:
    row = directory.lock_group(_find(list_groups(), group_id))
    group = build_group(row, base)
    _patch(PatchOp[Group], body, group)
    changed = build_group(_change_group(row, group), base)
    return changed.model_dump(scim_ctx=Context.RESOURCE_PATCH_RESPONSE)


def delete_group(group_id: str) -> None:
    directory.delete_group(_find(list_groups(), group_id))


def _change_group(row: DirectoryGroup, group: Group) -> DirectoryGroup:
    return directory.change_group(
        row, group.display_name or "", group.external_id or "", read_member_ids(group)
    )


# --- the service ---------------------------------------------------------------------------
def describe_service(base: str) -> Json:
    config = build_provider(base).config
    return config.model_dump() if config else {}


def list_resource_types(base: str) -> Json:
    return _list_plain(build_provider(base).resource_types)


def get_resource_type(name: str, base: str) -> Json:
    types = build_provider(base).resource_types
    return _get_plain(each for each in types if each.name == name)


def list_schemas(base: str) -> Json:
    return _list_plain(build_provider(base).schemas)


def get_schema(urn: str, base: str) -> Json:
    schemas = build_provider(base).schemas
    return _get_plain(each for each in schemas if str(each.id) == urn)


def _list_plain(found: Iterable[Resource[Any]]) -> Json:
    resources = [each.model_dump() for each in found]
    return {
        "schemas": [str(ListResponse.__schema__)],
        "totalResults": len(resources),
        "startIndex": 1,
        "itemsPerPage": len(resources),
        "Resources": resources,
    }


def _get_plain(found: Iterable[Resource[Any]]) -> Json:
    for each in found:
        return each.model_dump()
    raise NotFoundException(detail="There is nothing with this name.")


# --- shared --------------------------------------------------------------------------------
def _read_query(resource: Any, query: Query) -> Any:
    if len(query.get("filter", "")) > MAX_FILTER_CHARACTERS:
        raise InvalidFilterException(detail="The filter is too long.")
    names = ("filter", "startIndex", "count", "attributes", "excludedAttributes")
    given = {name: query[name] for name in names if query.get(name)}
    return SearchRequest[resource].model_validate(given)


def _find_page(rows: QuerySet[Row], request: Any, fields: Fields) -> tuple[list[Row], int]:
    """Return one page of the rows that the filter describes, and how many there are in all."""
    found = rows.filter(build_condition(request.filter, fields)).distinct()
    first = min(request.start_index or 1, MAX_INDEX) - 1
    most = MAX_RESULTS if request.count is None else min(request.count, MAX_RESULTS)
    return list(found[first : first + most]), found.count()


def _list(resource: Any, resources: list[Any], total: int, request: Any) -> Json:
    answer = ListResponse[resource](
        total_results=total,
        start_index=request.start_index or 1,
        items_per_page=len(resources),
        resources=resources,
    )
    dumped: Json = answer.model_dump(
        scim_ctx=Context.RESOURCE_QUERY_RESPONSE,
        response_parameters=request,
    )
    return dumped


def _dump(resource: Any, request: Any) -> Json:
    dumped: Json = resource.model_dump(
        scim_ctx=Context.RESOURCE_QUERY_RESPONSE,
        response_parameters=request,
    )
    return dumped


def _patch(operations: Any, body: Json, resource: Any) -> None:
    """Apply the operations of the request to the resource."""
    checked = operations.model_validate(body, scim_ctx=Context.RESOURCE_PATCH_REQUEST)
    checked.patch(resource)


def _find(rows: QuerySet[Row], row_id: str) -> Row:
    pk = read_number(row_id)
    found = None if pk is None else rows.filter(pk=pk).first()
    if found is None:
        raise NotFoundException(detail="There is nothing with this id.")
    return found
