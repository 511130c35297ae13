"""How much work one event may be for the redactor: a long text must not hold up a verdict.

Counted and not timed, so that the same event always comes out the same. What is beyond is taken out whole: nothing that
was not searched is ever written.
"""

from typing import Final

MOST_CHARACTERS: Final = 4_000_000  # of all texts of one event together
MOST_SECRETS: Final = 2_000  # that are taken out one by one
MOST_ITEMS: Final = 50_000  # of all lists and objects together
MOST_STEPS: Final = 200_000_000  # a step is a character that is compared with something: about a nanosecond
NAME_STEPS: Final = 6_000  # what it costs to look at a word like `token`, and at what follows it
PIECE_STEPS: Final = 3_000  # what it costs to look at a piece of text like `ghp_`
_SHORT: Final = 4096
"""A text of up to so many characters may have all that is left; what is longer leaves something for the others."""
_FEW: Final = 64


class Budget:
    """What is left for one event. Lives as long as one call of the redactor."""

    def __init__(self) -> None:
        self.characters = MOST_CHARACTERS
        self.secrets = MOST_SECRETS
        self.items = MOST_ITEMS
        self.steps = MOST_STEPS

    def room(self, length: int) -> int:
        """How many characters of a text of this length may be searched; they are used up.

        Of a text that is too long less than there would be room for: redacted once more, it still fits.
        """
        left = self.characters
        if length > (left if length <= _SHORT else left - left // 16):
            length = left - left // 8
        self.characters -= length
        return length

    def take_items(self, count: int) -> bool:
        """Whether a list or an object of so many items may be looked into."""
        if count > (self.items if count <= _FEW else self.items - self.items // 16):
            return False
        self.items -= count
        return True

    def take_steps(self, steps: int, *, most: bool = False) -> bool:
        """Whether there is so much work left; `most`: an eighth of it stays for the other texts."""
        if steps > (self.steps - self.steps // 8 if most else self.steps):
            return False
        self.steps -= steps
        return True
