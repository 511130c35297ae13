"""The command line of a hook: `--as`, `--on-failure`, `--config`, `--deadline`, `--from`, and an event's name."""

import msgspec

from billhook.agents import AGENTS
from billhook.errors import UsageError

DIALECTS = (*AGENTS, "universal", "claw", "claw-text", "lesson")
"""What `--as` takes."""
_MARGIN = 0.1
_SHORTEST_MARGIN, _LONGEST_MARGIN = 0.2, 0.5
_KNOWN = {"--as": DIALECTS, "--on-failure": ("allow", "deny"), "--from": ("user", "project")}
_OPTIONS = ("--as", "--on-failure", "--config", "--deadline", "--from")


class Arguments(msgspec.Struct):
    """What an agent's hook was called with."""

    dialect: str = "claude"
    on_failure: str = ""
    """What becomes of an event that could not be judged; nothing: it is denied where a gate is configured for it."""
    files: list[str] = []
    event: str = ""  # the event's name, where the agent gives it on the command line
    seconds: float | None = None  # how long the agent waits for the answer
    source: str = ""  # whose file the entry stands in, `user` or `project`; empty: it doesn't say

    @property
    def seconds_for_hooks(self) -> float | None:
        """How long hooks may take: somebody has to end those that are late, and to write down and carry what was said,
        before the time is over."""
        if self.seconds is None:
            return None
        margin = min(max(self.seconds * _MARGIN, _SHORTEST_MARGIN), _LONGEST_MARGIN)
        return self.seconds - min(margin, self.seconds / 2)

    def take(self, argv: list[str]) -> None:
        """Read a command line. Raises UsageError; what stands before the fault was read."""
        said = tuple(argv)
        known = _taken.get(said)
        if known is None:
            self._take_words(list(argv))
            if len(_taken) >= _MOST_TAKEN:
                _taken.clear()
            _taken[said] = msgspec.structs.replace(self, files=list(self.files))
            return
        self.dialect, self.on_failure, self.files = known.dialect, known.on_failure, list(known.files)
        self.event, self.seconds, self.source = known.event, known.seconds, known.source

    def _take_words(self, words: list[str]) -> None:
        while words:
            word = words.pop(0)
            option, equals, value = word.partition("=")
            if not word.startswith("-"):
                self._take_event(word)
            elif option not in _OPTIONS:
                raise UsageError(f"no option `{word}`", hint=f"{', '.join(_OPTIONS)} are known")
            elif not equals and not words:
                raise UsageError(f"`{option}` needs a value", hint="`billhook hook --help` shows how it is meant")
            else:
                self._take_option(option, value if equals else words.pop(0))

    def _take_event(self, word: str) -> None:
        if self.event:
            raise UsageError(f"`{word}` is one argument too many", hint="give one event at most")
        self.event = word

    def _take_option(self, option: str, value: str) -> None:
        known = _KNOWN.get(option, ())
        if known and value not in known:
            raise UsageError(f"unknown {option} `{value}`", hint=f"one of {', '.join(known)}")
        match option:
            case "--as":
                self.dialect = value
            case "--on-failure":
                self.on_failure = value
            case "--deadline":
                self.seconds = _seconds(value)
            case "--from":
                self.source = value
            case _:
                self.files.append(value)


_taken: dict[tuple[str, ...], Arguments] = {}
"""The command lines that were read last: an agent says the same again and again."""
_MOST_TAKEN = 64


def _seconds(text: str) -> float:
    if not text.isdecimal() or not text.isascii() or len(text) > 9 or int(text) < 1:
        raise UsageError(f"--deadline is `{text}`", hint="a number of milliseconds, as in --deadline 5000")
    return int(text) / 1000
