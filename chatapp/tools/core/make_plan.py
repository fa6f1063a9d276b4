"""The assistant's plan: a checklist in the chat that one call creates and later calls update."""

from typing import Any, Literal, Self

from django.utils.translation import gettext_noop
from pydantic import BaseModel, Field, model_validator

from chatapp.models import Plan, Turn
from chatapp.tools.blueprint import IN_CHAT, CoreTool, Documentation, Example, Strict
from chatapp.tools.context import Context, ToolError

MOST_STEPS = 20
STEP_CHARACTERS = 200

State = Literal["open", "doing", "done"]


class Input(Strict):
    steps: list[str] = Field(
        default_factory=list, max_length=MOST_STEPS, description="A new plan, in order."
    )
    done: list[int] = Field(
        default_factory=list, max_length=MOST_STEPS, description="Numbers of steps that are done."
    )
    doing: int | None = Field(default=None, ge=1, description="The step under way.")

    @model_validator(mode="after")
    def says_something(self) -> Self:
        if not self.steps and not self.done and self.doing is None:
            raise ValueError("Give the steps of a new plan, or those that are done or under way.")
        if any(not 0 < len(step.strip()) <= STEP_CHARACTERS for step in self.steps):
            raise ValueError(f"Each step has 1 to {STEP_CHARACTERS} characters.")
        return self


class PlanStep(BaseModel):
    number: int
    text: str
    state: State


class Output(BaseModel):
    steps: list[PlanStep]


def handle(context: Context, asked: Input) -> Output:
    turn, call = context.turn, context.call
    if turn is None or call is None:
        raise ToolError(message="A plan is made in a chat only.")
    if asked.steps:
        # The call may run again after a worker has died; the plan is then the same row.
        steps = [{"text": step.strip(), "state": "open"} for step in asked.steps]
        plan = Plan(call=call, conversation_id=turn.conversation_id, steps=steps)
    else:
        plan = _load_latest(turn)
    _tick(plan.steps, asked)
    plan.save()
    if plan.call_id != call.pk:
        context.changed_plans.append(plan.call)
    return _build_output(plan)


def _load_latest(turn: Turn) -> Plan:
    """Return the latest plan on the branch that is shown. The caller holds the lease of the turn,
    so no other turn of this chat changes it."""
    shown = Plan.objects.filter(call__turn__answer__is_shown=True)
    mine = shown.filter(conversation=turn.conversation_id)
    found = mine.select_related("call__turn").last()
    if found is None:
        raise ToolError(field="steps", message="There is no plan yet: give its steps first.")
    return found


def _tick(steps: list[dict[str, Any]], asked: Input) -> None:
    for field, numbers in (("done", asked.done), ("doing", [asked.doing] if asked.doing else [])):
        if any(not 1 <= number <= len(steps) for number in numbers):
            raise ToolError(field=field, message=f"The plan has steps 1 to {len(steps)}.")
    for number, step in enumerate(steps, start=1):
        if number in asked.done:
            step["state"] = "done"
        elif number == asked.doing:
            step["state"] = "doing"
        elif asked.doing is not None and step["state"] == "doing":
            step["state"] = "open"


def _build_output(plan: Plan) -> Output:
    return Output(
        steps=[PlanStep(number=number, **step) for number, step in enumerate(plan.steps, start=1)]
    )


def render_text(output: Output) -> str:
    done = sum(step.state == "done" for step in output.steps)
    lines = [f"{step.number}. [{step.state}] {step.text}" for step in output.steps]
    return "\n".join([f"{done} of {len(lines)} steps are done.", *lines])


TOOL = CoreTool(
    name="make-plan",
    title=gettext_noop("Make a plan"),
    description=(
        "For work of several steps: show the person a checklist, then call it again with the "
        "numbers that are done or under way."
    ),
    input=Input,
    output=Output,
    risk="low",
    risk_reason=gettext_noop("It changes nothing outside this chat."),
    modes=IN_CHAT,
    handler=handle,
    render_text=render_text,
    documentation=Documentation(
        examples=(
            Example(
                input={"steps": ["Collect the invoices", "Compare them"], "doing": 1},
                output={
                    "steps": [
                        {"number": 1, "text": "Collect the invoices", "state": "doing"},
                        {"number": 2, "text": "Compare them", "state": "open"},
                    ]
                },
            ),
            Example(
                input={"done": [1], "doing": 2},
                output={
                    "steps": [
                        {"number": 1, "text": "Collect the invoices", "state": "done"},
                        {"number": 2, "text": "Compare them", "state": "doing"},
                    ]
                },
            ),
        ),
        limitations=(
            "One plan at a time: a new one is ticked from then on, and the earlier one stays in "
            "the chat as it was left. The assistant says what is done; nobody checks it."
        ),
        limits=f"{MOST_STEPS} steps of {STEP_CHARACTERS} characters.",
        rights="Every member, in their own chats. It also works in a chat that only plans.",
        errors="Refused where there is no plan to tick, or where it has no step of that number.",
        clients="It is shown where it was made, so it works in chats only.",
    ),
)
