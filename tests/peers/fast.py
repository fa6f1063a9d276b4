"""A server made with FastMCP, as most servers of Python are. Run with that library's own Python:

.../python tests/peers/fast.py PORT
"""

import sys

import fastmcp  # type: ignore[import-not-found]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def note() -> str:
    return "Bring milk."


def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}."


def main() -> None:
    server = fastmcp.FastMCP("fast", instructions="Adds numbers.")
    server.tool(add)
    server.resource("note://first")(note)
    server.prompt(greet)
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)


if __name__ == "__main__":
    main()
