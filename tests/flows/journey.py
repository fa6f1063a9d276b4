"""A person's journey through one story, whatever happens to the servers on the way."""

import re
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from tests.dom import Tab

from .person import THREAD, Person, find_card, find_conversation_id, is_over, states
from .server import Installation, Server, database, eventually
from .story import World

STORY_SECONDS = 150


@dataclass(slots=True, kw_only=True)
class Journey:
    """What one person did and saw. Each step looks at the page first, as a person does."""

    person: Person
    world: World
    verb: str
    server: Server
    spare: Server | None = None
    name: str = field(default_factory=lambda: f"thing{uuid.uuid4().hex[:10]}")
    client_id: uuid.UUID = field(default_factory=uuid.uuid4)
    conversation: str = ""
    deaths: int = 0
    messages_sent: int = 0
    decisions: int = 0
    always_says: str = ""
    saw: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return f"{self.verb} {self.name}"

    @property
    def executions(self) -> int:
        return self.world.executions(self.name)

    def to_the_end(self) -> Tab:
        """Go on, step by step, until the turn is over; returns the page."""
        ended: list[Tab] = []

        def step() -> bool:
            self._mourn()
            try:
                page = self._act()
            except httpx2.TransportError:
                return False
            ended.extend([page] if page is not None and is_over(page) else [])
            return bool(ended)

        eventually(step, f"the end of {self.text}; saw {self.saw}", STORY_SECONDS)
        return ended[0]

    def _mourn(self) -> None:
        """When the server is gone: go on at the other one, or start it again with the same data."""
        if self.server.is_alive:
            return
        assert self.server.code == -signal.SIGKILL, self.server.log[-3_000:]
        self.deaths += 1
        self.server.end()
        if self.spare is not None:
            self.server, self.spare = self.spare, None
        else:
            self.server.start()

    def _act(self) -> Tab | None:
        if not self.conversation:
            self._send()
            return None
        page = self.person.page(self.server, self.conversation)
        assert self.text in page.text(THREAD), "An accepted message is lost."
        match find_card(page):
            case "approval":
                self._saw("approval")
                self.decisions += 1
                self.person.answer(self.server, page, {"decision": "run"})
            case "question":
                self._saw("question")
                fields = {"action": "accept", "v0-name": "Ada"}
                self.person.answer(self.server, page, fields)
            case "sign-in":
                self._saw("sign-in")
                self.person.connect(self.server, page)
            case "unknown":
                self._saw("unknown")
                assert "outcome unknown" in page.text(THREAD)
                # The person looks in the service, which is what the card asks for.
                verdict = self.always_says or ("worked" if self.executions else "again")
                self.verdicts.append(verdict)
                self.person.answer(self.server, page, {"verdict": verdict})
            case _:
                self._saw(",".join(states(page)))
        return page

    def _send(self) -> None:
        """Send, and send again what was not answered: the same client id is the same message."""
        self.messages_sent += 1
        answer = self.person.send(self.server, self.text, self.client_id)
        self.conversation = find_conversation_id(answer)

    def _saw(self, what: str) -> None:
        if not self.saw or self.saw[-1] != what:
            self.saw.append(what)

    def said(self, page: Tab) -> list[str]:
        """The assistant's own words."""
        return [
            mask_changing_values(each.get_text(" "), self.name)
            for each in page.soup.select(".prose")
        ]

    def told(self, page: Tab) -> str:
        """The conversation as it reads, without what differs from one telling to the next."""
        return mask_changing_values(page.text(THREAD), self.name)


def mask_changing_values(text: str, name: str) -> str:
    text = text.replace(name, "NAME")
    text = re.sub(r",? \d+\.\d s\b", "", text)  # a call that was quick shows no time
    text = re.sub(r"\b\d{1,2} [A-Z][a-z]{2}\b", "DATE", text)  # a story may be told over midnight
    return re.sub(r"\b\d\d:\d\d\b", "TIME", text)


@contextmanager
def installation(kind: str, folder: Path, world: World, **more: str) -> Iterator[Installation]:
    """An installation with one member and one service, and nothing started."""
    with database(kind, folder) as url:
        made = Installation(folder, DATABASE_URL=url, OPENAI_BASE_URL=world.model.url, **more)
        try:
            made.set_up(world.service_url)
            yield made
        finally:
            made.close()
