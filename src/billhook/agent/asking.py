"""The question that a person is asked before a tool runs, as text, and what their answer means."""

from typing import Any, Final, Literal

from billhook import strictjson, tools
from billhook.session import Question
from billhook.text import visible

_LONGEST: Final = 4000
"""Characters of one text. Of a longer one both ends are shown: what is left out is counted, never only the end."""
_WORDS: Final[dict[str, Literal["once", "session", "no"]]] = {
    **dict.fromkeys(("y", "yes", "once", "1"), "once"),
    **dict.fromkeys(("s", "session", "2"), "session"),
    **dict.fromkeys(("n", "no", "3", ""), "no"),
}


def question_text(question: Question) -> str:
    """What would run, why it is asked, and the answers. What the model wrote is escaped, and behind a bar."""
    lines = [f"{visible(question.tool_name)} wants to run:"]
    for label, text in _facts(question.tool_name, question.tool_input):
        lines += [f"  {label}:"] if label else []
        lines += [f"  | {line}" for line in visible(_shortened(text)).split("\n")]
    if question.reason:
        lines.append(f"why: {_one_line(question.reason)}")
    lines.append("[y] yes, once")
    lines += [f"[s] yes, for this session: {_covered(question)}"] if question.rememberable else []
    lines.append("[n] no (also Enter and Ctrl-D)")
    return "\n".join(lines)


def expected(question: Question) -> str:
    """What to tell somebody whose answer was none."""
    return f"that is no answer; type {'y, s or n' if question.rememberable else 'y or n'} (Enter: no)"


def _covered(question: Question) -> str:
    """What a yes for the session is about, as `AgentPermissions.remember` has it."""
    if tools.is_shell(question.tool_name):
        return "this very command, in this folder"
    if tools.paths_of(question.tool_name, question.tool_input):
        return "this tool anywhere in the workspace; outside of it, here only"
    return "every use of this tool"


def read_answer(line: str, *, rememberable: bool = True) -> Literal["once", "session", "no"] | None:
    """What an answer means; None: it was none, ask again. Nothing at all is a no."""
    answer = _WORDS.get(line.strip().lower())
    return None if answer == "session" and not rememberable else answer


def _facts(tool_name: str, tool_input: dict[str, Any]) -> list[tuple[str, str]]:
    """What the call is about, each with its label; the command of a shell needs none."""
    command = tools.command_of(tool_name, tool_input)
    facts = [("", command)] if command is not None else []
    rest = {name: value for name, value in tool_input.items() if command is None or name != "command"}
    for name, value in rest.items():
        facts.append((_one_line(name), value if isinstance(value, str) else strictjson.compact(value)))
    return facts or [("", "(no input)")]


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}\n... {len(text) - 2 * half:,} characters are not shown ...\n{text[-half:]}"


def _one_line(text: str) -> str:
    return " ".join(visible(_shortened(text)).split())
