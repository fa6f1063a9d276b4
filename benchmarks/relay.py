"""What relaying answers costs the server: N at once, each stored, rendered and watched by a tab.

Run `python -m benchmarks.relay [--answers 20] [--chunks 400]` on a quiet machine. CPU is the server
process's own time; the ratio to the model server's own CPU survives a noisy machine better.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.flows.person import Person, conversation_in
from tests.flows.server import ROOT, Installation, Server

WORDS = (
    "## Findings\n\nThe **pool** ran out: `10` connections for 91 requests a second.\n\n- one\n"
    "- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nx = pool(20)\n```\n\nThat is all. "
)
CHUNK_CHARACTERS = 4
CHUNK_MS = 25
MODEL = "openai-chat:bench"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one tab saw, in seconds."""

    first_text: float
    whole: float


def cpu_seconds(pid: int) -> float:
    """User and system time of one process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def ask(person: Person, server: Server) -> Answer:
    """Send a message, watch it being answered, and say when the words came."""
    began = time.monotonic()
    conversation = conversation_in(person.send(server, "Tell me", uuid.uuid4()))
    address = f"ws://127.0.0.1:{server.port}/ws/c/{conversation}/?after=3"
    cookies = {"Cookie": person.cookie_header()}
    origin = Origin(server.address)
    with connect(address, origin=origin, additional_headers=cookies, proxy=None) as socket:
        until(socket, "Findings")
        first = time.monotonic() - began
        until(socket, 'data-state=\\"done\\"')
    return Answer(first_text=first, whole=time.monotonic() - began)


def until(socket: ClientConnection, words: str) -> None:
    """Read frames, without the cost of a page, until one has these words."""
    while words not in str(socket.recv(timeout=120)):
        continue


def run(answers: int, chunks: int, folder: Path) -> None:
    text = (WORDS * (1 + chunks * CHUNK_CHARACTERS // len(WORDS)))[: chunks * CHUNK_CHARACTERS]
    scene = {"text": text, "chunk": CHUNK_CHARACTERS, "delay_ms": CHUNK_MS}
    script = folder / "script.json"
    script.write_text(json.dumps([scene] * (answers + 1)))
    model = subprocess.Popen(
        [sys.executable, "-m", "tests.wire", "--script", str(script)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert model.stdout is not None
    url = model.stdout.readline().split()[-1]
    installation = Installation(folder, OPENAI_BASE_URL=url)
    server = installation.server("bench")
    try:
        server.start()
        measure(installation, server, model, answers, chunks)
    finally:
        installation.close()
        model.kill()


def measure(
    installation: Installation,
    server: Server,
    model: "subprocess.Popen[str]",
    answers: int,
    chunks: int,
) -> None:
    installation.manage("member", "add", "owner", "--password-env", "PASSWORD")
    person = Person(installation, MODEL)
    person.sign_in(server)
    ask(person, server)  # imports, caches and the first connection
    assert server.process is not None
    before, model_before = cpu_seconds(server.process.pid), cpu_seconds(model.pid)
    with ThreadPoolExecutor(answers) as tabs:
        seen = list(tabs.map(lambda _: ask(person, server), range(answers)))
    used = cpu_seconds(server.process.pid) - before
    floor = cpu_seconds(model.pid) - model_before
    thousands = answers * chunks / 1000
    print(f"{answers} answers of {chunks} chunks, {1000 // CHUNK_MS} a second each")
    print(f"CPU: {1000 * used / thousands:.0f} ms per 1000 chunks")
    print(f"  {used / floor:.1f} times the CPU of the model server that sends them")
    print(
        f"First words after {median(a.first_text for a in seen):.2f} s (median), from the post on"
    )
    expected = chunks * CHUNK_MS / 1000
    late = max(a.whole for a in seen) - expected
    print(f"The last tab was whole {late:.1f} s after {expected:.1f} s of streaming")
    print(f"Memory: {resident_mb(server.process.pid):.0f} MB resident")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relay", description=__doc__)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--chunks", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(options.answers, options.chunks, Path(folder))


if __name__ == "__main__":
    main()
