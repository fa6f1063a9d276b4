"""The model server on its own: `python -m tests.wire --port N --script FILE.json`.

Another process uses the printed address as OPENAI_BASE_URL, and without its `/v1` as the base URL
of the other providers; `/_wire/requests`, `/_wire/stats` and POST `/_wire/script` show and set what
tests want to know.
"""

import argparse
import asyncio
from pathlib import Path

from .script import read_script
from .server import wire_server


async def serve(port: int, script: Path | None) -> None:
    async with wire_server(read_script(script) if script else (), port) as server:
        print(f"Wire server on {server.url}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.wire", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path)
    options = parser.parse_args()
    try:
        asyncio.run(serve(options.port, options.script))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
