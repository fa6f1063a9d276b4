"""A real SMTP server in a thread: it stores mails, or refuses everything."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session


class PostOffice:
    """The mails in order. `answer` is the reply to each mail, `refuses` the reply to an address."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.answer = "250 Taken"
        self.asked = 0
        self.refuses: dict[str, str] = {}
        self.refused = 0

    async def handle_RCPT(  # noqa: N802
        self,
        _server: SMTP,
        _session: Session,
        envelope: Envelope,
        address: str,
        _options: list[str],
    ) -> str:
        if address in self.refuses:
            self.refused += 1
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.asked += 1
        if self.answer.startswith("250"):
            content: Any = envelope.content
            mail: Any = message_from_bytes(content, policy=policy.default)
            self.mails.append(mail)
        return self.answer


@contextmanager
def post_office(settings: Any) -> Iterator[PostOffice]:
    """The server, with settings that use it."""
    office = PostOffice()
    port = free_port()
    controller = Controller(office, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        lead_to(settings, port)
        yield office
    finally:
        controller.stop()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def lead_to(settings: Any, port: int) -> None:
    settings.SENDS_MAIL = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    settings.DEFAULT_FROM_EMAIL = "countersign@chat.example"
    settings.PUBLIC_URL = "https://chat.example"
