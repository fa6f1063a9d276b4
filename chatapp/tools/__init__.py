"""The catalogue of a turn and its tool ids, and the core tools with their blueprint. What a
person switches is in `tool_menu`."""
