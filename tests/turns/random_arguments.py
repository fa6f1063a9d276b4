"""Values as no model would make them: every kind of text, number and depth that JSON holds."""

import json
import random
from collections.abc import Callable
from typing import Any

# Letters, what hides, what imitates drawn characters, what markup and JSON give a meaning to.
ALPHABET = (
    "abcXYZ019 _-.,:;!?\"'\\/<>&{}[]()=+*#%$@|~`^"
    "\n\t\r\x00\x1b\x7f\x85\xa0\xadéßøλжשمก中日ｱ"
    "\u200b\u200d\u202e\u2066\u2028\ufeff\ufe0f\u3164⟨U+⟩🎉👩🏽\U000e0041\U0010fffd"
)
MOST = 2**53 - 1


class Maker:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311  the values of a test, not a secret

    def arguments(self) -> str:
        """One JSON object as a model may write it, in any spelling."""
        value = {self.text(12): self.value(4) for _ in range(self.chance.randrange(6))}
        spelled = self.chance.random() < 0.5
        return json.dumps(value, ensure_ascii=spelled, indent=self.chance.choice([None, 2]))

    def value(self, depth: int) -> Any:
        kinds: list[Callable[[], Any]] = [self.text, self.number, self.plain, self.deep]
        if depth:
            kinds += [lambda: self.many(depth), lambda: self.named(depth)]
        return self.chance.choice(kinds)()

    def text(self, most: int = 40) -> str:
        length = 2_000 if self.chance.random() < 0.02 else self.chance.randrange(most)
        return "".join(self.chance.choices(ALPHABET, k=length))

    def number(self) -> int | float:
        chance = self.chance
        numbers: list[int | float] = [
            chance.randint(-MOST, MOST),
            chance.choice([0, -1, MOST, -MOST, 2**31, -(2**31)]),
            chance.uniform(-1e3, 1e3),
            chance.uniform(-1, 1) * 10 ** chance.randint(-300, 15),
            chance.choice([0.1, -0.0, 1e21, 6.02e23, 1e-7, 5e-324, 1.5e300, 100.0]),
        ]
        return chance.choice(numbers)

    def plain(self) -> bool | None:
        return self.chance.choice([True, False, None])

    def deep(self) -> Any:
        value: Any = self.text(5)
        for _ in range(self.chance.randrange(40)):
            value = [value] if self.chance.random() < 0.5 else {self.text(3): value}
        return value

    def many(self, depth: int) -> list[Any]:
        return [self.value(depth - 1) for _ in range(self.chance.randrange(4))]

    def named(self, depth: int) -> dict[str, Any]:
        return {self.text(8): self.value(depth - 1) for _ in range(self.chance.randrange(4))}
