"""An authorization server, a service that requires its tokens, people, and a browser for them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from asgiref.sync import sync_to_async

from chatapp.models import Member
from mcpconfig.models import IdentityProvider, OAuthGrant, Service
from mcpconfig.oauth.company import sign_in as company_sign_in
from mcpconfig.oauth.sign_in import AuthorizationRequest, CallbackParameters, begin, finish
from mcpconfig.secrets import credentials, oauth_secrets
from mcpconfig.values.acting import Acting
from tests.peers.authority import Authority, served_authority
from tests.peers.company import CLIENT, SECRET, Company, served_company
from tests.peers.serving import Served
from tests.peers.vault import Vault, served_vault

BASE_URL = "http://127.0.0.1:6740"
SESSION = "the-session-of-this-browser"

MakeService = Callable[..., Awaitable[Service]]


@dataclass
class Peers:
    """Both servers, and the requests that each received."""

    authority: Authority
    authority_served: Served
    vault: Vault
    vault_served: Served

    @property
    def asked(self) -> list[str]:
        return [arrival.path for arrival in self.authority_served.arrivals.seen]


@pytest.fixture
def peers() -> Iterator[Peers]:
    with (
        served_authority() as (authority, authority_served),
        served_vault(authority) as (vault, vault_served),
    ):
        yield Peers(authority, authority_served, vault, vault_served)


@pytest.fixture
async def service(peers: Peers, service_at: MakeService) -> Service:
    return await service_at(peers.vault.url, name="vault", authentication="oauth_user")


async def person(name: str) -> Acting:
    member = await Member.objects.acreate(username=name, email=f"{name}@example.org")
    return Acting.of(member)


@pytest.fixture
async def ada() -> Acting:
    return await person("ada")


@pytest.fixture
async def bob() -> Acting:
    return await person("bob")


async def browse(request: AuthorizationRequest) -> CallbackParameters:
    """Return the query parameters with which the person's browser returns after they agreed."""
    async with httpx2.AsyncClient(trust_env=False, timeout=5) as browser:
        answer = await browser.get(request.url)
    assert answer.status_code == 302, answer.text
    return read_back(answer.headers["location"])


def read_back(location: str) -> CallbackParameters:
    query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
    return CallbackParameters(
        state=query.get("state", ""),
        code=query.get("code", ""),
        error=query.get("error", ""),
        iss=query.get("iss"),
    )


async def start(service: Service, acting: Acting, session: str = SESSION) -> AuthorizationRequest:
    return await begin(service, acting, session_key=session, base_url=BASE_URL)


@dataclass
class Browser:
    """Signs people in from beginning to end."""

    peers: Peers
    requests: list[AuthorizationRequest] = field(default_factory=list)

    async def sign_in(self, service: Service, acting: Acting) -> OAuthGrant:
        self.peers.authority.person = acting.username
        request = await start(service, acting)
        self.requests.append(request)
        return await finish(service, acting, await browse(request), session_key=SESSION)


@pytest.fixture
async def browser(peers: Peers) -> AsyncIterator[Browser]:
    yield Browser(peers)


@dataclass
class AtCompany:
    """A company with two services that trust its identity provider, and people who sign in
    there."""

    peers: Peers
    company: Company
    provider: IdentityProvider
    services: list[Service]

    @classmethod
    async def open(cls, peers: Peers, company: Company, service_at: MakeService) -> "AtCompany":
        peers.authority.company = company
        peers.authority.know(
            {
                "client_id": company.client_there,
                "client_secret": "the-secret-there",
                "redirect_uris": ["https://unused.example/"],
                "grant_types": ["urn:ietf:params:oauth:grant-type:jwt-bearer"],
                "token_endpoint_auth_method": "client_secret_basic",
            }
        )
        provider = IdentityProvider(
            name="acme", issuer=company.url, client_id=CLIENT, allows_private_addresses=True
        )
        await provider.asave()
        oauth_secrets.encrypt_provider_secret(provider, SECRET)
        await provider.asave()
        made = cls(peers, company, provider, [])
        for name in ("vault", "archive"):
            made.services.append(await made._service(service_at, name))
        return made

    async def _service(self, service_at: MakeService, name: str) -> Service:
        service = await service_at(
            self.peers.vault.url,
            name=name,
            authentication="company",
            identity_provider=self.provider,
            client_id=self.company.client_there,
        )
        await sync_to_async(credentials.set_client_secret)(service, "the-secret-there")
        return service

    @property
    def vault(self) -> Service:
        return self.services[0]

    async def sign_in(self, acting: Acting) -> Service:
        self.company.person = acting.username
        returned = await browse(await start(self.vault, acting))
        return await self.finish(acting, returned)

    async def finish(
        self, acting: Acting, returned: CallbackParameters, session: str = SESSION
    ) -> Service:
        return await company_sign_in.finish(self.provider, acting, returned, session_key=session)


@pytest.fixture
def company() -> Iterator[Company]:
    with served_company() as served:
        yield served


@pytest.fixture
async def acme(peers: Peers, company: Company, service_at: MakeService) -> AtCompany:
    return await AtCompany.open(peers, company, service_at)
