"""Finds tools by words and loads them, so that a long list of tools need not be sent whole."""

from django.utils.translation import gettext_noop
from pydantic import BaseModel, Field

from chatapp.tools.blueprint import IN_CHAT, CoreTool, Documentation, Example, Strict
from chatapp.tools.context import Context, ToolError
from chatapp.tools.tool_search import search_tools

from . import FIND_TOOLS

MOST = 10
SHOWN_DESCRIPTION = 300


class Input(Strict):
    query: str = Field(
        description="What the tool should do, in a few words, such as “list open invoices”.",
        min_length=1,
        max_length=500,
    )
    limit: int = Field(default=5, ge=1, le=MOST, description="How many tools to load at most.")


class Found(BaseModel):
    name: str
    description: str


class Output(BaseModel):
    tools: list[Found]
    more: int = Field(description="How many others fit less well.")


def read(context: Context, asked: Input) -> list[str]:
    return search_tools(asked.query, context.catalogue)


def handle(context: Context, asked: Input) -> Output:
    if context.turn is None:
        raise ToolError(message="Tools can be loaded in a chat only.")
    names: list[str] = context.prepared or []
    best = names[: asked.limit]
    known = list(context.turn.loaded_tools)
    context.turn.loaded_tools = [*known, *(name for name in best if name not in known)]
    context.turn.save(update_fields=["loaded_tools"])
    tools = [
        Found(name=name, description=context.catalogue[name].description[:SHOWN_DESCRIPTION])
        for name in best
    ]
    return Output(tools=tools, more=len(names) - len(best))


def render_text(output: Output) -> str:
    if not output.tools:
        return "No tool fits these words. Try others, or do without."
    lines = [f"- {tool.name}: {tool.description}" for tool in output.tools]
    more = f"\n{output.more} more fit less well." if output.more else ""
    return "These tools are loaded and can be called now:\n" + "\n".join(lines) + more


TOOL = CoreTool(
    name=FIND_TOOLS,
    title=gettext_noop("Find tools"),
    description=(
        "Find tools by what they do, and load them so that you can call them. Only the tools that "
        "you were given or loaded can be called. Use it whenever a task needs something that your "
        "tools do not offer, before you say that you cannot do it."
    ),
    input=Input,
    output=Output,
    risk="low",
    risk_reason=gettext_noop("It only reads the list of tools."),
    modes=IN_CHAT,
    handler=handle,
    read=read,
    render_text=render_text,
    documentation=Documentation(
        examples=(
            Example(
                input={"query": "open pull requests of a repository", "limit": 5},
                output={
                    "tools": [
                        {"name": "github_list_pull_requests", "description": "List pull requests."}
                    ],
                    "more": 3,
                },
            ),
        ),
        limitations="It compares words, and finds among the tools that the chat may use.",
        limits=f"{MOST} tools at a time, {SHOWN_DESCRIPTION} characters of each description.",
        rights="Every member. It is offered only where the tools are too many to be told whole.",
        errors="Where nothing fits it says so, and loads nothing.",
        clients="What it loads can be called from the next step on, until the answer is finished.",
    ),
)
