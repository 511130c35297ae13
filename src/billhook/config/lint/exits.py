"""Exit codes that don't mean what their author thinks, and guards that fail open: BH504 to BH506.

A script is not run and not understood: only words are looked for. So a finding needs plain evidence, and an exit code
that is computed is none.
"""

import functools
import itertools
import re
from collections.abc import Iterator

import msgspec

from billhook.config.declared import Declared, Exec, Python, Run, Url
from billhook.config.findings import Finding
from billhook.config.lint.files import scripts
from billhook.config.lint.found import edit, finding, kinds
from billhook.events import Block

# Blanks are counted in these patterns: on a text that is made for it, `\s*` twice would take for ever.
_CODE = r"(?:\b(?:_?exit|SystemExit)\b\s{{0,9}}\(?\s{{0,9}}|\bexitCode\s{{0,9}}=\s{{0,9}}){code}\b"
_EXIT_1, _EXIT_2 = (re.compile(_CODE.format(code=code), re.I) for code in (1, 2))
_EXIT_WITH_TEXT = re.compile(r"\b(?:sys\.exit|SystemExit)\s{0,9}\(\s{0,9}[fr]?[\"']")
"""In Python that prints the text and exits with 1."""
_COMPUTED = re.compile(
    r"\bexit\s{0,9}\(?\s{0,9}[\"']?\$|\b(?:exit|SystemExit)\s{0,9}\(\s{0,9}[A-Za-z_]|\breturn 2\b|\bexec\b"
)
_DECISION = re.compile(r"permissionDecision|\\?[\"']decision\\?[\"']|hookSpecificOutput|\\?[\"']continue\\?[\"']")
_SAID = r"\\?[\"']?\s{0,9}[:=,]\s{0,9}\\?[\"']"
_DENIES = re.compile(rf"permissionDecision{_SAID}(?:deny|ask)|\bdecision{_SAID}block")
_REFUSAL = re.compile(
    r"block|den(?:y|ied|ies)|refus|forbid|not allowed|not permitted|disallow|prohibit|reject|protected"
    r"|dangerous|destructive|unsafe|must not|no(?:t)? permission",
    re.I,
)
_GUARD = re.compile(r"(?:^|[^a-z])(?:guard|deny|denies|block|protect|secur|policy|policies|gate)", re.I)
_MISSING_TOOL = re.compile(
    r"\b(?:cd|command|which|type|hash|test|\[)\b[^;|\n]{0,200}\|\|\s{0,9}(?:\{[^}\n]{0,200})?exit 1\b"
)
_CRASH = re.compile(
    r"not found|no such|missing|not installed|is required|\brequires?\b|usage:|failed to|could ?n[o']t|can(?:not|'t) "
    r"|unable to|invalid json|pars(?:e|ing) error|\bexcept\b|\bcatch\b|\btrap\b|\bcommand -v\b|\bwhich \w"
    r"|does not exist|doesn't exist|no input|exception|unexpected|internal error|crash|\bcd\b",
    re.I,
)
"""Words around an exit that reports a fault of the hook's own."""
_NEAR, _AROUND = 120, 400  # characters before an exit: the message that goes with it, and the branch that it is in
_MOST = 200  # exits of one text that are looked at
_COMMENT = re.compile(r"^[ \t]*(?:#|//).*$", re.M)
_BLOCKS_WITH_2 = frozenset({"claude", "claw", "claw-text"})


class Facts(msgspec.Struct, frozen=True):
    """What one text says about its exits. A line of 0: it says nothing of the kind."""

    exits_1: int
    exits_2: int
    computed: bool
    decides: bool
    denies: bool
    refuses: bool
    refuses_with_1: int
    ends_with_1: int  # an exit 1 that neither says no nor reports a fault


@functools.lru_cache(maxsize=256)
def facts(text: str) -> Facts:
    """Looked up once for each text: many hooks may name one script."""
    code = _COMMENT.sub("", text)  # the lines stay where they are
    return Facts(
        exits_1=_line(_EXIT_1, code) or _line(_EXIT_WITH_TEXT, code),
        exits_2=_line(_EXIT_2, code),
        computed=_COMPUTED.search(code) is not None,
        decides=_DECISION.search(code) is not None,
        denies=_DENIES.search(code) is not None,
        refuses=_REFUSAL.search(code) is not None,
        **_meanings_of_1(code),
    )


def _meanings_of_1(code: str) -> dict[str, int]:
    """Where an exit 1 says no, and where it says nothing of itself. One that reports a crash or a missing tool is
    neither: that a failure lets the event go on is what its author may want."""
    lines = {"refuses_with_1": 0, "ends_with_1": 0}
    for pattern in (_EXIT_1, _EXIT_WITH_TEXT):
        for found in itertools.islice(pattern.finditer(code), _MOST):
            kind = _meaning(code, found)
            if kind and not lines[kind]:
                lines[kind] = code.count("\n", 0, found.start()) + 1
    return lines


def _meaning(code: str, found: re.Match[str]) -> str:
    rest_of_line = code[found.end() : found.end() + _NEAR].partition("\n")[0]
    said = code[max(0, found.start() - _NEAR) : found.end()] + rest_of_line
    around = code[max(0, found.start() - _AROUND) : found.end()]
    if _REFUSAL.search(said):
        return "refuses_with_1"
    if _CRASH.search(said) or _MISSING_TOOL.search(around):
        return ""
    return "refuses_with_1" if _REFUSAL.search(around) else "" if _CRASH.search(around) else "ends_with_1"


def _line(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else 0


def lint_exits(hook: Declared) -> Iterator[Finding]:
    """What is wrong with how a hook refuses. A gate refuses by every exit code that is a failure in its dialect."""
    events = kinds(hook)
    if not any(kind.block in (Block.DENY, Block.NOT_HONOURED, Block.STOP) for kind in events):
        return
    evidence = [("", facts(hook.action.text))] if isinstance(hook.action, Run) else []
    if isinstance(hook.action, Run | Exec):
        evidence += [(named.word, facts(text)) for named, text in scripts(hook)]
    wrong = list(_wrong_code(hook, evidence)) if any(kind.block is Block.DENY for kind in events) else []
    yield from wrong
    if not (wrong or hook.gate or hook.background) and _is_guard(hook, [known for _, known in evidence]):
        message = "it guards, and fails open: when it crashes, is late or can't start, the event goes on"
        yield finding(hook, "BH506", "action", message, _closing(hook))


def _wrong_code(hook: Declared, evidence: list[tuple[str, Facts]]) -> Iterator[Finding]:
    every = [known for _, known in evidence]
    if any(known.decides or known.computed for known in every):
        return
    exits_1, exits_2 = any(known.exits_1 for known in every), any(known.exits_2 for known in every)
    if hook.dialect in _BLOCKS_WITH_2 and hook.on_failure != "deny" and exits_1 and not exits_2:
        outcome = "a person is only asked" if hook.on_failure == "ask" else "the event goes on"
        message = f"it refuses with exit 1, which under `{hook.dialect}` is a failure: {outcome}"
        for word, known in evidence:
            line = _refusal(hook, word, known)
            if line:
                yield finding(hook, "BH504", "action", message, _instead("exit 2", word, line))
                return
    if hook.dialect == "lesson" and "PreToolUse" in hook.events and exits_2 and not exits_1:
        message = "it refuses with exit 2, which under `lesson` only tells the model: the tool runs"
        message += ", for it is no failure either" if hook.gate else ""
        for word, known in evidence:
            if known.exits_2 and (known.refuses or hook.gate):
                yield finding(hook, "BH505", "action", message, _instead("exit 1", word, known.exits_2))
                return


def _refusal(hook: Declared, word: str, known: Facts) -> int:
    if known.refuses_with_1 or hook.gate:  # to ask by way of a failure may be meant
        return known.refuses_with_1
    # A line that stands in the file and exits with 1 was hardly written to report a failure.
    named = _GUARD.search(f"{hook.name} {hook.title}")
    return known.ends_with_1 if named or not word else 0


def _instead(wanted: str, word: str, line: int) -> str:
    return f"write `{wanted}` in {word}:{line}" if word else f"write `{wanted}` instead"


def _is_guard(hook: Declared, every: list[Facts]) -> bool:
    if isinstance(hook.action, Python | Url):
        return "PreToolUse" in hook.events and bool(_GUARD.search(f"{hook.name} {hook.title}"))
    if any(known.denies for known in every):
        return True
    if hook.dialect in _BLOCKS_WITH_2:
        return any(known.exits_2 for known in every)
    return hook.dialect == "lesson" and any(known.exits_1 for known in every)


def _closing(hook: Declared) -> str:
    match hook.shape:
        case "yaml":
            return f"add `{edit(hook, 'gate', True)}`"
        case "strings":
            return f'write {{"command": "...", "dialect": "{hook.dialect}", "onFailure": "block"}} for the text'
        case _:
            return f"add `{edit(hook, 'on_failure', 'block')}`"
