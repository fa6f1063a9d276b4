"""The old volumes of the notebook: fixed text in which the slow tool searches."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    name: str
    lines: tuple[str, ...]

    def lines_about(self, words: str) -> list[str]:
        """Return the lines that have all of the words."""
        wanted = words.lower().split()
        return [line for line in self.lines if all(word in line.lower() for word in wanted)]


VOLUMES = (
    Volume(
        name="Volume 1, The kitchen",
        lines=(
            "Sourdough: feed the starter the evening before, and keep the kitchen warm.",
            "Oat milk keeps for four days once it is open.",
            "The good knife goes to the sharpener every autumn.",
        ),
    ),
    Volume(
        name="Volume 2, The garden",
        lines=(
            "Sow the beans when the lilac flowers, not before.",
            "A litre of diluted milk on the courgettes keeps the mildew away.",
            "The apple tree by the fence was planted in 1998.",
        ),
    ),
    Volume(
        name="Volume 3, The harbour",
        lines=(
            "The lighthouse was painted white again in the spring of 2004.",
            "Ferry to the island: every two hours in summer, twice a day in winter.",
        ),
    ),
    Volume(
        name="Volume 4, The workshop",
        lines=(
            "Glue holds better when both sides are roughened with the grain.",
            "The lathe needs two drops of oil, not three.",
        ),
    ),
    Volume(
        name="Volume 5, Letters",
        lines=(
            "Ada writes that the garden path is finished and the gate no longer squeaks.",
            "Grace asks whether anybody has seen the lighthouse keys.",
        ),
    ),
)
