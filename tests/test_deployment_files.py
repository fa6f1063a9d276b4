"""The files of docs/deployment.md can be read, and name only settings, routes and commands that
exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.core.management import get_commands
from django.urls import resolve

from chatapp.server.request_bodies import FORM_BYTES

from .test_documents import words_in_tables

ROOT = Path(__file__).resolve().parent.parent
MANIFESTS = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))


def read_manifests() -> list[dict[str, Any]]:
    return [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text()) if each]


def find_kind(kind: str) -> dict[str, Any]:
    [found] = [each for each in read_manifests() if each["kind"] == kind]
    return found


def list_containers() -> Iterator[dict[str, Any]]:
    for kind in ("Deployment", "Job"):
        yield from find_kind(kind)["spec"]["template"]["spec"]["containers"]


def read_composition() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return read


def list_own_services() -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = read_composition()["services"]
    return {name: each for name, each in services.items() if "build" in each}


def find_commands(text: str) -> set[str]:
    return set(re.findall(r"manage\.py[,\s]+(\w+)", text))


def test_the_manifests_name_only_settings_that_exist() -> None:
    named = {*find_kind("ConfigMap")["data"], *find_kind("Secret")["stringData"]}
    assert {"DATABASE_URL", "SECRET_KEY", "ENCRYPTION_KEYS", "LOG_SIGNING_KEY"} <= named
    assert named <= words_in_tables("docs/configuration.md")


def test_the_containers_share_their_keys_and_name_only_settings_that_exist() -> None:
    known = words_in_tables("docs/configuration.md")
    for name, service in list_own_services().items():
        given = service["environment"]
        assert set(given) <= known, name
        for key in ("SECRET_KEY", "ENCRYPTION_KEYS", "LOG_SIGNING_KEY"):
            assert given[key].startswith(f"${{{key}:?"), name


def test_the_unit_names_only_settings_that_exist() -> None:
    unit = (ROOT / "deploy/systemd/countersign.service").read_text()
    [given] = re.findall(r"^Environment=(.*)$", unit, re.MULTILINE)
    names = {word.split("=")[0] for word in given.split()}
    assert names - {"PYTHONUNBUFFERED"} <= words_in_tables("docs/configuration.md")


def test_probes_lead_to_routes_and_send_a_host_that_is_allowed() -> None:
    hosts = find_kind("ConfigMap")["data"]["ALLOWED_HOSTS"].split(",")
    [server] = find_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    found = {}
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        request = server[name]["httpGet"]
        found[name] = resolve(request["path"]).url_name
        sent = {header["name"]: header["value"] for header in request["httpHeaders"]}
        assert sent["Host"] in hosts
        assert request["port"] == server["ports"][0]["name"]
    assert found == {
        "startupProbe": "healthz",
        "livenessProbe": "healthz",
        "readinessProbe": "readyz",
    }
    caddy = (ROOT / "deploy/Caddyfile").read_text()
    for path in re.findall(r"health_uri (\S+)", caddy):
        assert resolve(path).url_name == "readyz"
    for service in list_own_services().values():
        for path in re.findall(r"6740(/\w+)", str(service.get("healthcheck"))):
            assert resolve(path).url_name == "readyz"


def test_nothing_kills_a_server_before_its_shutdown_is_over() -> None:
    spec = find_kind("Deployment")["spec"]["template"]["spec"]
    pause = int(spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    waits = {"kubernetes": spec["terminationGracePeriodSeconds"] - pause}
    unit = (ROOT / "deploy/systemd/countersign.service").read_text()
    waits["systemd"] = int(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[0])
    for name, service in list_own_services().items():
        if "serve" in service["command"]:
            waits[name] = int(service["stop_grace_period"].removesuffix("s"))
    assert len(waits) == 4
    drain = float(list_own_services()["web1"]["environment"]["DRAIN_SECONDS"])
    assert min(waits.values()) > drain + settings.SHUTDOWN_SECONDS
    # The proxy has asked at least three times when the server closes its socket.
    interval = re.findall(r"health_interval (\d+)s", (ROOT / "deploy/Caddyfile").read_text())
    assert drain > 3 * int(interval[0])


def test_containers_have_no_privileges() -> None:
    for container in list_containers():
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"] == {"drop": ["ALL"]}
    recipe = (ROOT / "Dockerfile").read_text()
    for kind in ("Deployment", "Job"):
        spec = find_kind(kind)["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert f"useradd --create-home --uid {spec['securityContext']['runAsUser']} " in recipe
    for name, service in list_own_services().items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name


def test_two_servers_stand_behind_the_proxy_and_start_after_the_migration() -> None:
    servers = {n: each for n, each in list_own_services().items() if "serve" in each["command"]}
    assert len(servers) == 2
    proxy = read_composition()["services"]["proxy"]
    assert proxy["environment"]["SERVERS"].split() == [f"{name}:6740" for name in servers]
    for server in servers.values():
        needed = server["depends_on"]["migrate"]
        assert needed == {"condition": "service_completed_successfully"}
    assert find_kind("Deployment")["spec"]["replicas"] == 2


def test_the_servers_believe_the_network_of_the_proxy_alone() -> None:
    composition = read_composition()
    [front] = [
        name for name, network in composition["networks"].items() if network and "ipam" in network
    ]
    [address] = composition["networks"][front]["ipam"]["config"]
    inside = {
        name
        for name, service in composition["services"].items()
        if front in service.get("networks", [])
    }
    assert inside == {*list_own_services(), "proxy"}
    for service in list_own_services().values():
        assert service["environment"]["TRUSTED_PROXIES"] == address["subnet"]


@pytest.mark.parametrize("path", ["compose.yaml", *(str(p.relative_to(ROOT)) for p in MANIFESTS)])
def test_commands_of_the_files_exist(path: str) -> None:
    assert find_commands((ROOT / path).read_text()) <= {*get_commands()}


def test_the_proxies_take_large_files_for_the_form_of_imports_only() -> None:
    nginx = (ROOT / "deploy/nginx.conf").read_text()
    caddy = (ROOT / "deploy/Caddyfile").read_text()
    most = [re.findall(r"^    client_max_body_size (\d+)m;", nginx, re.MULTILINE)[0]]
    most += re.findall(r"@others \{\s+max_size (\d+)MB", caddy)
    form = re.findall(r"location = /imports/ \{\s+client_max_body_size (\d+)m;", nginx)
    form += re.findall(r"@imports \{\s+max_size (\d+)MB", caddy)
    assert re.findall(r"@(?:imports|others) (?:not )?path (\S+)", caddy) == ["/imports/"] * 2
    for manifest in read_manifests():
        if manifest["kind"] == "Ingress":
            notes = manifest["metadata"]["annotations"]
            size = notes["nginx.ingress.kubernetes.io/proxy-body-size"].removesuffix("m")
            [rule] = manifest["spec"]["rules"]
            [path] = rule["http"]["paths"]
            place = (path["path"], path["pathType"])
            {("/", "Prefix"): most, ("/imports/", "Exact"): form}[place].append(size)
    assert resolve("/imports/").url_name == "imports"
    assert [int(each) * 1_000_000 for each in most] == [settings.REQUEST_MAX_BYTES] * 3
    assert len(form) == 3
    assert min(map(int, form)) * 1_000_000 > settings.IMPORT_MAX_BYTES + FORM_BYTES
