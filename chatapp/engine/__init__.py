"""The loop that moves turns, their steps, endings and the sweep; not the life of a single call."""
