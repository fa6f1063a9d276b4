"""The client that the conformance suite starts: our operations and our OAuth, for one scenario.

python -m tests.conformance.driver URL
"""

import asyncio
import sys

import django

django.setup()

from tests.conformance.client import Client  # noqa: E402


async def main(url: str) -> None:
    client = await Client.to(url)
    await client.do_what_the_scenario_wants()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
