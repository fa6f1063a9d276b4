"""Stores a fact about a person for later chats. They can see, change and delete it on a page."""

from django.utils.translation import gettext_noop
from pydantic import BaseModel, Field

from chatapp.models import Memory
from chatapp.models.conversations.memory import MEMORIES_PER_PERSON, MEMORY_CHARACTERS, MemoryFull
from chatapp.tools.blueprint import ACTING, CoreTool, Documentation, Example, Strict
from chatapp.tools.context import Context, ToolError
from chatapp.tools.taint import find_taint_of_chats


class Input(Strict):
    text: str = Field(
        description="One fact, in a sentence that is clear without this chat.",
        min_length=1,
        max_length=MEMORY_CHARACTERS,
    )


class Output(BaseModel):
    id: int
    text: str
    is_new: bool = Field(description="False where it was remembered already.")


def handle(context: Context, asked: Input) -> Output:
    text = " ".join(asked.text.split())
    if not text:
        raise ToolError(field="text", message="Write down what to remember.")
    turn = context.turn  # everything that the model read in this chat counts
    try:
        fact, is_new = Memory.keep(
            context.person,
            text,
            conversation=turn.conversation if turn else None,
            tainted_by=find_taint_of_chats([turn.conversation_id]) if turn else "",
        )
    except MemoryFull:
        raise ToolError(
            message=f"{MEMORIES_PER_PERSON} facts are remembered, which is the limit. Ask the "
            "person which one to forget."
        ) from None
    return Output(id=fact.pk, text=fact.text, is_new=is_new)


def render_text(output: Output) -> str:
    done = "Remembered" if output.is_new else "This was remembered already"
    return f"{done}, as fact {output.id}: {output.text}"


TOOL = CoreTool(
    name="remember",
    title=gettext_noop("Remember"),
    description=(
        "Remember one lasting fact about this person for later chats. Only when they ask for it or "
        "clearly want it, and never passwords or other secrets."
    ),
    input=Input,
    output=Output,
    risk="medium",
    risk_reason=gettext_noop("The memory is kept for later chats."),
    modes=ACTING,
    handler=handle,
    render_text=render_text,
    outlives_chat=True,
    documentation=Documentation(
        examples=(
            Example(
                input={"text": "Reports go out on the first Monday of a month."},
                output={
                    "id": 12,
                    "text": "Reports go out on the first Monday of a month.",
                    "is_new": True,
                },
            ),
        ),
        limitations="To change a fact, forget it and remember it again.",
        limits=f"{MEMORY_CHARACTERS} characters a fact, {MEMORIES_PER_PERSON} facts a person.",
        rights="Every member, for themselves. It asks first: a fact lasts beyond the chat, and "
        "what strangers wrote might want to be remembered.",
        errors="Refused once the limit is reached, until something is forgotten.",
        clients="The same words are kept once, so a repeated call does no harm.",
    ),
)
