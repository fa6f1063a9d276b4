"""Deletes one remembered fact about a person."""

from django.http import Http404
from django.utils.translation import gettext_noop
from pydantic import BaseModel, Field

from chatapp.models import Memory
from chatapp.tools.blueprint import ACTING, CoreTool, Documentation, Example, Strict
from chatapp.tools.context import Context, ToolError


class Input(Strict):
    id: int = Field(description="The number of the fact, as recall tells it.", ge=1, lt=2**63)
    text: str = Field(
        description="The fact's own words, so that the person sees what is deleted.",
        min_length=1,
        max_length=500,
    )


class Output(BaseModel):
    id: int
    text: str


def handle(context: Context, asked: Input) -> Output:
    try:
        fact = Memory.of(context.person, asked.id)
    except Http404:
        raise ToolError(field="id", message="There is no fact of this number.") from None
    if fact.text.casefold() != " ".join(asked.text.split()).casefold():
        raise ToolError(field="text", message=f"Fact {fact.pk} says something else: {fact.text}")
    fact.delete()
    return Output(id=asked.id, text=fact.text)


def render_text(output: Output) -> str:
    return f"Forgotten: {output.text}"


TOOL = CoreTool(
    name="forget",
    title=gettext_noop("Forget"),
    description="Permanently delete one remembered fact about this person. Recall it first.",
    input=Input,
    output=Output,
    risk="medium",
    risk_reason=gettext_noop("A deleted memory cannot be restored."),
    modes=ACTING,
    handler=handle,
    render_text=render_text,
    documentation=Documentation(
        examples=(
            Example(
                input={"id": 12, "text": "Reports go out on the first Monday of a month."},
                output={"id": 12, "text": "Reports go out on the first Monday of a month."},
            ),
        ),
        limitations="It stays in the messages of the chat in which it was told.",
        limits="One fact a call.",
        rights="Every member, their own facts only. It asks first.",
        errors="Refused where the number is unknown, or where the words are not the fact's.",
        clients="A deleted fact cannot be restored; remember it again.",
    ),
)
