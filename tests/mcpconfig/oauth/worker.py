"""Another process of the same installation: it reads commands on standard input, one line of JSON
each, and prints the results. Run as a module."""

import asyncio
import json
import os
import sys
from typing import Any

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "chatapp.settings"
django.setup()

from chatapp.models import Member  # noqa: E402
from mcpconfig.models import Service  # noqa: E402
from mcpconfig.oauth.sign_in import CallbackParameters, begin, finish  # noqa: E402
from mcpconfig.oauth.tokens import get_access_token  # noqa: E402
from mcpconfig.values.acting import Acting  # noqa: E402
from mcpconfig.values.errors import OperationError  # noqa: E402


async def act(told: dict[str, Any]) -> Any:
    service = await Service.objects.aget(name=told["service"])
    acting = Acting.of(await Member.objects.aget(username=told["person"]))
    match told["do"]:
        case "begin":
            asked = await begin(service, acting, session_key="s", base_url="http://127.0.0.1:6740")
            return asked.url
        case "finish":
            await finish(service, acting, CallbackParameters(**told["returned"]), session_key="s")
            return "connected"
        case "tokens":
            tokens = [get_access_token(service, acting) for _ in range(told["count"])]
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
