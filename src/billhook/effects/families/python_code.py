"""What code does, from its syntax tree: that of Python, into which `code.py` puts other languages as well.

Nothing is run. Values are followed through variables, string operations, paths, loops over lists and functions of the
text itself; code of imported modules is not looked at.
"""

import ast
import base64
import codecs
import functools
import math
import operator
import posixpath
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from billhook.effects.effect import UNKNOWN
from billhook.effects.families.languages import (
    DEEPEST,
    LARGEST_CODE,
    CodeReader,
    KnownValue,
    Language,
    origins_of,
    text_of,
)
from billhook.effects.table import Call, word_set

MOST_STEPS: Final = 50_000  # nodes that are visited; 64 KiB of usual code needs fewer
MOST_ROUNDS: Final = 32  # of a loop
LARGEST_RESULT: Final = 1 << 22  # of a computation: two short texts can make a very long one
NOTHING: Final = KnownValue()
UNPARSED: Final = "it can't be parsed"
_OPAQUE_MODULES: Final = frozenset({"ctypes", "cffi"})
_NAMESPACES: Final = (
    "builtins.",
    "__builtins__.",
    "sys.modules.",
    "globalThis.",
    "global.",
)  # their content has a separate name
_HOMES: Final = ("os.environ.HOME", "process.env.HOME", "Dir.home")
_CODECS: Final = word_set("utf-8 utf8 ascii latin-1 hex base64 rot13 rot_13")  # others may make very much of little

# ----- functions that only compute

_PURE: Final = word_set("""
    base64.b64decode base64.urlsafe_b64decode base64.decodebytes base64.b32decode base64.b16decode base64.b85decode
    binascii.unhexlify binascii.a2b_hex binascii.a2b_base64 zlib.decompress gzip.decompress shlex.split shlex.quote
    posixpath.join posixpath.dirname posixpath.basename builtins.bytes.fromhex builtins.bytearray.fromhex builtins.chr
    builtins.str builtins.sorted builtins.list builtins.tuple builtins.reversed
    builtins.str.join builtins.str.replace builtins.str.strip builtins.str.lower builtins.str.upper builtins.str.split
""")
"""They are called with the values that the text shows."""


def _joined(*parts: Any) -> str:
    return posixpath.join(*map(text_of, parts)) if parts else "."


def _same(value: Any = "", *_: Any) -> Any:
    return value


def _decode(data: Any, codec: Any = "utf-8", *_: Any) -> Any:
    if codec in ("rot13", "rot_13"):
        return codecs.encode(text_of(data), "rot13")
    return codecs.decode(data if isinstance(data, bytes) else data.encode(), codec) if codec in _CODECS else None


def _decode_longest(*args: Any) -> Any:
    """`atob("...")`, `Buffer.from("...", "hex")`, `pack("H*", "...")`: the longest argument is the data."""
    data = max((text_of(arg) for arg in args), key=len)
    try:
        return bytes.fromhex(data)
    except ValueError:
        return base64.b64decode(data)


def _formatted(text: Any, *values: Any) -> str:
    """`%s` and `{}` replaced in their order; no widths, which could ask for gigabytes."""
    found = text_of(text).replace("{}", "%s").replace("{0}", "%s")
    for value in values:
        found = found.replace("%s", text_of(value), 1)
    return found


_RULES: Final[tuple[tuple[str, Callable[..., Any]], ...]] = (
    ("pathlib.Path pathlib.PurePath pathlib.PosixPath .joinpath", _joined),
    ("os.path.expanduser os.path.abspath os.path.realpath os.path.normpath os.fspath compile sys.intern", _same),
    (".expanduser .resolve .absolute .as_posix .copy .toString .trim .to_s .chomp", _same),
    ("glob Dir.glob Sys.glob Path.wildcard Pathname.new Pathname File sprintf text sqlalchemy.text", _same),
    ("escapeshellarg Shellwords.escape Shellwords.shellescape", _same),
    ("parse Meta.parse path.expand Path.expand", _same),
    ("codecs.decode .decode", _decode),
    ("atob Buffer.from Base64.decode64 Base64.strict_decode64 Base64.urlsafe_decode64 decode64", _decode_longest),
    (".unpack .unpack1 .pack pack decode_base64 base64_decode hex2bin", _decode_longest),
    ("Base.decode64 Base.decode16 .decodeBase64 .decodeHex", _decode_longest),
    (".encode", lambda text, *_: text.encode()),
    (".format", _formatted),
    ("bytes bytearray", lambda value=b"", *_: bytes(value) if isinstance(value, tuple | bytes) else value),
    ("c", lambda *items: sum(map(_tuple, items), ())),
    ("os.path.expandvars", lambda path: path.replace("${HOME}", "~").replace("$HOME", "~")),
    ("os.getenv os.environ.get", lambda name, *_: "~" if name == "HOME" else None),
    ("pathlib.Path.home homedir System.user_home", lambda: "~"),
    ("os.getcwd pathlib.Path.cwd", lambda: "."),
    ("tempfile.gettempdir", lambda: "/tmp"),
    ("tempfile.mkdtemp tempfile.mktemp tempfile.TemporaryDirectory", lambda *_: "/tmp/" + UNKNOWN),
    ("tempfile.NamedTemporaryFile", lambda *_: "/tmp/" + UNKNOWN),
    ("glob.glob glob.iglob", lambda pattern, *_: (pattern,)),
    ("os.listdir", lambda *_: ("*",)),
    ("os.scandir .iterdir", lambda folder=".": (_joined(folder, "*"),)),
    (".glob", lambda folder, pattern: (_joined(folder, pattern),)),
    (".rglob", lambda folder, pattern: (_joined(folder, "**", pattern),)),
    ("os.walk", lambda folder, *_: ((folder, ("*",), ("*",)),)),
)
"""Functions, and how their value follows from their arguments; the first argument comes before a name with a dot."""


@functools.cache
def _functions() -> Mapping[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for name in _PURE:
        module, _, function = name.partition(".")
        known_as = name.replace("posixpath.", "os.path.").replace("builtins.str.", ".").removeprefix("builtins.")
        found[known_as] = operator.attrgetter(function)(import_module(module))
    return found | {name: compute for names, compute in _RULES for name in names.split()}


def _result(compute: Callable[..., Any], args: Sequence[Any]) -> Any:
    """The result of a function; None if it fails, or would be too large."""
    sizes = sorted(map(_size, args))
    if max(sum(sizes), math.prod(sizes[-2:])) > LARGEST_RESULT:
        return None
    try:
        found = compute(*map(_plain, args))
    except Exception:  # the arguments come from the code: a function that fails has no value
        return None
    if isinstance(found, bytes) and any(arg is None or (isinstance(arg, str) and UNKNOWN in arg) for arg in args):
        return None
    return found if isinstance(found, str | bytes | int | None) else tuple(found)


def _size(value: Any) -> int:
    return sum(map(_size, value)) if isinstance(value, tuple) else len(value) if isinstance(value, str | bytes) else 1


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, tuple) else UNKNOWN if value is None else value


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _added(left: Any, right: Any) -> Any:
    if isinstance(left, tuple) or isinstance(right, tuple):
        return _tuple(left) + _tuple(right)
    return left + right if isinstance(left, bytes) else text_of(left) + text_of(right)


_OPERATORS: Final[Mapping[type[ast.operator], Callable[..., Any]]] = {
    ast.Add: _added,
    ast.Div: _joined,
    ast.Mod: lambda left, right: _formatted(left, *_tuple(right)),
    ast.Mult: lambda left, times: left * times if isinstance(left, str) and times <= LARGEST_CODE else None,
}


class PythonReader(CodeReader):
    """One text, and all that it does."""

    def __init__(self, language: Language, call: Call, args: Sequence[str]) -> None:
        super().__init__(language, call)
        self.operands = args
        self._variables = {"sys.argv": KnownValue(("", *args)), **dict.fromkeys(_HOMES, KnownValue("~"))}
        self._functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._entered: set[str] = set()
        self._steps = 0
        self._returned = NOTHING

    def run(self, text: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = self.parse(text.strip())
        except (SyntaxError, ValueError):
            self.understood = False
            self.effects.append(self.call.effect("run-opaque", weight="light", certain=False, why=UNPARSED))
            return
        self._eval(tree)
        if self.depth == 0:
            self.certain = False  # callbacks and methods: whether they run is not shown
            for name in [name for name in self._functions if name not in self._entered]:
                self._enter(name, [])

    def parse(self, text: str) -> ast.AST:
        """The code as a tree of Python."""
        return ast.parse(text)

    def _eval(self, node: ast.AST | None) -> KnownValue:
        """Note what a node does; the value that it has."""
        self._steps += 1
        self.gave_up = self.gave_up or self._steps > MOST_STEPS
        if node is None or self._steps > MOST_STEPS:
            self.understood = self.understood and node is None
            return NOTHING
        visit = getattr(self, f"_of_{type(node).__name__.lower()}", self._children)
        seen: KnownValue = visit(node)
        too_long = isinstance(seen.value, str | bytes | tuple) and len(seen.value) > LARGEST_CODE
        return seen._replace(value=None) if too_long else seen

    def _children(self, node: ast.AST) -> KnownValue:
        return KnownValue(origins=origins_of([self._eval(child) for child in ast.iter_child_nodes(node)]))

    # ----- statements

    def _of_import(self, node: ast.Import) -> KnownValue:
        for alias in node.names:
            first = alias.name.split(".")[0]
            self._variables[alias.asname or first] = self._named(alias.name if alias.asname else first)
        return NOTHING

    def _of_importfrom(self, node: ast.ImportFrom) -> KnownValue:
        known = (name.rpartition(".") for name in (*self.calls, *_functions()))
        every = [name for module, _, name in known if module == node.module]
        for alias in node.names:
            for name in every if alias.name == "*" else [alias.name]:
                self._variables[alias.asname or name] = self._named(f"{node.module}.{name}")
            self.understood = self.understood and alias.name != "*"
        return NOTHING

    def _of_assign(self, node: ast.Assign) -> KnownValue:
        seen = self._eval(node.value)
        for target in node.targets:
            self._bind(target, seen)
        return seen

    def _of_namedexpr(self, node: ast.NamedExpr | ast.AnnAssign) -> KnownValue:
        return self._bind(node.target, self._eval(node.value))

    def _of_augassign(self, node: ast.AugAssign) -> KnownValue:
        return self._bind(node.target, self._of_binop(ast.BinOp(node.target, ast.Add(), node.value)))

    def _of_withitem(self, node: ast.withitem) -> KnownValue:
        return self._bind(node.optional_vars, self._eval(node.context_expr))

    def _of_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> KnownValue:
        self._functions[node.name] = node
        return NOTHING

    def _of_return(self, node: ast.Return) -> KnownValue:
        self._returned = self._eval(node.value)
        return self._returned

    def _of_for(self, node: ast.For | ast.AsyncFor) -> KnownValue:
        for item in self._each(self._eval(node.iter))[:MOST_ROUNDS]:
            self._bind(node.target, item)
            for statement in node.body:
                self._eval(statement)
        return NOTHING

    def _of_listcomp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> KnownValue:
        return self._listed(list(self._comprehended(node.elt, node.generators)))

    def _comprehended(self, element: ast.expr, generators: Sequence[ast.comprehension]) -> Iterator[KnownValue]:
        if not generators:
            yield self._eval(element)
            return
        for item in self._each(self._eval(generators[0].iter)):
            self._bind(generators[0].target, item)
            yield from self._comprehended(element, generators[1:])

    _of_annassign, _of_asyncfunctiondef, _of_asyncfor = _of_namedexpr, _of_functiondef, _of_for
    _of_generatorexp = _of_setcomp = _of_listcomp

    def _each(self, seen: KnownValue) -> list[KnownValue]:
        """The items of a value; one that is not known where they don't show, or are added later."""
        items = seen.value if isinstance(seen.value, bytes) else _tuple(seen.value)
        self._steps += len(items)
        return [KnownValue(item, "", seen.origins) for item in items or (None,)]

    def _bind(self, target: ast.AST | None, seen: KnownValue) -> KnownValue:
        if isinstance(target, ast.Tuple | ast.List):
            items = self._each(seen)
            for place, inner in enumerate(target.elts):
                known = len(items) == len(target.elts)
                self._bind(inner, items[place] if known else KnownValue(origins=seen.origins))
        elif target is not None:
            name = self._key(target)
            unknown = seen.value is None and not seen.name
            self._variables[name] = seen._replace(name=name) if unknown else seen  # its attributes need its name
        return seen

    def _key(self, node: ast.AST) -> str:
        """The name under which a variable is kept: `a.b` for `a.b` and `a["b"]`."""
        if isinstance(node, ast.Attribute):
            return f"{self._key(node.value)}.{node.attr}"
        if isinstance(node, ast.Subscript):
            return f"{self._key(node.value)}.{self._eval(node.slice).text}"
        return node.id if isinstance(node, ast.Name) else ""

    # ----- values

    def _named(self, name: str) -> KnownValue:
        """A module, a function or a variable by its whole name."""
        for prefix in _NAMESPACES:
            name = name.removeprefix(prefix)
        if name in _OPAQUE_MODULES:
            self.understood = False
        return self._variables.get(name, KnownValue(name=name))

    def _attribute(self, seen: KnownValue, name: str) -> KnownValue:
        if name == "__dict__" or (name == "path" and not seen.name):  # `path` of an entry of os.scandir
            return seen
        if name == "parent":
            return seen._replace(value=posixpath.dirname(seen.text))
        found = self._named(f"{seen.name}.{name}") if seen.name else NOTHING
        if not seen.name and self.language.name == "js":  # `const run = require("child_process").execSync`
            found = KnownValue(name=name)
        return found._replace(origins=found.origins | seen.origins)

    def _of_constant(self, node: ast.Constant) -> KnownValue:
        if isinstance(node.value, int) and abs(node.value) > 1 << 32:
            return NOTHING  # no index and no character; writing it out may take long
        return KnownValue(node.value) if isinstance(node.value, str | bytes | int) else NOTHING

    def _of_name(self, node: ast.Name) -> KnownValue:
        return self._named(node.id)

    def _of_attribute(self, node: ast.Attribute) -> KnownValue:
        return self._attribute(self._eval(node.value), node.attr)

    def _of_joinedstr(self, node: ast.JoinedStr) -> KnownValue:
        parts = [self._eval(part) for part in node.values]
        known = sum(_size(part.value) for part in parts) <= LARGEST_CODE
        return KnownValue("".join(part.text for part in parts) if known else None, "", origins_of(parts))

    def _of_formattedvalue(self, node: ast.FormattedValue | ast.Await) -> KnownValue:
        return self._eval(node.value)

    def _of_list(self, node: ast.Tuple | ast.List | ast.Set) -> KnownValue:
        return self._listed(self._items(node.elts))

    _of_await, _of_tuple, _of_set = _of_formattedvalue, _of_list, _of_list

    def _items(self, nodes: Sequence[ast.expr]) -> list[KnownValue]:
        found: list[KnownValue] = []
        for node in nodes:
            found += self._each(self._eval(node.value)) if isinstance(node, ast.Starred) else [self._eval(node)]
        return found

    def _of_boolop(self, node: ast.BoolOp | ast.IfExp) -> KnownValue:
        """The first of several values that is known."""
        nodes = [node.body, node.orelse, node.test] if isinstance(node, ast.IfExp) else node.values
        parts = [self._eval(each) for each in nodes]
        return next((part for part in parts if part.value), NOTHING)._replace(origins=origins_of(parts))

    _of_ifexp = _of_boolop

    def _of_unaryop(self, node: ast.UnaryOp) -> KnownValue:
        seen = self._eval(node.operand)
        return seen._replace(value=_result(operator.neg, [seen.value]) if isinstance(node.op, ast.USub) else None)

    def _of_binop(self, node: ast.BinOp) -> KnownValue:
        left, right = self._eval(node.left), self._eval(node.right)
        compute = _OPERATORS.get(type(node.op), lambda *_: None)
        return KnownValue(_result(compute, [left.value, right.value]), "", origins_of([left, right]))

    def _of_slice(self, node: ast.Slice) -> KnownValue:
        return KnownValue(slice(*(self._eval(part).value for part in (node.lower, node.upper, node.step))))

    def _of_subscript(self, node: ast.Subscript) -> KnownValue:
        base, index = self._eval(node.value), self._eval(node.slice).value
        if base.name and isinstance(index, str):
            return self._attribute(base, index)  # `vars(os)["system"]`
        return base._replace(value=_result(operator.getitem, [base.value, index]) if base.value else None)

    def _listed(self, items: list[KnownValue]) -> KnownValue:
        """A list of values; what lists in it hold must be plain, as lists of lists of lists can be very large."""
        values = tuple(item.value for item in items)
        inner = [leaf for value in values if isinstance(value, tuple) for leaf in value]
        self._steps += len(inner)
        return KnownValue(None if any(isinstance(leaf, tuple) for leaf in inner) else values, "", origins_of(items))

    # ----- calls

    def _of_call(self, node: ast.Call) -> KnownValue:
        function, before = node.func, list[KnownValue]()
        if isinstance(function, ast.Lambda):
            return self._enter_lambda(function, self._items(node.args))
        if isinstance(function, ast.Attribute):
            before = [self._eval(function.value)]
            name, method = self._attribute(before[0], function.attr).name, function.attr
        else:
            called = self._eval(function)
            by_text = called.value if self.language.name == "php" and isinstance(called.value, str) else ""
            name = method = called.name or by_text  # `$f = "system"; $f("...")`
        args = self._items(node.args)
        named = {keyword.arg or "": self._eval(keyword.value) for keyword in node.keywords}
        if name in self._functions or (method in self._functions and before):
            return self._enter(method, args)
        if method == "then" and args and self.calls.get(args[0].name) == "code":  # `fetch(...).then(eval)`
            return self.act("code", before, {})
        found = self._looked_up(name, [*before, *args])
        return self._call(name, method, before, args, named) if found is None else found

    def _call(
        self, name: str, method: str, before: list[KnownValue], args: list[KnownValue], named: Mapping[str, KnownValue]
    ) -> KnownValue:
        seen = KnownValue(origins=origins_of([*before, *args, *named.values()]))
        names = [(name, args), (self._last_part(method), args)]
        names[1:1] = [(f".{method}", [*before, *args])] if before else []
        for each, given in names:
            if each in self.calls and self._is_meant(each, given):
                seen = self.act(self.calls[each], given, named, method)
                break
        for each, given in names:
            if each in _functions():
                return seen._replace(value=_result(_functions()[each], [arg.value for arg in given]))
        return seen

    def _last_part(self, name: str) -> str:
        """`rmSync` of `fs.rmSync`. In Python the module decides, except for clients of a cloud."""
        if self.language.name != "python":
            return name.rpartition(".")[2]
        return f"boto3.{name.partition('_')[0]}_" if "boto3" in self._variables else ""

    def _is_meant(self, name: str, args: list[KnownValue]) -> bool:
        """Whether a call is the listed one: `"a".replace("b", "c")` moves no file, `/a/.exec(b)` runs nothing."""
        if name in (".rename", ".replace"):
            return len(args) == 2 and isinstance(args[0].value, str)
        if name == ".system":
            return len(args) > 1  # `platform.system()`
        if name == ".delete" and self.language.name == "python":
            return args[0].name.endswith((".objects", ".objects.all", ".query"))
        return self.calls[name] not in ("run", "fork") or re.search(self.language.processes, self.text) is not None

    def _looked_up(self, name: str, args: list[KnownValue]) -> KnownValue | None:
        """Modules and functions that are found by their names, and functions that are called for every item."""
        if name in ("globals", "locals"):
            return KnownValue(name="builtins")
        if name in ("__import__", "importlib.import_module", "importlib.__import__") and args:
            return self._named(args[-1].text)
        if name == "getattr" and len(args) > 1:
            return self._attribute(args[0], args[1].text)
        if name in ("map", "array_map") and len(args) == 2:
            function = args[0].name or args[0].text
            return self._listed([self._call(function, "", [], [item], {}) for item in self._each(args[1])])
        if name.endswith((".objects.all", ".objects")):
            return KnownValue(name=name)  # every row of a table
        return args[0] if name == "vars" and args else None

    def _enter_lambda(self, function: ast.Lambda, args: list[KnownValue]) -> KnownValue:
        for parameter, seen in zip(function.args.args, args, strict=False):
            self._variables[parameter.arg] = seen
        return self._eval(function.body)

    def _enter(self, name: str, args: list[KnownValue]) -> KnownValue:
        """Evaluate the body of a function of the text, its parameters bound."""
        self._entered.add(name)
        if self.depth > DEEPEST:
            return NOTHING
        function, self._returned = self._functions[name], NOTHING
        parameters = [each.arg for each in function.args.args if each.arg not in ("self", "cls")]
        for place, parameter in enumerate(parameters):
            self._variables[parameter] = args[place] if place < len(args) else NOTHING
        self.depth += 1
        for statement in function.body:
            self._eval(statement)
        self.depth -= 1
        return self._returned
