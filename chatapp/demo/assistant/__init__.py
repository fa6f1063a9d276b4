"""The demo assistant: a script that answers in place of a model. It stores nothing."""
