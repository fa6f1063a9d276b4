"""The rows of the chat: conversations, people, policy, turns, model providers and usage. Models
check and compute; what happens to them is in the rooms above."""

from chatapp.models.people.member import Member, PersonSignal, SignInLink
from chatapp.models.turns.tool_call import Approval, Permit, RemoteTask, Review, ToolCall

from .conversations.answer_feedback import AnswerFeedback
from .conversations.app import App, AppContents
from .conversations.attachment import Attachment, File, StoredObject
from .conversations.chat_import import ChatImport, ImportPiece, ListedChat
from .conversations.conversation import Conversation, Message, Part
from .conversations.guidance import Guidance
from .conversations.memory import Memory
from .conversations.message_draft import MessageDraft
from .conversations.notebook import Note
from .conversations.plan import Plan
from .conversations.queued_message import QueuedMessage
from .conversations.shared_link import SharedLink, SharedLinkReader
from .conversations.summary import Summary
from .model_provider import ChatModel, ModelProvider, ProviderDraft
from .people.access_token import AccessToken
from .people.directory import DirectoryAccount, DirectoryGroup, DirectoryToken
from .people.hidden_need import HiddenNeed
from .people.invitation import Invitation
from .people.notification import Notification, NotificationPreference, PushDevice, PushKey, Webhook
from .people.reminder import MailPreference, Reminder
from .people.second_factor import CodeUse
from .policy.attention_check import AttentionCheck
from .policy.audit_log import AppendOnly, LogEntry, LogHead
from .policy.policy import Consent, HousePolicy, PolicyRule, PolicyTest, ToolLimit
from .policy.policy_change import PolicyChange, PolicyEdit
from .policy.second_opinion import SecondOpinion
from .policy.second_signature import SecondSignature, StandIn
from .policy.tool_switch import ToolSwitch
from .presets.assistant import Assistant, AssistantPicture
from .presets.saved_prompt import SavedPrompt
from .projects.project import Project, ProjectMember
from .projects.project_file import ProjectFile, ProjectFileData, ProjectPassage
from .projects.search_by_meaning import EmbeddingProgress, EmbeddingSettings, PassageVector
from .task_schedule import TaskSchedule
from .turns.question import Question
from .turns.trial import Trial
from .turns.turn import JournalEvent, Step, Turn
from .usage import Allowance, UsageOfDay
from .worker import LastRun, Worker
from .write_probe import WriteProbe

__all__ = [
    "AccessToken",
    "Allowance",
    "AnswerFeedback",
    "App",
    "AppContents",
    "AppendOnly",
    "Approval",
    "Assistant",
    "AssistantPicture",
    "Attachment",
    "AttentionCheck",
    "ChatImport",
    "ChatModel",
    "CodeUse",
    "Consent",
    "Conversation",
    "DirectoryAccount",
    "DirectoryGroup",
    "DirectoryToken",
    "EmbeddingProgress",
    "EmbeddingSettings",
    "File",
    "Guidance",
    "HiddenNeed",
    "HousePolicy",
    "ImportPiece",
    "Invitation",
    "JournalEvent",
    "LastRun",
    "ListedChat",
    "LogEntry",
    "LogHead",
    "MailPreference",
    "Member",
    "Memory",
    "Message",
    "MessageDraft",
    "ModelProvider",
    "Note",
    "Notification",
    "NotificationPreference",
    "Part",
    "PassageVector",
    "Permit",
    "PersonSignal",
    "Plan",
    "PolicyChange",
    "PolicyEdit",
    "PolicyRule",
    "PolicyTest",
    "Project",
    "ProjectFile",
    "ProjectFileData",
    "ProjectMember",
    "ProjectPassage",
    "ProviderDraft",
    "PushDevice",
    "PushKey",
    "Question",
    "QueuedMessage",
    "Reminder",
    "RemoteTask",
    "Review",
    "SavedPrompt",
    "SecondOpinion",
    "SecondSignature",
    "SharedLink",
    "SharedLinkReader",
    "SignInLink",
    "StandIn",
    "Step",
    "StoredObject",
    "Summary",
    "TaskSchedule",
    "ToolCall",
    "ToolLimit",
    "ToolSwitch",
    "Trial",
    "Turn",
    "UsageOfDay",
    "Webhook",
    "Worker",
    "WriteProbe",
]
