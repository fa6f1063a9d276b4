"""Export of services as `mcpServers` JSON and as `server.json`.

An export never contains a secret. It has a placeholder instead, for which the importing program
asks.
"""

import re
from typing import Any
from urllib.parse import urlsplit

from django.db.models import Q, QuerySet

from mcpconfig.models import Service
from mcpconfig.secrets import credentials
from mcpconfig.values import builtin

Authentication = Service.Authentication
Transport = Service.Transport
_TYPES = {Transport.SSE: "sse"}
_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
# The registry requires a version, and services give no reliable one.
_VERSION = "1.0.0"
_DESCRIPTION_CHARACTERS = 100


def list_exportable(services: QuerySet[Service]) -> list[Service]:
    """Return the services without built-in ones and ones that people added for themselves."""
    private = Q(visibility=Service.Visibility.PRIVATE, owner__isnull=False)
    return [service for service in services.exclude(private) if not builtin.is_builtin(service.url)]


def build_mcp_servers() -> dict[str, Any]:
    """Return all exportable services as `mcpServers`."""
    services = list_exportable(Service.objects.all())
    return {"mcpServers": {service.name: _build_entry(service) for service in services}}


def _build_entry(service: Service) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": _TYPES.get(Service.Transport(service.transport), "http"),
        "url": _blank_out_query(service),
    }
    if service.authentication == Authentication.BEARER:
        entry["headers"] = {"Authorization": f"Bearer ${{input:{service.name}-token}}"}
    elif service.authentication == Authentication.HEADERS:
        names = credentials.list_header_names(service)
        entry["headers"] = {name: f"${{input:{service.name}-{name}}}" for name in names}
    elif service.authentication in Service.OAUTH:
        entry["oauth"] = {"clientId": service.client_id} if service.client_id else {}
    return entry if service.is_enabled else entry | {"disabled": True}


def _blank_out_query(service: Service) -> str:
    """Return the URL with a placeholder for each value in its query, since any may be secret."""
    address, separator, query = service.url.partition("#")[0].partition("?")
    pairs = [_blank_out_pair(service, pair) for pair in query.split("&") if pair]
    return f"{address}{separator}{'&'.join(pairs)}"


def _blank_out_pair(service: Service, pair: str) -> str:
    name, _, value = pair.partition("=")
    if not value.strip("="):
        return f"${{input:{service.name}-query}}"
    return f"{name}=${{input:{service.name}-{name[:60]}}}"


def build_server_json(service: Service) -> dict[str, Any]:
    """Return a service in the format of the MCP registry, which cannot describe OAuth."""
    description = service.description or str(service)
    title = {"title": service.title} if service.title else {}
    return {
        "$schema": _SCHEMA,
        "name": f"{_build_namespace(service.url)}/{service.name}",
        **title,
        "description": description[:_DESCRIPTION_CHARACTERS],
        "version": _VERSION,
        "remotes": [_build_remote(service)],
    }


def _build_namespace(url: str) -> str:
    """Return the namespace of the registry, which is the host name in reverse order."""
    parts = re.sub(r"[^A-Za-z0-9.-]+", "-", urlsplit(url).hostname or "local").split(".")
    return ".".join(reversed(parts))


def _build_remote(service: Service) -> dict[str, Any]:
    transport = service.transport
    if transport == Transport.AUTO:
        transport = service.known_transport
    url, variables = _extract_variables(service)
    remote: dict[str, Any] = {
        "type": "sse" if transport == Transport.SSE else "streamable-http",
        "url": url,
    }
    if variables:
        remote["variables"] = variables
    if headers := _build_headers(service):
        remote["headers"] = headers
    return remote


def _extract_variables(service: Service) -> tuple[str, dict[str, Any]]:
    """Return the URL with a variable for each value of its query, and the variables."""
    address, separator, query = service.url.partition("#")[0].partition("?")
    pairs, variables = [], {}
    for name, _, value in (pair.partition("=") for pair in query.split("&") if pair):
        is_named = bool(value.strip("="))
        key = f"query-{re.sub(r'[^A-Za-z0-9_-]+', '-', name[:60])}" if is_named else "query"
        pairs.append(f"{name}={{{key}}}" if is_named else f"{{{key}}}")
        variables[key] = _build_input(
            f"“{name}” of the address" if is_named else "What follows “?”"
        )
    return f"{address}{separator}{'&'.join(pairs)}", variables


def _build_headers(service: Service) -> list[dict[str, Any]]:
    if service.authentication == Authentication.BEARER:
        token = _build_input(f"The token for {service}")
        bearer = {"value": "Bearer {token}", "variables": {"token": token}}
        return [{"name": "Authorization", **bearer}]
    if service.authentication == Authentication.HEADERS:
        names = credentials.list_header_names(service)
        return [{"name": name, **_build_input(f"“{name}” for {service}")} for name in names]
    return []


def _build_input(description: str) -> dict[str, Any]:
    return {"description": description, "isRequired": True, "isSecret": True}
