"""Servers that start at the same time on an empty database."""

import contextlib
from pathlib import Path

import pytest

from tests.flows.server import Installation, Server
from tests.migrated import (
    POSTGRESQL,
    drop_postgresql,
    make_database_name,
    run_on_postgresql,
)

# One migrates while the others wait, which takes minutes on a busy machine.
FIRST_START_SECONDS = 400
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_servers_that_start_together_set_the_database_up_once(tmp_path: Path, kind: str) -> None:
    with contextlib.ExitStack() as stack:
        url = f"sqlite:///{tmp_path}/new.sqlite3"
        if kind == "postgresql":
            name = make_database_name()
            run_on_postgresql(f"CREATE DATABASE {name}")
            url = f"{POSTGRESQL}/{name}"
            stack.callback(drop_postgresql, url)
        made = Installation(tmp_path, DATABASE_URL=url, DEMO="1")
        stack.callback(made.close)
        # On PostgreSQL the servers may run on several machines.
        folders = [tmp_path / name for name in ("a", "b", "c")]
        shared = str(tmp_path / "a")
        servers: list[Server] = []
        for folder in folders:
            var_dir = shared if kind == "sqlite" else str(folder)
            servers.append(made.server(folder.name, VAR_DIR=var_dir))
        start_together(servers)
        assert all(server.is_alive for server in servers)


def start_together(servers: list[Server]) -> None:
    for server in servers:
        server.launch()
    for server in servers:
        server.await_start(FIRST_START_SECONDS)
