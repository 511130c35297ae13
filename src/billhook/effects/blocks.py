"""The commands of a script as a tree: pipelines, loops, functions, subshells."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from billhook.effects.script import Item, Keyword, ScriptCommand, ScriptRedirect

_OPENS: Final = {"{": "}", "if": "fi", "while": "done", "until": "done", "for": "done", "case": "esac"}
_CLOSES: Final = frozenset(_OPENS.values())


class ScriptBlock(msgspec.Struct):
    """A compound command: its kind is the word that opens it, or `words` for words that are only expanded."""

    kind: str
    body: "list[Node]" = []
    name: str = ""  # of a function, or a loop's variable
    head: Keyword | None = None
    items: Sequence[Item] | None = None  # of a subshell, structured when it runs
    redirects: tuple[ScriptRedirect, ...] = ()

    @property
    def nodes(self) -> "list[Node]":
        return self.body if self.items is None else structured(self.items)


Node = ScriptCommand | ScriptBlock | str
"""A string is a separator: `;`, `&&`, `|` ..."""


def structured(items: Sequence[Item]) -> list[Node]:
    """Flat items as a tree. A closing word without its opening one, or none at all, is read as a separator."""
    root: list[Node] = []
    stack: list[ScriptBlock] = []
    nodes, function = root, ""
    for item in items:
        if isinstance(item, ScriptCommand):
            last = nodes[-1] if nodes else None
            if isinstance(last, ScriptBlock) and not item.words and not item.assignments:
                last.redirects = item.redirects
            else:
                nodes.append(item)
            continue
        word = item.word
        if word == "function":
            function = item.name
        elif word == "words":
            nodes.append(ScriptBlock(word, head=item))
        elif word == "(" or word in _OPENS:
            block = ScriptBlock(word, [], item.name, item, item.items)
            nodes.append(ScriptBlock("function", [block], function) if function else block)
            function = ""
            if word != "(":
                stack.append(block)
                nodes = block.body
        elif word in _CLOSES and stack:
            stack.pop()
            nodes = stack[-1].body if stack else root
            if nodes and isinstance(last := nodes[-1], ScriptBlock) and last.kind == "function":
                continue
        else:
            nodes.append(word if word in ("|", "|&", "&&", "||", "&") else ";")
    return root


def pipelines(nodes: Sequence[Node]) -> Iterator[tuple[list[ScriptCommand | ScriptBlock], str]]:
    """The pipelines of a list of commands, each with what follows it: `&&`, `||`, `&` or `;`."""
    stages: list[ScriptCommand | ScriptBlock] = []
    piped = False
    for node in nodes:
        if not isinstance(node, str):
            if stages and not piped:
                yield stages, ";"
                stages = []
            stages.append(node)
            piped = False
        elif node in ("|", "|&"):
            piped = True
        elif stages and not (piped and node == ";"):  # a line may end after `|`
            yield stages, node
            stages = []
    if stages:
        yield stages, ";"
