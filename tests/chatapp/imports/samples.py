"""Exported chats in the forms of each program, short but with the fields that real files have."""

import io
import json
import zipfile
from typing import Any

BEGUN = 1_731_000_000.25


def to_json(*chats: Any) -> bytes:
    return json.dumps(list(chats)).encode()


def to_zip(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


# --- ChatGPT -----------------------------------------------------------------------------------
def gpt_node(
    key: str,
    parent: str | None,
    role: str = "",
    *parts: Any,
    seconds: float = 0,
    name: str | None = None,
    recipient: str = "all",
    content: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, Any]:
    message = None
    if role:
        kind = "text" if all(isinstance(each, str) for each in parts) else "multimodal_text"
        message = {
            "id": key,
            "author": {"role": role, "name": name, "metadata": {}},
            "create_time": BEGUN + seconds,
            "update_time": None,
            "content": content or {"content_type": kind, "parts": list(parts)},
            "status": "finished_successfully",
            "end_turn": None,
            "weight": 1.0,
            "metadata": metadata or {},
            "recipient": recipient,
            "channel": None,
        }
    return {"id": key, "message": message, "parent": parent, "children": []}


def gpt_chat(*nodes: dict[str, Any], current: str = "", **more: Any) -> dict[str, Any]:
    chat: dict[str, Any] = {
        "title": "Ponds",
        "create_time": BEGUN,
        "update_time": BEGUN + 500,
        "mapping": {node["id"]: node for node in nodes},
        "moderation_results": [],
        "current_node": current or nodes[-1]["id"],
        "plugin_ids": None,
        "conversation_id": "672c9a10-1111-8001-9d7b-0123456789ab",
        "conversation_template_id": None,
        "gizmo_id": None,
        "is_archived": False,
        "safe_urls": [],
        "default_model_slug": "gpt-4o",
    }
    return chat | {"id": chat["conversation_id"]} | more


PICTURE = {
    "content_type": "image_asset_pointer",
    "asset_pointer": "file-service://file-AbCd",
    "size_bytes": 118_000,
    "width": 1024,
    "height": 768,
    "fovea": None,
    "metadata": None,
}
CHATGPT = gpt_chat(
    gpt_node("root", None),
    gpt_node(
        "system", "root", "system", "", metadata={"is_visually_hidden_from_conversation": True}
    ),
    gpt_node("q1", "system", "user", PICTURE, "How deep is this pond?", seconds=10),
    gpt_node("a1", "q1", "assistant", "About a metre.", seconds=20),
    gpt_node(
        "thought",
        "q1",
        "assistant",
        seconds=30,
        content={
            "content_type": "thoughts",
            "thoughts": [{"summary": "Depth", "content": "Measure it.", "finished": True}],
        },
    ),
    gpt_node(
        "call",
        "thought",
        "assistant",
        seconds=31,
        recipient="python",
        content={"content_type": "code", "language": "unknown", "text": "print(2 + 2)"},
    ),
    gpt_node(
        "result",
        "call",
        "tool",
        seconds=32,
        name="python",
        content={"content_type": "execution_output", "text": "4"},
    ),
    gpt_node(
        "recap",
        "result",
        "assistant",
        seconds=33,
        content={"content_type": "reasoning_recap", "content": "Thought for 2s"},
    ),
    gpt_node("a2", "recap", "assistant", "It is **four** metres deep.", seconds=34),
    gpt_node("q2", "a2", "user", "Thanks", seconds=40),
    gpt_node("a3", "q2", "assistant", "With pleasure.", seconds=41),
)

# --- Claude ------------------------------------------------------------------------------------
CLAUDE: dict[str, Any] = {
    "uuid": "5f0c3ad2-0000-4000-8000-00000000c1a0",
    "name": "Heron report",
    "summary": "",
    "created_at": "2025-03-01T09:30:00.123456Z",
    "updated_at": "2025-03-01T09:35:00.123456Z",
    "account": {"uuid": "9e9e9e9e-0000-4000-8000-000000000000"},
    "chat_messages": [
        {
            "uuid": "m1",
            "text": "Summarise the report.",
            "content": [
                {
                    "start_timestamp": "2025-03-01T09:30:01Z",
                    "stop_timestamp": "2025-03-01T09:30:01Z",
                    "type": "text",
                    "text": "Summarise the report.",
                    "citations": [],
                }
            ],
            "sender": "human",
            "created_at": "2025-03-01T09:30:01.000000Z",
            "updated_at": "2025-03-01T09:30:01.000000Z",
            "attachments": [
                {
                    "file_name": "herons.txt",
                    "file_size": 21,
                    "file_type": "txt",
                    "extracted_content": "Forty herons in March",
                }
            ],
            "files": [{"file_name": "herons.txt"}, {"file_name": "map.png"}],
        },
        {
            "uuid": "m2",
            "text": "",
            "content": [
                {"type": "thinking", "thinking": "Count them.", "summaries": []},
                {
                    "type": "tool_use",
                    "id": "toolu_01",
                    "name": "web_search",
                    "input": {"query": "herons"},
                    "message": "Searching",
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_01",
                    "name": "web_search",
                    "content": [{"type": "text", "text": "Found: herons", "uuid": "r"}],
                    "is_error": False,
                },
                {"type": "text", "text": "There were forty.", "citations": []},
            ],
            "sender": "assistant",
            "created_at": "2025-03-01T09:30:09.000000Z",
            "updated_at": "2025-03-01T09:30:09.000000Z",
            "attachments": [],
            "files": [],
        },
    ],
}

# --- LibreChat ---------------------------------------------------------------------------------
NO_PARENT = "00000000-0000-0000-0000-000000000000"


def libre_message(key: str, parent: str, *, is_user: bool, **more: Any) -> dict[str, Any]:
    return {
        "messageId": key,
        "parentMessageId": parent,
        "conversationId": "9501f99d-9bbb-40cb-bbb2-16d79aeceb72",
        "sender": "User" if is_user else "GPT-4",
        "text": "",
        "isCreatedByUser": is_user,
        "endpoint": "openAI",
        "unfinished": False,
        "error": False,
        "createdAt": "2024-05-28T15:00:00.000Z",
        "updatedAt": "2024-05-28T15:00:00.000Z",
        **more,
    }


_L1 = libre_message("l1", NO_PARENT, is_user=True, text="Name a bird.")
_L2 = libre_message("l2", "l1", is_user=False, text="A heron.", createdAt="2024-05-28T15:00:05Z")
_L3 = libre_message(
    "l3",
    "l1",
    is_user=False,
    createdAt="2024-05-28T15:01:00.000Z",
    content=[
        {"type": "think", "think": "Another one."},
        {
            "type": "tool_call",
            "tool_call": {
                "id": "call_1",
                "name": "birds_mcp_garden",
                "args": '{"size": "large"}',
                "type": "tool_call",
                "progress": 1,
                "output": "crane",
            },
        },
        {"type": "text", "text": "A crane."},
    ],
)
LIBRECHAT: dict[str, Any] = {
    "conversationId": "9501f99d-9bbb-40cb-bbb2-16d79aeceb72",
    "endpoint": "openAI",
    "title": "Birds",
    "exportAt": "10:00:00 GMT+0000",
    "branches": True,
    "recursive": False,
    "options": {"endpoint": "openAI", "model": "gpt-4", "promptPrefix": "Be brief."},
    "messages": [_L1, _L2, _L3],
}
LIBRECHAT_TREE = LIBRECHAT | {
    "recursive": True,
    "messages": [_L1 | {"children": [_L2 | {"children": []}, _L3 | {"children": []}]}],
}

# --- Open WebUI --------------------------------------------------------------------------------
WEBUI_ANSWER = (
    '<details type="reasoning" done="true" duration="3">\n'
    "<summary>Thought for 3 seconds</summary>\n"
    "&gt; Is it a frog?\n&gt; Yes.\n</details>\n"
    '<details type="tool_calls" done="true" id="call_7" name="find_frogs" '
    'arguments="&quot;{\\&quot;pond\\&quot;: 1}&quot;" '
    'result="&quot;two frogs&quot;" files="">\n<summary>Tool Executed</summary>\n</details>\n'
    "There are two frogs."
)
_W: dict[str, dict[str, Any]] = {
    "w1": {
        "id": "w1",
        "parentId": None,
        "childrenIds": ["w2", "w3"],
        "role": "user",
        "content": "Which frogs?",
        "timestamp": 1_740_000_000,
        "models": ["llama3.2:latest"],
        "files": [{"type": "image", "url": "data:image/png;base64,iVBORw0KGgo="}],
    },
    "w2": {
        "id": "w2",
        "parentId": "w1",
        "childrenIds": [],
        "role": "assistant",
        "content": WEBUI_ANSWER,
        "model": "llama3.2:latest",
        "modelName": "llama3.2",
        "modelIdx": 0,
        "timestamp": 1_740_000_010,
        "done": True,
    },
    "w3": {
        "id": "w3",
        "parentId": "w1",
        "childrenIds": [],
        "role": "assistant",
        "content": "None.",
        "model": "llama3.2:latest",
        "timestamp": 1_740_000_020,
        "done": True,
    },
}
OPEN_WEBUI: dict[str, Any] = {
    "id": "c0ffee00-0000-4000-8000-000000000001",
    "user_id": "u",
    "title": "Frogs",
    "chat": {
        "id": "",
        "title": "Frogs",
        "models": ["llama3.2:latest"],
        "params": {},
        "history": {"messages": _W, "currentId": "w2"},
        "messages": [_W["w1"], _W["w2"]],
        "tags": [],
        "timestamp": 1_740_000_000_123,
        "files": [],
    },
    "updated_at": 1_740_000_030,
    "created_at": 1_740_000_000,
    "share_id": None,
    "archived": False,
    "pinned": False,
    "meta": {"tags": ["frogs"]},
    "folder_id": None,
}
