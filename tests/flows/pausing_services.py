"""The services of stories in which a call pauses: what they are to an installation, and what they
did."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.peers.authority import Authority, served_authority
from tests.peers.effects import Effects
from tests.peers.effects import application as counting
from tests.peers.errands import application as running
from tests.peers.pausing import CountedErrands, asker
from tests.peers.serving import Served
from tests.peers.vault import served_behind

from .server import Installation

# As if their tools had been listed a moment ago, and an admin had let them run.
OFFERING = (
    "from tests.turns.acts import create_offered_service; "
    "create_offered_service({name!r}, {url!r}, {tool!r}{more})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PausingServices:
    urls: dict[str, str]
    authority: Authority
    errands: CountedErrands

    def add_to(self, installation: Installation) -> None:
        tools = {"asks": "ask_thing", "pushes": "ask_thing", "errands": "errand"}
        tools["vault"] = "read_thing"
        for name, tool in tools.items():
            more = ", authentication='oauth_user'" if name == "vault" else ""
            line = OFFERING.format(name=name, url=self.urls[name], tool=tool, more=more)
            installation.manage("shell", "-c", line)

    def forget_sign_ins(self) -> None:
        """Every token that was given is refused from now on."""
        self.authority.tokens.clear()
        self.authority.refreshers.clear()


@contextmanager
def pausing_services(effects: Effects) -> Iterator[PausingServices]:
    with ExitStack() as stack:
        authority, _ = stack.enter_context(served_authority())
        behind = served_behind(authority, lambda _: counting(effects, "modern"))
        vault, _ = stack.enter_context(behind)
        vault.challenge = 'Bearer error="invalid_token"'
        errands = CountedErrands(effects)
        served = {
            "asks": asker(effects, "modern"),
            "pushes": asker(effects, "handshake"),
            "errands": running(errands),
        }
        urls = {name: stack.enter_context(Served(each)).url for name, each in served.items()}
        urls["vault"] = vault.url
        yield PausingServices(urls=urls, authority=authority, errands=errands)
