"""The values of a check of an address before a service is added: its steps, and what it found."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from .results import RejectedTool, Tool

StepName = Literal[
    "address", "transport", "era", "challenge", "registration", "name", "tools", "tokens"
]
# "later" is a step that cannot be checked yet: an earlier one failed, or nobody has signed in.
StepState = Literal["passed", "failed", "later"]

# A service cannot be used while one of these fails.
_ESSENTIAL = ("address", "transport", "era")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStep:
    """One step of the check. `raw` is the answer of the server, `fix` says what to do."""

    name: StepName
    state: StepState
    detail: str
    raw: str = ""
    fix: str = ""
    milliseconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """What the check found. `authentication` is the sign-in that the service asks for, or empty if
    that is unknown. `tools` is None if they could not be listed."""

    steps: tuple[ProbeStep, ...]
    name: str = ""
    title: str = ""
    authentication: str = ""
    scopes: str = ""
    redirect_uri: str = ""
    tools: tuple[Tool, ...] | None = None
    left_out: tuple[RejectedTool, ...] = ()
    fresh_seconds: float = 0.0
    milliseconds: int = 0

    def get_step(self, name: StepName) -> ProbeStep | None:
        return next((step for step in self.steps if step.name == name), None)

    @property
    def passed(self) -> int:
        return sum(step.state == "passed" for step in self.steps)

    @property
    def failed(self) -> tuple[ProbeStep, ...]:
        return tuple(step for step in self.steps if step.state == "failed")

    @property
    def blocking(self) -> ProbeStep | None:
        """The first failed step without which nobody can use the service."""
        return next((step for step in self.failed if step.name in _ESSENTIAL), None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        tools = value["tools"]
        return cls(
            **value
            | {
                "steps": tuple(ProbeStep(**step) for step in value["steps"]),
                "tools": None if tools is None else tuple(Tool(**tool) for tool in tools),
                "left_out": tuple(RejectedTool(**tool) for tool in value["left_out"]),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A client that the check registered at an authorization server. `answer` is the server's
    answer and may have a secret."""

    issuer: str
    redirect_uri: str
    scope: str
    answer: dict[str, Any] = field(repr=False)
