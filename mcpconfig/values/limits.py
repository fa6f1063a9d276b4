"""The limits on what a service may send and on what is stored of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """One set of limits for all services. None of them is a setting."""

    connect_seconds: float = 5.0
    opening_seconds: float = 15.0
    goodbye_seconds: float = 2.0
    addresses_tried: int = 4
    requests: int = 300
    connections: int = 10
    reconnections: int = 5
    push_streams: int = 3

    read_bytes: int = 8 * 1024
    head_bytes: int = 128 * 1024
    refusal_bytes: int = 4 * 1024
    response_bytes: int = 4 * 1024 * 1024
    discarded_bytes: int = 64 * 1024 * 1024
    discarded_pieces: int = 80_000
    discarded_values: int = 500_000
    named_bytes: int = 64 * 1024
    named_seconds: float = 5.0
    pieces: int = 20_000
    values: int = 80_000
    asked_back: int = 20
    entries_at_once: int = 3_000
    event_bytes: int = 1024 * 1024
    events: int = 1_000
    event_lines: int = 20_000

    pages: int = 50
    tools: int = 1_000
    cursor_characters: int = 4_096
    listing_bytes: int = 2 * 1024 * 1024
    listing_wire_bytes: int = 4 * 1024 * 1024
    description_characters: int = 16_384
    schema_bytes: int = 64 * 1024
    schema_depth: int = 32
    schema_nodes: int = 5_000

    result_bytes: int = 1024 * 1024
    result_blocks: int = 1_000

    entries: int = 5_000
    prompt_arguments: int = 100
    uri_characters: int = 8_192
    resource_bytes: int = 2 * 1024 * 1024

    questions: int = 10
    question_characters: int = 4_096
    question_seconds: float = 900.0
    form_fields: int = 50
    form_options: int = 200
    state_characters: int = 256 * 1024
    task_id_characters: int = 500
    poll_seconds: float = 5.0
    poll_seconds_least: float = 1.0
    poll_seconds_most: float = 3_600.0

    log_messages: int = 50
    log_characters: int = 500
    instructions_characters: int = 500

    traced_messages: int = 50

    fresh_seconds: float = 300.0
    fresh_seconds_least: float = 10.0
    fresh_seconds_most: float = 86_400.0


LIMITS = Limits()
