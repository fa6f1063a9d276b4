"""What the chat stores."""

from .conversation import Conversation, Message, Part
from .member import Member, SignInLink
from .notebook import Note
from .tool_call import Approval, Permit, ToolCall
from .turn import JournalEvent, Step, Turn

__all__ = [
    "Approval",
    "Conversation",
    "JournalEvent",
    "Member",
    "Message",
    "Note",
    "Part",
    "Permit",
    "SignInLink",
    "Step",
    "ToolCall",
    "Turn",
]
