"""The limit of automatic attempts. It imports nothing, so that `next_action` can import it."""

# Of one step or call. Each of these attempts ended together with its worker.
MAX_ATTEMPTS = 5
# How many calls of a turn run at the same time.
MAX_PARALLEL = 4
