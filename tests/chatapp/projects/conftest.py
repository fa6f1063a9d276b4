"""The people, turns and services that the tests of this room share."""

from tests.turns.fixtures import _scripted_model, notebook, owner, runtime, turn

__all__ = ["_scripted_model", "notebook", "owner", "runtime", "turn"]
