"""tree-sitter-bash as a second opinion: no command that it sees may be missing from what `shell.parse` lists."""

import tree_sitter
import tree_sitter_bash
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook.effects.shell import parse

_WORDS = st.sampled_from(
    [
        "git",
        "push",
        "rm",
        "-rf",
        "ls",
        "echo",
        "a",
        "'b c'",
        '"d e"',
        "f\\ g",
        "$X",
        "${Y:-z}",
        "x=1",
        "*.py",
        "--",
        "~/h",
    ]
)
_NAMES = st.sampled_from(["git", "rm", "ls", "echo", "cat", "true", "make", "'git'", '"rm"', "/bin/ls"])
_SIMPLE = st.tuples(_NAMES, st.lists(_WORDS, max_size=3)).map(lambda parts: " ".join([parts[0], *parts[1]]))
_SHAPES = [
    "{0} && {1}",
    "{0} || {1}",
    "{0}; {1}",
    "{0} | {1}",
    "{0} &\n{1}",
    "({0}); {1}",
    "{{ {0}; }}; {1}",
    "echo $({0}) && {1}",
    'echo "$({0})" | {1}',
    "echo `ls`; {0}; {1}",
    "if {0}; then {1}; fi",
    "for i in a b; do {0}; done; {1}",
    "while {0}; do {1}; done",
    "case $X in a) {0} ;; *) {1} ;; esac",
    "f() {{ {0}; }}; {1}",
    "cat <<E\n$({0})\nE\n{1}",
    "{0} > out 2>&1; {1}",
    "diff <({0}) <({1})",
    "! {0} && {1}",
    "[[ -f x && -d y ]] && {0}; {1}",
    "echo $((1 + 2)); {0}; {1}",
    "a=({0}); {1}",
]
_SCRIPTS = st.recursive(
    _SIMPLE,
    lambda inner: st.tuples(st.sampled_from(_SHAPES), inner, inner).map(lambda parts: parts[0].format(*parts[1:])),
    max_leaves=8,
)


# The grammar takes them for commands after a `!`; a shell doesn't.
_RESERVED = {"if", "then", "fi", "for", "while", "do", "done", "case", "esac", "in"}


def _commands_seen(text: str) -> set[str] | None:
    """The plain command names in the text, or None where the grammar has doubts."""
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    root = parser.parse(text.encode()).root_node
    if root.has_error:
        return None
    names, waiting = set(), [root]
    while waiting:
        node = waiting.pop()
        if node.type == "command_name" and node.text is not None:
            name = node.text.decode().strip("'\"")
            if not set(name) & set("$`*?[{\\}!") and name not in _RESERVED:
                names.add(name)
        waiting.extend(node.children)
    return names


@settings(max_examples=400, deadline=None)
@given(_SCRIPTS)
def test_no_command_is_missing(text: str) -> None:
    """Every command name that the grammar finds is among the commands that we list."""
    seen = _commands_seen(text)
    parsed = parse(text)

    assert (
        seen is None
        or not parsed.complete
        or seen <= {command.words[0] for command in parsed.commands if command.words}
    )


def test_the_second_opinion_can_disagree() -> None:
    """The comparison would notice a missing command."""
    assert _commands_seen("ls && git push") == {"ls", "git"}
    assert {c.words[0] for c in parse("ls && git push").commands} == {"ls", "git"}
