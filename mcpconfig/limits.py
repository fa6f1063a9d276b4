"""The bounds on what a service may send, on the wire and in what is kept of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """One set for all services: a limit that an admin must tune is a limit that was set wrong."""

    connect_seconds: float = 5.0
    opening_seconds: float = 15.0
    goodbye_seconds: float = 2.0
    addresses_tried: int = 4

    response_bytes: int = 4 * 1024 * 1024
    event_bytes: int = 1024 * 1024
    events: int = 1_000

    pages: int = 50
    tools: int = 1_000
    cursor_characters: int = 4_096
    listing_bytes: int = 2 * 1024 * 1024
    description_characters: int = 16_384
    schema_bytes: int = 64 * 1024
    schema_depth: int = 32
    schema_nodes: int = 5_000

    result_bytes: int = 1024 * 1024
    result_blocks: int = 1_000
    result_depth: int = 100

    entries: int = 5_000
    prompt_arguments: int = 100
    uri_characters: int = 8_192
    resource_bytes: int = 2 * 1024 * 1024

    log_messages: int = 50
    log_characters: int = 500
    instructions_characters: int = 500

    traced_body_bytes: int = 16 * 1024
    traced_exchanges: int = 500

    fresh_seconds: float = 300.0
    fresh_seconds_least: float = 10.0
    fresh_seconds_most: float = 86_400.0


LIMITS = Limits()
