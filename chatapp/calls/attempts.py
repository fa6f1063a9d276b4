"""The limit of automatic attempts. It imports nothing, so that `next_action` can import it."""

# Of one step or call. Each of these attempts ended together with its worker.
MAX_ATTEMPTS = 5
