"""What the tests of this room share."""

from tests.turns.fixtures import _scripted_model, notebook, runtime
