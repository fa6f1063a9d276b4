"""Hostile behaviours and what becomes of each: the misdeed, the kind of the failure, the threat.

The numbers name the threat: A56 re-sending, A59 bombs, A60 too much, A61 slowness and floods, A62
endless lists, A63 schemas, C7 the SDK's own weak spots, F22 to F29 faults of the wire.
"""

# Misdeed at the call, kind of the failure, threat. All of these leave the outcome unknown.
UNKNOWN = """
html not_mcp F26
garbage protocol F26
h401 sign_in_needed A56
h403 forbidden A56
h429 rate_limited F26
h500 server_error F26
h502 server_error F26
h204 not_mcp F26
accepted protocol F26
redirect configuration C7
redirect_here configuration A56
hang timeout F23
drip timeout F24
notifications too_large F24
notification_only timeout F26
request_only timeout F26
drop_at_once server_error F25
drop_in_body server_error F25
drop_in_stream server_error F25
half_closed server_error F25
closed_before_headers server_error F25
cut_at_the_first_byte server_error F25
cut_in_the_headers server_error F25
cut_in_the_body server_error F25
cut_before_the_last_byte server_error F25
giant too_large A60
giant_announced too_large A60
deep too_large A60
depth protocol A60
digits protocol A60
dust_objects too_large A60
dust_numbers too_large A60
dust_lists too_large A60
dust_in_quotes too_large A60
blocks_many too_large A60
blocks_wrong protocol A60
blocks_wrong_many too_large A60
bomb protocol A59
bomb_deflate protocol A59
bomb_br protocol A59
bomb_zstd protocol A59
bomb_twice protocol A59
bomb_hidden protocol A59
bomb_unnamed protocol A59
wrong_id protocol C7
id_other protocol C7
id_twice protocol C7
id_null protocol F26
id_float protocol F26
id_list protocol F26
empty protocol F26
not_utf8 protocol F26
utf16 protocol F26
surrogate protocol F26
plain_text not_mcp F26
no_type not_mcp F26
batch protocol F26
junk_behind protocol F26
old_version protocol F26
error_wrong protocol F26
result_list protocol F26
result_null protocol F26
result_wrong protocol F26
result_unknown protocol F26
block_unknown protocol F26
headers_endless protocol A60
headers_many protocol A60
header_endless protocol A60
headers_slow timeout A61
headers_folded protocol A60
header_nul protocol F26
interim_flood too_large A61
hints_flood too_large A61
upgrade protocol F26
not_http server_error F26
binary protocol F26
status_999 server_error F26
status_text protocol F26
chunk_dust too_large A61
chunk_names protocol A60
chunk_size_wrong protocol F26
chunk_size_huge too_large A60
trailers_endless protocol A60
length_huge too_large A60
length_absurd protocol A60
length_negative protocol F26
length_twice protocol F26
length_short protocol F26
length_and_chunked timeout F26
transfer_gzip protocol A59
body_slow timeout A61
stream_comments too_large A61
stream_blank too_large A61
stream_returns too_large A61
stream_progress too_large A61
stream_changes too_large A61
stream_pings too_large A61
stream_names too_large A61
stream_event_heavy too_large C7
stream_event_endless too_large A61
stream_line_endless too_large C7
stream_not_utf8 protocol F26
stream_not_json protocol F26
stream_dust too_large A60
stream_empty server_error F25
stream_storm too_large C7
stream_retry_far timeout C7
stream_retry_absurd protocol C7
task_without_an_id protocol C7
task_in_no_state protocol C7
stream_id_heavy timeout A61
"""
DEFINITE = """
h400 not_mcp F26
h404 not_mcp F26
h405 not_mcp F26
header_mismatch rpc_error A56
no_such_tool rpc_error F26
error_long rpc_error A60
version protocol F29
asks_sampling protocol C7
asks_oddly protocol C7
asks_inside protocol C7
asks_much protocol A62
asks_at_length protocol A62
asks_with_a_load protocol A60
session_letters protocol C7
session_long protocol C7
session_twice protocol C7
session_version protocol F29
session_shape protocol F26
"""
HARMLESS = """
trailing_junk F26
answer_twice C7
stream_odd_notes C7
session_good F29
long_text F27
long_commas A60
keys_twice F26
nul F26
infinite F26
nan F26
listing_h500 F28
asks C7
task_for_ever C7
task_in_a_hurry C7
"""
LISTINGS = """
listing_endless too_large A62
listing_cycle too_large A62
listing_pair too_large A62
listing_cursor too_large A62
listing_heavy too_large A62
listing_unnamed protocol F26
"""
MODEST_LISTINGS = """
listing_flood A62
listing_bombs A63
listing_redos A63
listing_doubling A63
listing_ring A63
"""

# The same two fates of a call that is under way at a server of the handshake era.
HANDSHAKE_UNKNOWN = """
hang timeout F23
drop_at_once server_error F25
drop_in_body server_error F25
drop_in_stream server_error F25
half_closed server_error F25
stream_empty server_error F25
h500 server_error F26
h401 sign_in_needed A56
h403 forbidden A56
redirect configuration C7
redirect_here configuration A56
giant too_large A60
bomb protocol A59
stream_progress too_large A61
stream_comments too_large A61
stream_event_heavy too_large C7
stream_line_endless too_large C7
wrong_id protocol C7
id_null protocol F26
garbage protocol F26
"""
HANDSHAKE_DEFINITE = """
h400 not_mcp F26
h404 not_mcp F26
no_such_tool rpc_error F26
"""
# And over HTTP+SSE: where its POST is answered, or on the stream that was open before it.
SSE_UNKNOWN = """
hang timeout F23
says_nothing timeout F23
drop_at_once server_error F25
closed_before_headers server_error F25
closes server_error F25
aborts server_error F25
breaks_off server_error F25
h500 server_error F26
h401 sign_in_needed A56
h403 forbidden A56
h429 rate_limited F26
redirect configuration C7
redirect_here configuration A56
giant_announced too_large A60
floods_progress too_large A61
floods_changes too_large A61
floods_comments too_large A61
heavy_event protocol C7
endless_line protocol C7
other_id protocol C7
no_json protocol F26
"""
SSE_DEFINITE = """
h400 not_mcp F26
h404 not_mcp F26
"""


def rows(table: str) -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in table.strip().splitlines()]
