"""The one way in which something that a person asks for is refused."""


class Refused(Exception):
    """Not done, and nothing changed. `sentence` says why and what to do, for people.

    `status` is the HTTP status that fits.
    """

    def __init__(self, sentence: str, status: int = 422) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status
