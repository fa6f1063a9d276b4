"""What an operator watches: metrics, traces, and the ids in log entries. Imports nothing of the
chat; no message text, argument, result, secret or name of a person leaves through it."""
