"""The people and turns that the tests of this room share."""

from tests.turns.fixtures import _scripted_model, conversation, owner, turn
