"""A browser that follows the link to the authorization server, where the person agrees at once."""

from urllib.parse import parse_qs, urlsplit

import httpx2

from mcpconfig.oauth.sign_in import CallbackParameters


async def browse(url: str) -> CallbackParameters:
    """Return the query parameters with which the browser returns."""
    async with httpx2.AsyncClient(trust_env=False, timeout=10) as browser:
        answer = await browser.get(url)
    query = parse_qs(urlsplit(answer.headers.get("location", "")).query)
    said = {name: values[0] for name, values in query.items()}
    return CallbackParameters(
        state=said.get("state", ""),
        code=said.get("code", ""),
        error=said.get("error", ""),
        iss=said.get("iss"),
    )
