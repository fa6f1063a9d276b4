"""The client that the conformance suite starts: the operations and OAuth of this project, for one
scenario.

python -m tests.conformance.driver URL
"""

import asyncio
import sys

import django

django.setup()

from .client import Client  # noqa: E402


async def main(url: str) -> None:
    client = await Client.to(url)
    await client.do_what_the_scenario_wants()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
