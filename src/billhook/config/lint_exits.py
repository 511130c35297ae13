"""Exit codes that don't mean what their author thinks, and guards that fail open: BH504 to BH506.

A script is not run and not understood: only words are looked for. So a finding needs plain evidence, and an exit code
that is computed is none.
"""

import re
from collections.abc import Iterator

import msgspec

from billhook.config.declared import Declared, Exec, Python, Run, Url
from billhook.config.findings import Finding
from billhook.config.lint_files import scripts
from billhook.config.lint_found import edit, finding, kinds
from billhook.events import Block

_CODE = r"(?:\b(?:_?exit|SystemExit)\b\s*\(?\s*|\bexitCode\s*=\s*){code}\b"
_EXIT = {code: re.compile(_CODE.format(code=code), re.I) for code in (1, 2)}
_EXIT_WITH_TEXT = re.compile(r"\b(?:sys\.exit|SystemExit)\s*\(\s*[fr]?[\"']")
"""In Python that prints the text and exits with 1."""
_COMPUTED = re.compile(r"\bexit\s*\(?\s*[\"']?\$|\b(?:exit|SystemExit)\s*\(\s*[A-Za-z_]|\breturn 2\b|\bexec\b")
_DECISION = re.compile(r"permissionDecision|\\?[\"']decision\\?[\"']|hookSpecificOutput|\\?[\"']continue\\?[\"']")
_DENIES = re.compile(
    r"permissionDecision\\?[\"']?\s*[:=,]\s*\\?[\"'](?:deny|ask)|\bdecision\\?[\"']?\s*[:=,]\s*\\?[\"']block"
)
_REFUSAL = re.compile(
    r"block|den(?:y|ied|ies)|refus|forbid|forbidden|not allowed|not permitted|disallow|prohibit|reject|protected"
    r"|dangerous|destructive|unsafe|must not|no(?:t)? permission",
    re.I,
)
_GUARD = re.compile(r"(?:^|[^a-z])(?:guard|deny|denies|block|protect|secur|policy|policies|gate)", re.I)
_MISSING_TOOL = re.compile(r"\b(?:cd|command|which|type|hash|test|\[)\b[^;|]*\|\|\s*(?:\{\s*[^}]*)?exit 1\b")
_COMMENT = re.compile(r"^\s*(?:#|//).*$", re.M)
_BLOCKS_WITH_2 = frozenset({"claude", "claw", "claw-text"})


class Evidence(msgspec.Struct, frozen=True):
    """One text that a hook runs: its own line, or a script. `word` is empty for its own line."""

    word: str
    text: str

    def where(self, pattern: re.Pattern[str]) -> str:
        """`./guard.sh:12`, or nothing for the hook's own line."""
        found = pattern.search(self.text)
        line = self.text.count("\n", 0, found.start()) + 1 if found else 1
        return f"{self.word}:{line}" if self.word else ""


def lint_exits(hook: Declared) -> Iterator[Finding]:
    """What is wrong with how a hook refuses. A hook that is a gate refuses by any exit code but 0."""
    events = kinds(hook)
    if hook.gate or not any(kind.block in (Block.DENY, Block.NOT_HONOURED, Block.STOP) for kind in events):
        return
    texts = list(_evidence(hook))
    wrong = list(_wrong_code(hook, texts)) if any(kind.block is Block.DENY for kind in events) else []
    yield from wrong
    if not wrong and not hook.background and _is_guard(hook, texts):
        yield finding(hook, "BH506", "action", _open_message(hook), _closing(hook))


def _evidence(hook: Declared) -> Iterator[Evidence]:
    if isinstance(hook.action, Run):
        yield Evidence("", hook.action.text)
    if isinstance(hook.action, Run | Exec):
        for named, text in scripts(hook):
            # blanked, not removed: line numbers have to stay
            yield Evidence(named.word, _COMMENT.sub("", text))


def _wrong_code(hook: Declared, texts: list[Evidence]) -> Iterator[Finding]:
    every = "\n".join(one.text for one in texts)
    if _DECISION.search(every) or _COMPUTED.search(every):
        return
    exits_1 = bool(_EXIT[1].search(every) or _EXIT_WITH_TEXT.search(every))
    exits_2 = bool(_EXIT[2].search(every))
    if hook.dialect in _BLOCKS_WITH_2 and exits_1 and not exits_2:
        for one in texts:
            pattern = _EXIT[1] if _EXIT[1].search(one.text) else _EXIT_WITH_TEXT
            if pattern.search(one.text) and _means_refusal(hook, one):
                message = f"it refuses with exit 1, which under `{hook.dialect}` is a failure: the event goes on"
                yield finding(hook, "BH504", "action", message, _instead(one, pattern, "exit 2"))
                return
    if hook.dialect == "lesson" and "PreToolUse" in hook.events and exits_2 and not exits_1:
        for one in texts:
            if _EXIT[2].search(one.text) and _REFUSAL.search(one.text):
                message = "it refuses with exit 2, which under `lesson` only tells the model: the tool runs"
                yield finding(hook, "BH505", "action", message, _instead(one, _EXIT[2], "exit 1"))
                return


def _means_refusal(hook: Declared, one: Evidence) -> bool:
    if _REFUSAL.search(one.text) or _GUARD.search(f"{hook.name} {hook.title}"):
        return True
    # A line that stands in the file and exits with 1 was hardly written to report a failure, unless a tool is missing.
    return not one.word and not _MISSING_TOOL.search(one.text)


def _instead(one: Evidence, pattern: re.Pattern[str], wanted: str) -> str:
    where = one.where(pattern)
    return f"write `{wanted}` in {where}" if where else f"write `{wanted}` instead"


def _is_guard(hook: Declared, texts: list[Evidence]) -> bool:
    if isinstance(hook.action, Python | Url):
        return "PreToolUse" in hook.events and bool(_GUARD.search(f"{hook.name} {hook.title}"))
    every = "\n".join(one.text for one in texts)
    if _DENIES.search(every):
        return True
    code = 2 if hook.dialect in _BLOCKS_WITH_2 else 1 if hook.dialect == "lesson" else None
    return code is not None and bool(_EXIT[code].search(every))


def _open_message(hook: Declared) -> str:
    return "it guards, and fails open: when it crashes, is late or can't start, the event goes on"


def _closing(hook: Declared) -> str:
    match hook.shape:
        case "yaml":
            return f"add `{edit(hook, 'gate', True)}`"
        case "strings":
            return f'write {{"command": "...", "dialect": "{hook.dialect}", "onFailure": "block"}} for the text'
        case _:
            return f"add `{edit(hook, 'on_failure', 'block')}`"
