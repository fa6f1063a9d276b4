"""Hostile behaviours and their outcomes: the misdeed, the kind of the failure, the threat. The
names of the threats are those of docs/threats.md.

Each row shows one way of carrying out its threat.
"""

# Misdeed at the call, kind of the failure, threat. All of these leave the outcome unknown.
UNKNOWN = """
html not_mcp malformed-answer
garbage protocol malformed-answer
h400 not_mcp malformed-answer
h401_bare sign_in_needed resend-after-sign-in
h403 forbidden resend-after-sign-in
h404 not_mcp malformed-answer
h405 not_mcp malformed-answer
h429_bare rate_limited malformed-answer
h503 server_error malformed-answer
h500 server_error malformed-answer
h502 server_error malformed-answer
h204 not_mcp malformed-answer
accepted protocol malformed-answer
redirect configuration protocol-misuse
redirect_here configuration resend-after-sign-in
hang timeout service-hangs
drip timeout slow-or-endless-stream
notifications too_large slow-or-endless-stream
notification_only timeout malformed-answer
request_only timeout malformed-answer
drop_at_once server_error connection-lost-mid-call
drop_in_body server_error connection-lost-mid-call
drop_in_stream server_error connection-lost-mid-call
half_closed server_error connection-lost-mid-call
closed_before_headers server_error connection-lost-mid-call
cut_at_the_first_byte server_error connection-lost-mid-call
cut_in_the_headers server_error connection-lost-mid-call
cut_in_the_body server_error connection-lost-mid-call
cut_before_the_last_byte server_error connection-lost-mid-call
giant too_large oversized-answer
giant_announced too_large oversized-answer
deep too_large oversized-answer
large_cut too_large oversized-answer
large_two too_large oversized-answer
large_beyond too_large oversized-answer
depth protocol oversized-answer
digits protocol oversized-answer
blocks_wrong protocol oversized-answer
bomb protocol compression-bomb
bomb_deflate protocol compression-bomb
bomb_br protocol compression-bomb
bomb_zstd protocol compression-bomb
bomb_twice protocol compression-bomb
bomb_hidden protocol compression-bomb
bomb_unnamed protocol compression-bomb
wrong_id protocol protocol-misuse
id_other protocol protocol-misuse
id_twice protocol protocol-misuse
id_null protocol malformed-answer
id_float protocol malformed-answer
id_list protocol malformed-answer
empty protocol malformed-answer
not_utf8 protocol malformed-answer
utf16 protocol malformed-answer
plain_text not_mcp malformed-answer
no_type not_mcp malformed-answer
batch protocol malformed-answer
junk_behind protocol malformed-answer
old_version protocol malformed-answer
error_wrong protocol malformed-answer
result_list protocol malformed-answer
result_null protocol malformed-answer
result_wrong protocol malformed-answer
result_unknown protocol malformed-answer
block_unknown protocol malformed-answer
headers_endless protocol oversized-answer
headers_many protocol oversized-answer
header_endless protocol oversized-answer
headers_slow timeout slow-or-endless-stream
headers_folded protocol oversized-answer
header_nul protocol malformed-answer
interim_flood too_large slow-or-endless-stream
hints_flood too_large slow-or-endless-stream
upgrade protocol malformed-answer
not_http server_error malformed-answer
binary protocol malformed-answer
status_999 server_error malformed-answer
status_text protocol malformed-answer
chunk_dust too_large slow-or-endless-stream
chunk_names protocol oversized-answer
chunk_size_wrong protocol malformed-answer
chunk_size_huge too_large oversized-answer
trailers_endless protocol oversized-answer
length_huge too_large oversized-answer
length_absurd protocol oversized-answer
length_negative protocol malformed-answer
length_twice protocol malformed-answer
length_short protocol malformed-answer
length_and_chunked timeout malformed-answer
transfer_gzip protocol compression-bomb
body_slow timeout slow-or-endless-stream
stream_comments too_large slow-or-endless-stream
stream_blank too_large slow-or-endless-stream
stream_returns too_large slow-or-endless-stream
stream_progress too_large slow-or-endless-stream
stream_changes too_large slow-or-endless-stream
stream_pings too_large slow-or-endless-stream
stream_names too_large slow-or-endless-stream
stream_event_heavy too_large protocol-misuse
stream_event_endless too_large slow-or-endless-stream
stream_line_endless too_large protocol-misuse
stream_not_utf8 protocol malformed-answer
stream_not_json protocol malformed-answer
stream_dust too_large oversized-answer
stream_empty server_error connection-lost-mid-call
stream_storm too_large protocol-misuse
stream_retry_far timeout protocol-misuse
stream_retry_absurd protocol protocol-misuse
task_without_an_id protocol protocol-misuse
task_in_no_state protocol protocol-misuse
stream_id_heavy server_error slow-or-endless-stream
"""
DEFINITE = """
h401 sign_in_needed resend-after-sign-in
h403_challenge forbidden resend-after-sign-in
h429 rate_limited malformed-answer
h503_wait server_error malformed-answer
header_mismatch rpc_error resend-after-sign-in
no_such_tool rpc_error malformed-answer
error_long rpc_error oversized-answer
large_refused rpc_error oversized-answer
version protocol protocol-version-changes
asks_sampling protocol protocol-misuse
asks_oddly protocol protocol-misuse
asks_inside protocol protocol-misuse
asks_much protocol endless-list
asks_at_length protocol endless-list
asks_with_a_load protocol oversized-answer
session_letters protocol protocol-misuse
session_long protocol protocol-misuse
session_twice protocol protocol-misuse
session_version protocol protocol-version-changes
session_shape protocol malformed-answer
"""
HARMLESS = """
trailing_junk malformed-answer
answer_twice protocol-misuse
stream_odd_notes protocol-misuse
session_good protocol-version-changes
blocks_thousands oversized-answer
blocks_wrong_many oversized-answer
dust_objects oversized-answer
dust_numbers oversized-answer
dust_lists oversized-answer
dust_in_quotes oversized-answer
blocks_many oversized-answer
large_text oversized-answer
large_rows oversized-answer
large_event oversized-answer
large_notes oversized-answer
long_text oversized-answer
long_commas oversized-answer
keys_twice malformed-answer
nul malformed-answer
surrogate malformed-answer
infinite malformed-answer
nan malformed-answer
listing_h500 list-fails-after-call
asks protocol-misuse
task_for_ever protocol-misuse
task_in_a_hurry protocol-misuse
"""
LISTINGS = """
listing_endless too_large endless-list
listing_cycle too_large endless-list
listing_pair too_large endless-list
listing_cursor too_large endless-list
listing_heavy too_large endless-list
listing_unnamed protocol malformed-answer
"""
MODEST_LISTINGS = """
listing_flood endless-list
listing_bombs hostile-schema
listing_redos hostile-schema
listing_doubling hostile-schema
listing_ring hostile-schema
"""

# The same two fates of a call that is under way at a server of the handshake era.
HANDSHAKE_UNKNOWN = """
hang timeout service-hangs
drop_at_once server_error connection-lost-mid-call
drop_in_body server_error connection-lost-mid-call
drop_in_stream server_error connection-lost-mid-call
half_closed server_error connection-lost-mid-call
stream_empty server_error connection-lost-mid-call
h500 server_error malformed-answer
h401_bare sign_in_needed resend-after-sign-in
h403 forbidden resend-after-sign-in
redirect configuration protocol-misuse
redirect_here configuration resend-after-sign-in
giant too_large oversized-answer
bomb protocol compression-bomb
stream_progress too_large slow-or-endless-stream
stream_comments too_large slow-or-endless-stream
stream_event_heavy too_large protocol-misuse
stream_line_endless too_large protocol-misuse
wrong_id protocol protocol-misuse
id_null protocol malformed-answer
garbage protocol malformed-answer
h400 not_mcp malformed-answer
h404 not_mcp malformed-answer
"""
HANDSHAKE_DEFINITE = """
h401 sign_in_needed resend-after-sign-in
h429 rate_limited malformed-answer
no_such_tool rpc_error malformed-answer
"""
# And over HTTP+SSE: where its POST is answered, or on the stream that was open before it.
SSE_UNKNOWN = """
hang timeout service-hangs
says_nothing timeout service-hangs
drop_at_once server_error connection-lost-mid-call
closed_before_headers server_error connection-lost-mid-call
closes server_error connection-lost-mid-call
aborts server_error connection-lost-mid-call
breaks_off server_error connection-lost-mid-call
h500 server_error malformed-answer
h401_bare sign_in_needed resend-after-sign-in
h403 forbidden resend-after-sign-in
h429_bare rate_limited malformed-answer
redirect configuration protocol-misuse
redirect_here configuration resend-after-sign-in
giant_announced too_large oversized-answer
floods_progress too_large slow-or-endless-stream
floods_changes too_large slow-or-endless-stream
floods_comments too_large slow-or-endless-stream
heavy_event protocol protocol-misuse
endless_line protocol protocol-misuse
other_id protocol protocol-misuse
no_json protocol malformed-answer
h400 not_mcp malformed-answer
h404 not_mcp malformed-answer
"""
SSE_DEFINITE = """
h401 sign_in_needed resend-after-sign-in
h429 rate_limited malformed-answer
"""


def rows(table: str) -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in table.strip().splitlines()]
