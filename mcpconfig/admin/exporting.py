"""Services as other programs read them. Where a secret is needed there is a blank, for which
whoever imports it is asked: nothing that is exported holds one."""

import re
from typing import Any
from urllib.parse import urlsplit

from django.db.models import Q, QuerySet

from mcpconfig import builtin, credentials
from mcpconfig.models import Service

Authentication = Service.Authentication
Transport = Service.Transport
_TYPES = {Transport.SSE: "sse"}
_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
# The registry wants one, and a service says none that could be relied upon.
_VERSION = "1.0.0"
_DESCRIPTION_CHARACTERS = 100


def exportable(services: QuerySet[Service]) -> list[Service]:
    """What people added for themselves is theirs, and what is built in is nobody else's."""
    private = Q(visibility=Service.Visibility.PRIVATE, owner__isnull=False)
    return [each for each in services.exclude(private) if not builtin.is_builtin(each.url)]


def exported() -> dict[str, Any]:
    """All of them as `mcpServers`."""
    return {
        "mcpServers": {each.name: _as_entry(each) for each in exportable(Service.objects.all())}
    }


def _as_entry(service: Service) -> dict[str, Any]:
    said: dict[str, Any] = {
        "type": _TYPES.get(Service.Transport(service.transport), "http"),
        "url": _with_blanks(service),
    }
    if service.authentication == Authentication.BEARER:
        said["headers"] = {"Authorization": f"Bearer ${{input:{service.name}-token}}"}
    elif service.authentication == Authentication.HEADERS:
        names = credentials.header_names(service)
        said["headers"] = {name: f"${{input:{service.name}-{name}}}" for name in names}
    elif service.authentication in Service.OAUTH:
        said["oauth"] = {"clientId": service.client_id} if service.client_id else {}
    return said if service.is_enabled else said | {"disabled": True}


def _with_blanks(service: Service) -> str:
    """Its URL. Which of the values in a query are secret, nobody can tell."""
    address, mark, query = service.url.partition("#")[0].partition("?")
    pairs = [_blank_of(service, pair) for pair in query.split("&") if pair]
    return f"{address}{mark}{'&'.join(pairs)}"


def _blank_of(service: Service, pair: str) -> str:
    name, _, value = pair.partition("=")
    if not value.strip("="):
        return f"${{input:{service.name}-query}}"
    return f"{name}=${{input:{service.name}-{name[:60]}}}"


def server_json(service: Service) -> dict[str, Any]:
    """One of them as the MCP registry writes it, which has no words for a sign-in of people."""
    described = service.description or str(service)
    titled = {"title": service.title} if service.title else {}
    return {
        "$schema": _SCHEMA,
        "name": f"{_namespace(service.url)}/{service.name}",
        **titled,
        "description": described[:_DESCRIPTION_CHARACTERS],
        "version": _VERSION,
        "remotes": [_as_remote(service)],
    }


def _namespace(url: str) -> str:
    """The host from its end, as the registry names whose a server is."""
    parts = re.sub(r"[^A-Za-z0-9.-]+", "-", urlsplit(url).hostname or "local").split(".")
    return ".".join(reversed(parts))


def _as_remote(service: Service) -> dict[str, Any]:
    spoken = service.transport
    if spoken == Transport.AUTO:
        spoken = service.known_transport
    url, variables = _with_variables(service)
    remote: dict[str, Any] = {
        "type": "sse" if spoken == Transport.SSE else "streamable-http",
        "url": url,
    }
    if variables:
        remote["variables"] = variables
    if headers := _wanted_headers(service):
        remote["headers"] = headers
    return remote


def _with_variables(service: Service) -> tuple[str, dict[str, Any]]:
    """Its URL, with a variable for each value of its query."""
    address, mark, query = service.url.partition("#")[0].partition("?")
    pairs, variables = [], {}
    for name, _, value in (pair.partition("=") for pair in query.split("&") if pair):
        is_named = bool(value.strip("="))
        key = f"query-{re.sub(r'[^A-Za-z0-9_-]+', '-', name[:60])}" if is_named else "query"
        pairs.append(f"{name}={{{key}}}" if is_named else f"{{{key}}}")
        variables[key] = _asked(f"“{name}” of the address" if is_named else "What follows “?”")
    return f"{address}{mark}{'&'.join(pairs)}", variables


def _wanted_headers(service: Service) -> list[dict[str, Any]]:
    if service.authentication == Authentication.BEARER:
        token = _asked(f"The token for {service}")
        bearer = {"value": "Bearer {token}", "variables": {"token": token}}
        return [{"name": "Authorization", **bearer}]
    if service.authentication == Authentication.HEADERS:
        names = credentials.header_names(service)
        return [{"name": name, **_asked(f"“{name}” for {service}")} for name in names]
    return []


def _asked(description: str) -> dict[str, Any]:
    return {"description": description, "isRequired": True, "isSecret": True}
