"""What a person would do in each scenario, done with the operations of this project and a browser
that agrees."""

import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from asgiref.sync import sync_to_async

from chatapp.models import Member
from mcpconfig.models import IdentityProvider, OAuthAttempt, Service, ToolDefinition
from mcpconfig.oauth.company.identity_tokens import parse_id_token
from mcpconfig.oauth.company.sign_in import store_sign_in
from mcpconfig.oauth.servers import client_metadata
from mcpconfig.oauth.sign_in import begin, finish
from mcpconfig.operations.resources import get_prompt, list_prompts, list_resources, read_resource
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.operations.tools import call_tool
from mcpconfig.secrets import credentials
from mcpconfig.values.acting import Acting
from mcpconfig.values.arguments import describe_mismatch, drop_refused_nulls
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import CallOutcome, InputRequired, TaskStarted

from .answers import agrees, example
from .browser import browse

BASE_URL = "http://localhost:6740"
SESSION = "the-session-of-this-browser"
# A service that asks again and again is given up on, as a person would.
MOST_SIGN_INS = 3
MOST_ROUNDS = 5
# Its tool is there to be read: the server would not run it.
ONLY_LISTS = "json-schema-ref-no-deref"

# One and the same, in the two versions of the suite.
COMPANY = ("auth/cross-app-access-complete-flow", "auth/enterprise-managed-authorization")

Authentication = Service.Authentication
Came = TypeVar("Came")


@dataclass(slots=True)
class Client:
    """One person, one service, and the context of the scenario."""

    scenario: str
    context: dict[str, Any]
    service: Service
    person: Acting

    @classmethod
    async def to(cls, url: str) -> Self:
        scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
        context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
        if scenario == "auth/basic-cimd":
            # The suite takes the client's document for ours at this one address only.
            client_metadata.PATH = "/client-metadata.json"
        service = await Service.objects.acreate(
            name="conformance",
            url=url,
            authentication=_authentication(scenario),
            allows_private_addresses=True,
            client_id=context.get("client_id", ""),
            visibility="everyone",
        )
        secret = context.get("client_secret") or context.get("private_key_pem")
        if secret:
            await sync_to_async(credentials.set_client_secret)(service, secret)
        member = await Member.objects.acreate(username="ada")
        if service.authentication == Authentication.COMPANY:
            await sync_to_async(sign_in_at_company)(service, member, context)
        return cls(scenario, context, service, Acting.of(member))

    async def do_what_the_scenario_wants(self) -> None:
        tools = {tool.name: tool for tool in await self._tools()}
        for name, arguments in self._calls(tools):
            await self._call(tools[name], arguments)
        if self.scenario == "http-standard-headers":
            await self._read()
        if self.scenario == "auth/authorization-server-migration":
            await self._tools()

    def _calls(self, tools: dict[str, ToolDefinition]) -> list[tuple[str, dict[str, Any]]]:
        """Return the calls that the suite requires; otherwise each tool once, in the service's
        order."""
        if self.scenario == ONLY_LISTS:
            return []
        asked = self.context.get("toolCalls")
        if asked:
            return [(call["name"], call["arguments"]) for call in asked]
        calls = {name: example(tool.input_schema) for name, tool in tools.items()}
        if "json_schema_echo" in tools:
            schema = tools["json_schema_2020_12_tool"].input_schema
            calls["json_schema_echo"] = {"schema": schema}
        return list(calls.items())

    async def _tools(self) -> list[ToolDefinition]:
        return await self._signing_in(lambda: fetch_tools(self.service, acting=self.person))

    async def _call(self, tool: ToolDefinition, arguments: dict[str, Any]) -> None:
        """Check and call the tool as the product does, and continue the call as long as the
        service asks questions first. A handshake-era service asks during the call."""
        exact = drop_refused_nulls(json.dumps(arguments), tool.input_schema)
        if problem := describe_mismatch(exact, tool.input_schema):
            raise SystemExit(f"The product would not send these arguments: {problem}")
        arguments = json.loads(exact)

        async def sent(**answered: Any) -> CallOutcome | InputRequired | TaskStarted:
            return await call_tool(
                self.service, tool, arguments, acting=self.person, on_question=agrees, **answered
            )

        outcome = await self._signing_in(sent)
        for _ in range(MOST_ROUNDS):
            if not isinstance(outcome, InputRequired):
                return
            answers = {request.key: await agrees(request) for request in outcome.requests}
            outcome = await sent(answers=answers, request_state=outcome.request_state)
        raise SystemExit("The service does not stop asking.")

    async def _read(self) -> None:
        for resource in await list_resources(self.service, acting=self.person):
            await read_resource(self.service, resource.uri, acting=self.person)
        for prompt in await list_prompts(self.service, acting=self.person):
            await get_prompt(self.service, prompt.name, {}, acting=self.person)

    async def _signing_in(self, act: Callable[[], Awaitable[Came]]) -> Came:
        """Run the action; if a sign-in is needed first, sign in and run it again."""
        for _ in range(MOST_SIGN_INS):
            try:
                return await act()
            except OperationError as error:
                if error.kind != "sign_in_needed" or not self._signs_in:
                    raise
                await self._sign_in()
        return await act()

    @property
    def _signs_in(self) -> bool:
        return self.service.authentication == Authentication.OAUTH_USER

    async def _sign_in(self) -> None:
        request = await begin(self.service, self.person, session_key=SESSION, base_url=BASE_URL)
        returned = await browse(request.url)
        await finish(self.service, self.person, returned, session_key=SESSION)


def sign_in_at_company(service: Service, member: Member, context: dict[str, str]) -> None:
    """The suite has no sign-in page: it provides the ID token, which is parsed and stored like any
    other."""
    provider = IdentityProvider.objects.create(
        name="company",
        issuer=context["idp_issuer"],
        client_id=context["idp_client_id"],
        allows_private_addresses=True,
    )
    service.identity_provider = provider
    service.save()
    attempt = OAuthAttempt(
        service=service,
        person=member,
        method="none",
        token_endpoint=context["idp_token_endpoint"],
    )
    store_sign_in(provider, attempt, parse_id_token(context["idp_id_token"], provider), refresh="")


def _authentication(scenario: str) -> str:
    if scenario in COMPANY:
        return Authentication.COMPANY
    if "client-credentials" in scenario:
        return Authentication.CLIENT_CREDENTIALS
    if scenario.startswith("auth/"):
        return Authentication.OAUTH_USER
    return Authentication.NONE
