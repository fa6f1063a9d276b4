"""What the chat stores."""

from .access_token import AccessToken
from .app import App, AppContents
from .attachment import Attachment, File
from .conversation import Conversation, Message, Part
from .guidance import Guidance
from .log import AppendOnly, LogEntry, LogHead
from .member import Member, SignInLink
from .memory import Memory
from .notebook import Note
from .person_signal import PersonSignal
from .plan import Plan
from .policy import Consent, HousePolicy, PolicyRule, PolicyTest, ToolLimit
from .provider import ChatModel, ModelProvider
from .question import Question
from .reminder import MailPreference, Reminder
from .remote_task import RemoteTask
from .review import Review
from .second_signature import SecondSignature, StandIn
from .summary import Summary
from .tool_call import Approval, Permit, ToolCall
from .tool_switch import ToolSwitch
from .trial import Trial
from .turn import JournalEvent, Step, Turn
from .usage import Allowance, UsageOfDay

__all__ = [
    "AccessToken",
    "Allowance",
    "App",
    "AppContents",
    "AppendOnly",
    "Approval",
    "Attachment",
    "ChatModel",
    "Consent",
    "Conversation",
    "File",
    "Guidance",
    "HousePolicy",
    "JournalEvent",
    "LogEntry",
    "LogHead",
    "MailPreference",
    "Member",
    "Memory",
    "Message",
    "ModelProvider",
    "Note",
    "Part",
    "Permit",
    "PersonSignal",
    "Plan",
    "PolicyRule",
    "PolicyTest",
    "Question",
    "Reminder",
    "RemoteTask",
    "Review",
    "SecondSignature",
    "SignInLink",
    "StandIn",
    "Step",
    "Summary",
    "ToolCall",
    "ToolLimit",
    "ToolSwitch",
    "Trial",
    "Turn",
    "UsageOfDay",
]
