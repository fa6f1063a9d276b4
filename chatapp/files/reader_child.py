"""Reads a file from standard input, in a child process without environment and with limits.

A file is untrusted: one whose reader loops, grows or is taken over ends here, by the limits of
this process, and affects no other. Run by `reader.py`; it writes one JSON object.
"""

import contextlib
import importlib
import json
import logging
import resource
import sys
from pathlib import Path

MEMORY_BYTES = 1024 * 1024 * 1024
ROOT = Path(__file__).resolve().parents[2]
# Imported on first use: a PDF needs no parser of XML.
READERS = {
    "pdf": "chatapp.files.pdf_text",
    "package": "chatapp.files.office_package",
    "picture": "chatapp.files.square_picture",
}
# What no reader does: connect, start programs.
FORBIDDEN = ("socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.fork", "os.system")


def main() -> None:
    kind, *numbers = sys.argv[1:]
    seconds, *limits = map(int, numbers)
    limit(seconds)
    logging.disable()
    sys.path.insert(0, str(ROOT))
    reader = importlib.import_module(READERS[kind])
    sys.addaudithook(forbid)
    found = _read(reader, sys.stdin.buffer.read(), limits)
    json.dump(found, sys.stdout)


def limit(seconds: int) -> None:
    for what, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # some systems lack some of these limits
            resource.setrlimit(what, (most, most))


def forbid(event: str, _arguments: object) -> None:
    """Refuse connections and programs. Files name addresses, and no library should follow one."""
    if event.startswith(FORBIDDEN):
        raise PermissionError(event)


def _read(reader: object, data: bytes, limits: list[int]) -> dict[str, object]:
    """Return what the reader found. Libraries raise almost anything for a broken file."""
    try:
        found: dict[str, object] = reader.read(data, *limits)  # type: ignore[attr-defined]  # a module of READERS
    except Exception:  # noqa: BLE001
        return {"problem": "broken"}
    return found


if __name__ == "__main__":
    main()
