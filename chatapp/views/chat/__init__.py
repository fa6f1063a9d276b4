"""Views of the chat page: conversations, messages, tools, models, attachments and results. No
answers to approvals."""
