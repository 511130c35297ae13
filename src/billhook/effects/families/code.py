"""What code given to an interpreter does: `python -c`, `node -e`, here-documents, small scripts.

Python is read by its own parser. Texts of other languages are turned into the same kind of tree, token by token: calls,
assignments and literals; what is computed is not known.
"""

import ast
import functools
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from billhook.effects.effect import Effect
from billhook.effects.families.languages import LARGEST_CODE, KnownValue, Language, calls_of, language_of_program
from billhook.effects.families.python_code import PythonReader
from billhook.effects.programs import Options
from billhook.effects.table import Call, word_set


def effects_of_code(
    program: str, text: str, call: Call, args: tuple[str, ...] = ()
) -> tuple[list[Effect], list[str], bool]:
    """Its effects, the shell texts that it runs, and whether all of it was understood."""
    language = language_of_program(program)
    if language is None:
        return [], [], False
    too_long = call.effect("run-opaque", certain=False, why="the code is too long to be read")
    if len(text) > LARGEST_CODE:
        return [too_long], [], False
    reader = _READERS.get(language.name, LiteralReader)(language, call, args)
    reader.read(text)
    return reader.effects + ([too_long] if reader.gave_up else []), reader.shell, reader.understood


# ----- languages with calls

_TOKEN: Final = r"""
    (?P<comment>{comment})
  | (?P<quoted>(?:%[xqQ]|\bq[qx]?)(?:\[[^\]]*(?:\]|\Z) | \([^\)]*(?:\)|\Z) | \{{[^\}}]*(?:\}}|\Z)) )
  | (?P<string>"(?:[^"\\]|\\.)*(?:"|\\?\Z) | '(?:[^'\\]|\\.)*(?:'|\\?\Z) )
  | (?P<ticks>`(?:[^`\\]|\\.)*(?:`|\\?\Z))
  | (?P<name>[$@]?[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)*[!?]?)
  | (?P<number>-?\d+)
  | (?P<sign>\n|>>|\|&|<<|=>|==|=~|!=|[^\s])
"""
_ENDS: Final = word_set(", ; ) ] } if unless or and while for do then end") | {"\n"}
_IGNORED: Final = word_set("my our local const let var new await return puts echo")
_JOINS: Final = word_set("+ . * ? / | & = @ < > |&")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_CONSTANTS: Final = {"true": True, "TRUE": True, "false": False, "FALSE": False}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_INSIDE = re.compile(r"([#$]\{[^}]*\}|(?<!\\)\$[A-Za-z_]\w*)")
_SOCKET = re.compile(r"\b(?:fsockopen|TCPSocket|PF_INET|AF_INET|inet_aton|net\.(?:connect|Socket|createConnection))\b")
_LONGEST_OBEYING: Final = 8_192
_OBEYS = re.compile(r"\b(\w+)\s*=\s*\w+\.(?:gets|read|recv)\b.{0,200}?(?:popen|system|exec|spawn)\w*\W{1,3}\1\b", re.S)
_SHELL_PATH = re.compile(r"(?:/bin/(?:ba|z|da)?sh|cmd\.exe)\b")
_ALIASES = re.compile(r"\b(\w+)\s*(?::|\sas\s)\s*(\w+)\s*(?=[,}][^={}()]{0,200}(?:=|from)\s*)")
"""`const {execSync: e} = ...`, `import {execSync as e} from ...`"""
_AWK: Final = frozenset({"-v", "-F", "-f"})
_EACH_LINE = re.compile(r"-[0-9laws]*[np][0-9lawseE]*")


class LiteralReader(PythonReader):
    """Code in any other language, as far as its calls are literal."""

    def read(self, text: str) -> None:
        for name, _, value in (word.partition("=") for word in Options(self.call.command.args, _AWK).values("-v")):
            self._variables |= {name: KnownValue(_unescaped(value))} if self.language.redirects else {}
        for name, alias in _ALIASES.findall(text) if self.language.name == "js" else ():
            self._variables[alias] = KnownValue(name=name)
        if any(map(_EACH_LINE.fullmatch, self.call.command.args)):  # `perl -ne` prints its files
            for path in self.operands:
                self.act("read", [KnownValue(path)], {})
        super().read(text)

    def parse(self, text: str) -> ast.AST:
        for does, pattern in self.language.texts.items():
            for found in re.findall(pattern, text):
                self.act(does, [KnownValue(_unescaped(found))], {}, found)
        if _SOCKET.search(text) and (_SHELL_PATH.search(text) or _OBEYS.search(text, 0, _LONGEST_OBEYING)):
            self.act("socket", [], {})
            self.act("attach", [], {})
        return _Parser(text, self.language, self.call.command.stdin).module()


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str


_END: Final = _Token("sign", ";")


@functools.cache
def _pattern(comment: str) -> re.Pattern[str]:
    return re.compile(_TOKEN.format(comment=comment), re.VERBOSE | re.DOTALL)


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        sign = found[1]
        return chr(int(sign[1:], 16)) if len(sign) > 1 else {"n": "\n", "t": "\t"}.get(sign, sign)

    return _ESCAPE.sub(plain, text)


class _Parser:
    """The tokens of some code as a tree of Python."""

    def __init__(self, text: str, language: Language, stdin: str | None) -> None:
        self._language, self._stdin = language, stdin
        self._calls = calls_of(language.name)
        found = _pattern(language.comment).finditer(text)
        self._tokens = [_Token(each.lastgroup or "", each[0]) for each in found if each.lastgroup != "comment"]
        self._at = 0
        self._keywords: list[ast.keyword] = []  # named arguments of the call that is being read

    def module(self) -> ast.Module:
        body: list[ast.stmt] = []
        while self._at < len(self._tokens):
            body.append(ast.Expr(self._expression()))
            self._at += 1  # the sign that ended it
        return ast.Module([*body, *(ast.Expr(each.value) for each in self._keywords)], [])

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _expression(self) -> ast.expr:
        """A value: its parts put together."""
        parts: list[ast.expr] = []
        while (token := self._token).text not in _ENDS or self._is_method(token):
            self._at += 1
            self._part(token, parts)
        return parts[0] if len(parts) == 1 else ast.JoinedStr(parts)

    def _is_method(self, token: _Token) -> bool:
        """`x.then` is no keyword."""
        return token.kind == "name" and self._at > 0 and self._tokens[self._at - 1].text == "."

    def _part(self, token: _Token, parts: list[ast.expr]) -> None:
        if token.kind == "name":
            self._name(token.text.replace("::", ".").replace("->", ".").strip("$@!?"), parts)
        elif token.kind != "sign":
            parts.append(self._literal(token))
        elif token.text in _CLOSING:
            items = self._arguments(_CLOSING[token.text])
            if token.text == "[" and parts and self._token.text == "(" and (name := _text_of(items)):
                parts.append(self._called(ast.Attribute(parts.pop(), name), name))  # `x["execSync"](...)`
                return
            parts += items if token.text != "[" and len(items) <= 1 else [ast.List(items)]
        elif self._language.redirects and token.text in (">", ">>", "|", "|&"):
            self._redirect(token.text, parts)
        elif token.text not in _JOINS:
            parts.append(ast.Constant(None))

    def _arguments(self, closing: str = "") -> list[ast.expr]:
        found: list[ast.expr] = []
        more = {",", ";", "\n"} if closing else {","}
        while True:
            value = self._expression()
            found += [] if isinstance(value, ast.JoinedStr) and not value.values else [value]
            sign = self._token.text
            if self._at >= len(self._tokens) or sign not in {*more, closing}:
                return found
            self._at += 1
            if sign == closing:
                return found

    def _name(self, name: str, parts: list[ast.expr]) -> None:
        before = parts and self._at > 1 and self._tokens[self._at - 2].text == "."
        following = self._token.text
        if name in _CONSTANTS:
            parts.append(ast.Constant(_CONSTANTS[name]))
        elif following in (":", "=>"):
            self._at += 1
            self._keywords.append(ast.keyword(name, self._expression()))
        elif following == "=":
            self._at += 1
            parts.append(ast.NamedExpr(ast.Name(name), self._expression()))
            self._keywords.append(ast.keyword(name, ast.Name(name)))  # it may be a named argument
        elif name == "as" and parts and self._token.kind == "name":  # `foreach (items as $item)`
            self._at += 1
            parts.append(ast.NamedExpr(ast.Name(following.strip("$@")), parts.pop()))
        elif name == "each" and before and self._tokens[self._at + 1 : self._at + 2] == [_Token("sign", "|")]:
            self._loop(parts)
        elif name not in _IGNORED:
            function = ast.Attribute(parts.pop(), name) if before else ast.Name(name)
            parts.append(self._called(function, name))

    def _called(self, function: ast.expr, name: str) -> ast.expr:
        """A name, or a call of it."""
        following, bare = self._token, self._language.bare
        does = self._calls.get(name) or self._calls.get(name.rpartition(".")[2])
        if following.text == "(":
            self._at += 1
            return self._call(function, ")")
        if bare and does and following.kind != "sign" and following.text not in _ENDS:
            return self._call(function, "")
        if does == "fork" or (bare and f".{name}" in self._calls):
            return ast.Call(function, [], [])
        return function

    def _call(self, function: ast.expr, closing: str) -> ast.expr:
        outer, self._keywords = self._keywords, []
        call = ast.Call(function, self._arguments(closing), self._keywords)
        self._keywords = outer
        return call

    def _loop(self, parts: list[ast.expr]) -> None:
        """`items.each { |item| ... }`"""
        closing = _CLOSING.get(self._token.text, "end")
        item = ast.Name("".join(token.text for token in self._tokens[self._at + 2 : self._at + 3]))
        self._at += 4
        rounds = ast.comprehension(item, parts.pop(), [], 0)
        parts.append(ast.ListComp(ast.List(self._arguments(closing)), [rounds]))

    def _redirect(self, sign: str, parts: list[ast.expr]) -> None:
        """`print > "file"`, `print | "command"`, `"command" | getline`."""
        target = self._token
        before = {token.text for token in self._tokens[max(self._at - 13, 0) : self._at]}
        if target.text == "getline" and parts:
            parts.append(ast.Call(ast.Name("|"), [parts.pop()], []))
        elif target.kind == "string" and (sign[0] == "|" or before & {"print", "printf"}):
            self._at += 1
            printed = [part for part in parts if not isinstance(part, ast.Name)]  # `print` is a name
            literal = printed and all(isinstance(part, ast.Constant) and part.value for part in printed)
            text = ast.JoinedStr(printed) if literal else ast.Constant(self._stdin)
            given = [ast.keyword("input", text)] if literal or self._stdin else []
            name = "|" if sign[0] == "|" else f"print{sign}"
            parts.append(ast.Call(ast.Name(name), [self._literal(target)], given))

    def _literal(self, token: _Token) -> ast.expr:
        text = token.text if token.kind != "quoted" else re.sub(r"^(?:%[xqQ]|q[qx]?)", "", token.text)
        if token.kind == "number":
            return ast.Constant(text)
        value: ast.expr = ast.Constant(_unescaped(text[1:-1]))
        if text[0] != "'" and not self._language.redirects:
            value = ast.JoinedStr(_interpolated(text[1:-1]))
        in_ticks = token.kind == "ticks" and (self._language.ticks or self._tokens[self._at - 2].text == "$")
        return ast.Call(ast.Name("system"), [value], []) if in_ticks or token.text[:2] in ("%x", "qx") else value


def _text_of(items: list[ast.expr]) -> str:
    """The only item of a list, if it is a string."""
    item = items[0] if len(items) == 1 else None
    if isinstance(item, ast.JoinedStr) and len(item.values) == 1:
        item = item.values[0]
    return item.value if isinstance(item, ast.Constant) and isinstance(item.value, str) else ""


def _interpolated(text: str) -> list[ast.expr]:
    """The parts of a string with variables in it: `a #{b} $c`."""
    return [
        ast.Name(re.sub(r"[#${}]", "", part)) if place % 2 else ast.Constant(_unescaped(part))
        for place, part in enumerate(_INSIDE.split(text))
    ]


_READERS: Final[Mapping[str, type[PythonReader]]] = {"python": PythonReader}
