"""Third-party servers, each a process of its own on loopback."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .installing import PRELOAD, Unavailable, node, npm_package, python_program

STARTS_WITHIN_SECONDS = 90
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How a server is started on a port, with a folder of its own, and its URL."""

    name: str
    command: Callable[[int, Path], list[str | Path]]
    path: str = "/mcp"


def everything(transport: str) -> Program:
    """The protocol's reference server, on Streamable HTTP or HTTP+SSE."""

    def command(_port: int, _folder: Path) -> list[str | Path]:
        package = npm_package("everything", "@modelcontextprotocol/server-everything")
        return [node(), package / "dist/index.js", transport]

    path = "/sse" if transport == "sse" else "/mcp"
    return Program(name=f"everything {transport}", command=command, path=path)


def app(name: str) -> Program:
    """An example of servers whose tools bring a page to show."""

    def command(_port: int, _folder: Path) -> list[str | Path]:
        package = npm_package("apps", f"@modelcontextprotocol/server-{name}")
        return [node(), package / "dist/index.js"]

    return Program(name=name, command=command)


def fast() -> Program:
    """A server of the library that most servers of Python are made with."""

    def command(port: int, _folder: Path) -> list[str | Path]:
        return [python_program("fastmcp", "python"), HERE / "fast.py", str(port)]

    return Program(name="fastmcp", command=command)


def fast_tasks() -> Program:
    """A server of that library whose tool is a long task."""

    def command(port: int, _folder: Path) -> list[str | Path]:
        return [python_program("tasks", "python"), HERE / "slowly.py", str(port)]

    return Program(name="fastmcp-tasks", command=command)


def openid_provider(redirect_uri: str) -> Program:
    """The OpenID Connect server that is certified for Node, with one client."""

    def command(port: int, _folder: Path) -> list[str | Path]:
        package = npm_package("openid", "oidc-provider")
        return [node(), HERE / "oidc_server.mjs", package, str(port), redirect_uri]

    return Program(name="oidc-provider", command=command, path="")


def saml_provider(address: str) -> Program:
    """A SAML provider made with samlify, which answers to this address. The folder has its key and
    certificate."""

    def command(port: int, folder: Path) -> list[str | Path]:
        package = npm_package("saml", "samlify")
        keys = [folder / "key.pem", folder / "certificate.pem"]
        return [node(), HERE / "saml_server.cjs", package, str(port), address, *keys]

    return Program(name="samlify", command=command, path="")


def bridged(program: str, *, needs_repository: bool = False, is_sse: bool = False) -> Program:
    """A program that speaks over its standard input and output, behind a bridge to HTTP."""

    def command(port: int, folder: Path) -> list[str | Path]:
        more = ["--repository", str(_repository(folder))] if needs_repository else []
        bridge = str(python_program("bridge", "mcp-proxy"))
        return [*bridge_words(bridge, port), python_program("bridged", program), *more]

    return Program(name=program, command=command, path="/sse" if is_sse else "/mcp")


def bridge_words(bridge: str, port: int) -> list[str]:
    """How the bridge is started, as the documents say; the program behind it follows."""
    return [bridge, "--host", "127.0.0.1", "--port", str(port), "--"]


def _repository(folder: Path) -> Path:
    """A repository with one commit."""
    (folder / "README").write_text("A repository.\n")
    git = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "--quiet"], ["add", "README"], ["commit", "--quiet", "-m", "Begin"]):
        subprocess.run([*git, *words], check=True, timeout=30)
    return folder


@contextmanager
def running(program: Program, folder: Path, port: int = 0) -> Iterator[str]:
    """Starts the server and yields its URL; raises Unavailable where it cannot be had."""
    port = port or find_free_port()
    words = [str(word) for word in program.command(port, folder)]
    environment = {**os.environ, "PORT": str(port), "NODE_OPTIONS": f"--require {PRELOAD}"}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(words, env=environment, stdout=quiet, stderr=quiet)
    try:
        _wait_for(port, process)
        yield f"http://127.0.0.1:{port}{program.path}"
    finally:
        process.terminate()
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unavailable(f"the server ended with exit code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise Unavailable(f"the server did not listen within {STARTS_WITHIN_SECONDS} seconds")
