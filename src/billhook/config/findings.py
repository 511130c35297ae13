"""What is wrong with a configuration: a place, a code, a sentence, and the edit that repairs it."""

from collections.abc import Iterable

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """One thing that its author would want to know. Every code has a section in docs/codes.md."""

    code: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    hint: str = ""
    hook: str = ""  # the name of the hook it is about, if it is about one
    note: bool = False  # worth knowing, but nothing is wrong with the file: it does not fail a check
    edit: str = ""  # what the field should say, where the hint proposes one value

    @property
    def place(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)

    def __str__(self) -> str:
        text = f"{self.place}: {self.code} {self.message}" if self.file else f"{self.code} {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known name that was most likely meant, or nothing."""
    by_fold = {folded(one): one for one in known}
    if folded(name) in by_fold:
        return by_fold[folded(name)]
    import difflib

    close = difflib.get_close_matches(folded(name), by_fold, 1, cutoff)
    swapped = [one for one in by_fold if sorted(one) == sorted(folded(name))]  # `aks`: far apart, as short words are
    return by_fold[[*swapped, *close][0]] if close or swapped else ""


def suggestion(word: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """A hint for an unknown word: the nearest known one, else `otherwise`, else all that are known."""
    near = nearest(word, known)
    if near or otherwise is None:
        return f"did you mean `{near}`?" if near else f"one of {', '.join(known)}"
    return otherwise


def folded(name: str) -> str:
    """A name without what spellings differ in: `onFailure`, `on_failure` and `on-failure` are one."""
    return name.replace("_", "").replace("-", "").lower()
