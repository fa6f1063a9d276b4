"""How tests try a tool: the form of its page, filled in and sent, the yes that it asks for."""

from dataclasses import dataclass
from typing import Any, Self

from django.core.signing import Signer
from django.test import Client
from django.urls import reverse

from chatapp.people import refused
from mcpconfig.models import Service
from tests.dom_tree import Element, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An answer of the admin as a person sees it."""

    status: int
    dom: Element
    location: str = ""

    @classmethod
    def of(cls, response: Any) -> Self:
        return cls(
            status=response.status_code,
            dom=parse(response.content.decode()),
            location=response.headers.get("Location", ""),
        )

    @property
    def fields(self) -> dict[str, str]:
        """What the last form of the page holds, as a browser would send it."""
        form = self.dom.with_class("try-form")[-1]
        inputs = {each["name"]: each.attributes.get("value", "") for each in form.all("input")}
        areas = {each["name"]: _typed(each) for each in form.all("textarea")}
        chosen = {
            select["name"]: option["value"]
            for select in form.all("select")
            for option in select.all("option")
            if "selected" in option
        }
        return inputs | areas | chosen

    @property
    def values(self) -> dict[str, str]:
        """What the fields for the tool's values hold, by the names of these."""
        return {name: self.fields.get(key, "") for name, key in self.keys.items()}

    @property
    def keys(self) -> dict[str, str]:
        return {
            label.text.split(" ")[0]: label["for"]
            for label in self.dom.all("label")
            if label.attributes.get("for", "").startswith("v")
        }

    @property
    def said(self) -> str:
        """The words of the page itself."""
        return self.dom.one(id="content-main").text


def _typed(area: Element) -> str:
    text = "".join(child for child in area.children if isinstance(child, str))
    return text.removeprefix("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One person's way through the pages of one tool."""

    client: Client
    service: Service
    tool: str

    @property
    def address(self) -> str:
        definition = self.service.definitions.get(name=self.tool, is_current=True)
        return reverse("admin:mcpconfig_service_try", args=[self.service.pk, definition.hash])

    def open(self, **query: str) -> Page:
        return Page.of(self.client.get(self.address, query))

    def send(self, page: Page, **changed: str) -> Page:
        """The form of this page, with some of its fields by the names of their values."""
        typed = {page.keys.get(name, name): value for name, value in changed.items()}
        return Page.of(self.client.post(self.address, page.fields | typed))

    def ask(self, **values: str) -> Page:
        """As far as to what would run, read for as long as it takes."""
        return waited(self.send(self.open(), **values))

    def run(self, **values: str) -> Page:
        """All the way: the page of what came of it."""
        asked = self.ask(**values)
        done = asked if asked.location else self.send(asked, act="run")
        assert done.status == 302, done.said
        return Page.of(self.client.get(done.location))


def waited(page: Page) -> Page:
    """As if this page had been there for longer than anybody needs to read it."""
    signer = Signer(salt="chatapp.trial.confirmed")
    for field in page.dom.all("input", name="confirmed"):
        binding, trial, shown_at = signer.unsign_object(field["value"])
        shown_at -= 2 * refused.MIN_READING_SECONDS
        field.attributes["value"] = signer.sign_object([binding, trial, shown_at])
    return page
