"""Another process of the same installation: it does what it is told on its standard input, one line
of JSON each, and says what came of it. Run as a module."""

import asyncio
import json
import os
import sys
from typing import Any

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "chatapp.settings"
django.setup()

from chatapp.models import Member  # noqa: E402
from mcpconfig.acting import Acting  # noqa: E402
from mcpconfig.errors import OperationError  # noqa: E402
from mcpconfig.models import Service  # noqa: E402
from mcpconfig.oauth.sign_in import Returned, begin, finish  # noqa: E402
from mcpconfig.oauth.tokens import access_token  # noqa: E402


async def act(told: dict[str, Any]) -> Any:
    service = await Service.objects.aget(name=told["service"])
    acting = Acting.of(await Member.objects.aget(username=told["person"]))
    match told["do"]:
        case "begin":
            asked = await begin(service, acting, session_key="s", base_url="http://127.0.0.1:6740")
            return asked.url
        case "finish":
            await finish(service, acting, Returned(**told["returned"]), session_key="s")
            return "connected"
        case "tokens":
            tokens = [access_token(service, acting) for _ in range(told["count"])]
            return list(await asyncio.gather(*tokens))
    raise ValueError(told["do"])


def main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            said = {"came": asyncio.run(act(json.loads(line)))}
        except OperationError as error:
            said = {"error": error.kind}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
