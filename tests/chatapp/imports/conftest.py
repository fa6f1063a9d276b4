"""The people and services that the tests of this room share."""

from tests.turns.fixtures import _scripted_model, ada, conversation, notebook, owner, runtime, turn
