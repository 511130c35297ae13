"""What a text of Python does: literal calls, found in its syntax tree with the values that the text shows.

Nothing is run. Values are followed through variables, string operations, paths, loops over lists and functions of the
text itself; code of imported modules is not looked at.
"""

import ast
import base64
import binascii
import codecs
import posixpath
import shlex
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Union

import msgspec

from billhook.effects.effect import UNKNOWN, Effect, Kind, Weight
from billhook.effects.families.databases import effects_of_sql
from billhook.effects.families.network import is_here
from billhook.effects.places import absolute
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import Call, word_set

Value = Union[str, bytes, int, tuple["Value", ...], None]  # noqa: UP007, `|` takes no forward reference

LARGEST_CODE: Final = 64 * 1024
MOST_STEPS: Final = 50_000  # nodes that are looked at; a text of 64 KiB that computes needs fewer
MOST_ITEMS: Final = 32
DEEPEST: Final = 4
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh"})
_HARMLESS_DEVICES: Final = ("/dev/null", "/dev/std", "/dev/tty", "/dev/zero", "/dev/fd", "/dev/shm")

_ON_FILES: Final[Mapping[str, tuple[tuple[Kind, int], ...]]] = {
    **dict.fromkeys(("os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree"), (("delete", 0),)),
    **dict.fromkeys(("os.rename", "os.replace", "os.renames", "shutil.move"), (("delete", 0), ("overwrite", 1))),
    **dict.fromkeys(("shutil.copy", "shutil.copy2", "shutil.copyfile"), (("overwrite", 1),)),
    **dict.fromkeys(("shutil.copytree", "os.symlink", "os.link"), (("write", 1),)),
    **dict.fromkeys(("os.chmod", "os.chown", "shutil.chown", "os.lchmod"), (("permissions", 0),)),
    **dict.fromkeys(("os.mkdir", "os.makedirs", "os.mkfifo"), (("write", 0),)),
    "os.truncate": (("overwrite", 0),),
}
"""Functions, and what they do to the paths at which places of their arguments."""

_METHODS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("unlink", "rmdir", "rmtree"), "delete"),
    **dict.fromkeys(("write_text", "write_bytes"), "overwrite"),
    **dict.fromkeys(("touch", "symlink_to", "hardlink_to"), "write"),
    "chmod": "permissions",
}
"""Methods of a path."""

_SHELL_TEXT: Final = word_set("os.system os.popen subprocess.getoutput subprocess.getstatusoutput commands.getoutput "
                              "asyncio.create_subprocess_shell")  # fmt: skip
_PROCESS: Final = word_set("subprocess.run subprocess.call subprocess.Popen subprocess.check_call "
                           "subprocess.check_output pty.spawn")  # fmt: skip
_SPREAD: Final = word_set("os.execl os.execlp os.execle os.spawnl os.spawnlp asyncio.create_subprocess_exec")
_LISTED: Final = word_set("os.execv os.execvp os.execve os.execvpe os.spawnv os.spawnvp os.posix_spawn os.posix_spawnp")
_DECODES: Final = word_set("b64decode urlsafe_b64decode decodebytes a2b_base64 fromhex unhexlify decode decompress")
_STARRED: Final = word_set("shutil.rmtree shutil.move os.remove os.unlink os.system os.popen pathlib.Path")
_RUN_CODE: Final = word_set("exec eval code.interact runpy.run_string")
_REMOTE: Final = word_set("requests.get requests.post requests.request httpx.get httpx.post urllib.request.urlopen "
                          "urllib.urlopen urllib2.urlopen urllib.request.urlretrieve")  # fmt: skip
_SENDS: Final = word_set("requests.post requests.put requests.patch httpx.post httpx.put httpx.patch requests.request")
_SENDING_METHODS: Final = word_set("send sendall sendto sendmail send_message storbinary storlines")
_PRINTS: Final = word_set("print sys.stdout.write sys.stderr.write pprint.pprint")
_DROPS: Final = word_set("drop_all drop_database flushall flushdb dropDatabase")
_SOCKETS: Final = word_set("socket.socket socket.create_connection")
_ATTACHES: Final = word_set("os.dup2 pty.spawn fileno")
_OPENS: Final = word_set("open io.open codecs.open gzip.open")
_TEMPORARY: Final = word_set("tempfile.mkdtemp tempfile.mktemp tempfile.TemporaryDirectory tempfile.NamedTemporaryFile")


def _text(value: Value) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else UNKNOWN if value is None else str(value)


def _data(value: Value) -> bytes:
    return value if isinstance(value, bytes) else _text(value).encode("latin-1")


def _join(*parts: Value) -> str:
    return posixpath.join(*map(_text, parts)) if parts else "."


def _inflate(data: Value, *_: Value) -> Value:
    return zlib.decompressobj(47).decompress(_data(data), LARGEST_CODE)


def _decode(data: Value, codec: Value = "utf-8", *_: Value) -> Value:
    if codec in ("rot13", "rot_13"):
        return codecs.encode(_text(data), "rot13")
    found: object = codecs.decode(_data(data), _text(codec)) if codec in ("hex", "base64") else _text(data)
    return found if isinstance(found, str | bytes) else None


def _octets(value: Value = b"", *_: Value) -> Value:
    if isinstance(value, tuple):
        return bytes(item for item in value if isinstance(item, int))
    return None if isinstance(value, int) else _data(value)


_DECODERS: Final[Mapping[str, Callable[..., Value]]] = {
    **dict.fromkeys(
        ("base64.b64decode", "base64.urlsafe_b64decode", "base64.decodebytes", "binascii.a2b_base64"),
        lambda data, *_: base64.b64decode(_data(data).replace(b"-", b"+").replace(b"_", b"/")),
    ),
    "base64.b32decode": lambda data, *_: base64.b32decode(_data(data)),
    "base64.b16decode": lambda data, *_: base64.b16decode(_data(data)),
    "base64.b85decode": lambda data, *_: base64.b85decode(_data(data)),
    **dict.fromkeys(("bytes.fromhex", "bytearray.fromhex"), lambda data: bytes.fromhex(_text(data))),
    **dict.fromkeys(("binascii.unhexlify", "binascii.a2b_hex"), lambda data: binascii.unhexlify(_data(data))),
    "codecs.decode": _decode,
    "zlib.decompress": _inflate,
    "gzip.decompress": _inflate,
    "chr": lambda number: chr(number) if isinstance(number, int) else None,
    "marshal.loads": lambda *_: None,
    "pickle.loads": lambda *_: None,
}
_same: Callable[..., Value] = lambda value="", *_: _text(value)
_items: Callable[..., Value] = lambda value=(): value if isinstance(value, tuple) else tuple(_text(value))
_COMPUTED: Final[Mapping[str, Callable[..., Value]]] = {
    **_DECODERS,
    **dict.fromkeys(("os.path.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath"), _join),
    **dict.fromkeys(("os.path.expanduser", "os.path.abspath", "os.path.realpath", "os.path.normpath"), _same),
    **dict.fromkeys(("str", "os.fspath", "compile", "shlex.quote", "sys.intern"), _same),
    "os.path.expandvars": lambda path: _text(path).replace("${HOME}", "~").replace("$HOME", "~"),
    "os.path.dirname": lambda path: posixpath.dirname(_text(path)),
    "pathlib.Path.home": lambda: "~",
    **dict.fromkeys(("os.getcwd", "pathlib.Path.cwd"), lambda: "."),
    **dict.fromkeys(("os.getenv", "os.environ.get"), lambda name, *_: "~" if name == "HOME" else None),
    **dict.fromkeys(_TEMPORARY, lambda *_: "/tmp/" + UNKNOWN),
    "tempfile.gettempdir": lambda: "/tmp",
    **dict.fromkeys(("glob.glob", "glob.iglob"), lambda pattern, *_: (_text(pattern),)),
    "os.listdir": lambda *_: ("*",),
    "os.scandir": lambda folder=".": (_join(folder, "*"),),
    "os.walk": lambda folder, *_: ((_text(folder), ("*",), ("*",)),),
    **dict.fromkeys(("bytes", "bytearray"), _octets),
    **dict.fromkeys(("list", "tuple", "set", "sorted", "iter"), _items),
    "reversed": lambda value: _items(value)[::-1],  # type: ignore[index]
    "shlex.split": lambda text: tuple(shlex.split(_text(text))),
}
"""Functions whose value follows from their arguments."""


def _replace(text: Value, old: Value, new: Value, *_: Value) -> Value:
    # bounded: two short texts can make a very long one
    return None if len(_text(text)) * len(_text(new)) > 1 << 22 else _text(text).replace(_text(old), _text(new))


def _joined(text: Value, items: Value) -> Value:
    parts = [_text(item) for item in items] if isinstance(items, tuple) else [*_text(items)]
    return None if len(parts) * len(_text(text)) > 1 << 22 else _text(text).join(parts)


def _formatted(text: Value, *values: Value) -> Value:
    """`%s` and `{}` replaced in their order; no widths, which could ask for gigabytes."""
    found = _text(text).replace("{}", "%s").replace("{0}", "%s")
    for value in values:
        found = found.replace("%s", _text(value), 1)
    return found


_TEXT_METHODS: Final[Mapping[str, Callable[..., Value]]] = {
    "decode": _decode,
    "encode": lambda text, *_: _data(text),
    "join": _joined,
    "format": _formatted,
    "replace": _replace,
    "strip": lambda text, *_: _text(text).strip(),
    "lower": lambda text: _text(text).lower(),
    "split": lambda text, sep=None, *_: tuple(_text(text).split(None if sep is None else _text(sep))),
    "joinpath": _join,
    **dict.fromkeys(("expanduser", "resolve", "absolute", "as_posix", "copy"), _same),
    "glob": lambda folder, pattern: (_join(folder, pattern),),
    "rglob": lambda folder, pattern: (_join(folder, "**", pattern),),
    "iterdir": lambda folder: (_join(folder, "*"),),
}
"""Methods of texts and paths, the receiver first."""


class PythonReader:
    """One text of Python, and all that it does."""

    def __init__(self, call: Call, args: Sequence[str]) -> None:
        self.call = call
        self.effects: list[Effect] = []
        self.shell: list[str] = []
        self.understood = True
        self._values: dict[str, Value] = {"sys.argv": ("", *args)}
        self._names: dict[str, str] = {}  # what a name stands for: `o` for `os`, `s` for `os.system`
        self._origins: dict[str, frozenset[str]] = {}
        self._functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._called: set[str] = set()
        self._secrets: list[str] = []
        self._databases: list[str] = []
        self._steps = self._depth = 0
        self._certain = True
        self._folder = ""

    def read(self, text: str) -> None:
        """Read a whole text."""
        try:
            self._run(text)
            self._certain = False  # callbacks and methods: whether they run is not shown
            for name in [name for name in self._functions if name not in self._called]:
                self._enter(name, [])
        except (RecursionError, MemoryError):
            self.understood = False
        if self._called & _SOCKETS and self._called & _ATTACHES:
            self._add(self.call.effect("remote-shell", scope="remote"))

    def _run(self, text: str) -> None:
        if len(text) > LARGEST_CODE or self._depth > DEEPEST:
            self.understood = False
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text.strip())
        except (SyntaxError, ValueError):
            self.understood = False
            return
        self._depth += 1
        self._children(tree)
        self._depth -= 1

    def _add(self, effect: Effect) -> None:
        self.effects.append(effect)

    # ----- statements, in their order

    def _children(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self._visit(child)

    def _visit(self, node: ast.AST) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            self.understood = False
            return
        visit = getattr(self, f"_on_{type(node).__name__.lower()}", self._children)
        visit(node)

    def _on_import(self, node: ast.Import) -> None:
        for alias in node.names:
            first = alias.name.split(".")[0]
            self._names[alias.asname or first] = alias.name if alias.asname else first

    def _on_importfrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            if alias.name == "*":
                known = (name.rpartition(".") for name in _SHELL_TEXT | _PROCESS | _SPREAD | _LISTED | _STARRED)
                self._names |= {name: f"{module}.{name}" for module, _, name in known if module == node.module}
            self.understood = self.understood and alias.name != "*"

    def _on_assign(self, node: ast.Assign) -> None:
        self._visit(node.value)
        for target in node.targets:
            self._bind(target, node.value)

    def _on_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._visit(node.value)
            self._bind(node.target, node.value)

    def _on_namedexpr(self, node: ast.NamedExpr) -> None:
        self._visit(node.value)
        self._bind(node.target, node.value)

    def _on_augassign(self, node: ast.AugAssign) -> None:
        self._visit(node.value)
        key = self._dotted(node.target)
        value = _text(self._values.get(key)) + _text(self._value(node.value))
        self._set(node.target, value, self._origins_of(node.value) | self._origins.get(key, frozenset()))

    def _on_withitem(self, node: ast.withitem) -> None:
        self._visit(node.context_expr)
        if node.optional_vars is not None:
            self._bind(node.optional_vars, node.context_expr)

    def _on_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._functions[node.name] = node

    _on_asyncfunctiondef = _on_functiondef

    def _on_for(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit(node.iter)
        for item in self._each(node.iter):
            self._set(node.target, item, self._origins_of(node.iter))
            for statement in node.body:
                self._visit(statement)

    _on_asyncfor = _on_for

    def _on_listcomp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> None:
        for generator in node.generators:
            self._visit(generator.iter)
        for item in self._each(node.generators[0].iter):
            self._set(node.generators[0].target, item, frozenset())
            self._visit(node.elt)

    _on_generatorexp = _on_setcomp = _on_listcomp

    def _each(self, node: ast.expr) -> Sequence[Value]:
        items = self._value(node)
        return items[:MOST_ITEMS] if isinstance(items, tuple) and items else (None,)

    def _bind(self, target: ast.expr, node: ast.expr) -> None:
        name = self._dotted(node)
        known = name and (isinstance(node, ast.Attribute | ast.Call) or name in (*self._names.values(), "open"))
        if isinstance(target, ast.Name):
            self._names.pop(target.id, None)
            if known and self._value(node) is None:
                self._names[target.id] = name
        self._set(target, self._value(node), self._origins_of(node))

    def _set(self, target: ast.expr, value: Value, origins: frozenset[str]) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            parts = value if isinstance(value, tuple) and len(value) == len(target.elts) else (None,) * len(target.elts)
            for inner, part in zip(target.elts, parts, strict=True):
                self._set(inner, part, origins)
        elif isinstance(target, ast.Name | ast.Attribute):
            key = self._dotted(target)
            self._values[key], self._origins[key] = value, origins

    # ----- values

    def _dotted(self, node: ast.AST) -> str:
        """The name of a function or module, whatever way it is reached: `os.system`; "" where it has none."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            return ""
        if isinstance(node, ast.Name):
            return self._names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self._dotted(node.value)
            return f"{base}.{node.attr}".removeprefix("builtins.").removeprefix("__builtins__.") if base else ""
        if isinstance(node, ast.Call):
            name, args = self._dotted(node.func), node.args
            if name in ("__import__", "importlib.import_module", "importlib.__import__") and args:
                return _text(self._value(args[0]))
            if name == "getattr" and len(args) > 1:
                return f"{self._dotted(args[0])}.{_text(self._value(args[1]))}".removeprefix("__builtins__.")
            return self._dotted(args[0]) + ".__dict__" if name == "vars" and args else ""
        if isinstance(node, ast.Subscript):
            base = self._dotted(node.value)
            if base.endswith(".__dict__"):
                return f"{base.removesuffix('.__dict__')}.{_text(self._value(node.slice))}"
            return f"os.environ[{_text(self._value(node.slice))}]" if base == "os.environ" else ""
        return ""

    def _value(self, node: ast.AST | None) -> Value:
        self._steps += 1
        if self._steps > MOST_STEPS:
            return None
        compute = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        value: Value = compute(node) if compute else None
        return None if isinstance(value, str | bytes | tuple) and len(value) > LARGEST_CODE else value

    def _of_constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, int) and abs(node.value) > 1 << 32:
            return None  # no index and no character; writing it out may take long
        return node.value if isinstance(node.value, str | bytes | int) else None

    def _of_name(self, node: ast.Name) -> Value:
        return self._values.get(self._names.get(node.id, node.id))

    def _of_attribute(self, node: ast.Attribute) -> Value:
        if node.attr == "parent":
            return posixpath.dirname(_text(self._value(node.value)))
        if node.attr == "path":  # of an entry of os.scandir
            return self._value(node.value)
        return self._values.get(self._dotted(node))

    def _of_joinedstr(self, node: ast.JoinedStr) -> Value:
        return "".join(_text(self._value(part)) for part in node.values)

    def _of_formattedvalue(self, node: ast.FormattedValue) -> Value:
        return _text(self._value(node.value))

    def _of_tuple(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        found: list[Value] = []
        for item in node.elts:
            value = self._value(item.value if isinstance(item, ast.Starred) else item)
            found += value if isinstance(item, ast.Starred) and isinstance(value, tuple) else [value]
        return tuple(found)

    _of_list = _of_set = _of_tuple

    def _of_listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> Value:
        items = self._value(node.generators[0].iter)
        found = []
        for item in items if isinstance(items, tuple | bytes | str) else ():
            self._set(node.generators[0].target, item, frozenset())
            found.append(self._value(node.elt))
        return tuple(found) if found else None

    _of_generatorexp = _of_listcomp

    def _of_ifexp(self, node: ast.IfExp) -> Value:
        return self._value(node.body)

    def _of_boolop(self, node: ast.BoolOp) -> Value:
        return next((value for part in node.values if (value := self._value(part))), None)

    def _of_namedexpr(self, node: ast.NamedExpr) -> Value:
        return self._value(node.value)

    def _of_binop(self, node: ast.BinOp) -> Value:
        left, right = self._value(node.left), self._value(node.right)
        if isinstance(node.op, ast.Div):
            return _join(left, right)
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            return _formatted(left, *(right if isinstance(right, tuple) else (right,)))
        if isinstance(node.op, ast.Mult) and isinstance(left, str) and isinstance(right, int):
            return left * right if len(left) * right <= LARGEST_CODE else None
        if not isinstance(node.op, ast.Add):
            return None
        if isinstance(left, tuple) or isinstance(right, tuple):
            return (*(left if isinstance(left, tuple) else (left,)), *(right if isinstance(right, tuple) else (right,)))
        if isinstance(left, bytes) and isinstance(right, bytes):
            return left + right
        return _text(left) + _text(right) if isinstance(left, str) or isinstance(right, str) else None

    def _of_subscript(self, node: ast.Subscript) -> Value:
        if self._dotted(node) == "os.environ[HOME]":
            return "~"
        value, place = self._value(node.value), node.slice
        if isinstance(place, ast.Slice):
            return self._sliced(value, place)
        index = self._value(place)
        if isinstance(value, str | tuple) and isinstance(index, int) and -len(value) <= index < len(value):
            return value[index]
        return None

    def _sliced(self, value: Value, place: ast.Slice) -> Value:
        """`text[::-1]` and `argv[1:]`; other steps are not needed."""
        backwards = isinstance(place.step, ast.UnaryOp)
        first, last = (self._value(part) for part in (place.lower, place.upper))
        if not isinstance(first, int | None) or not isinstance(last, int | None):
            return None
        if not isinstance(value, str | bytes | tuple):
            return None
        return value[first:last:-1] if backwards else value[first:last]

    def _of_call(self, node: ast.Call) -> Value:
        name, func = self._dotted(node.func), node.func
        compute = _COMPUTED.get(name)
        args: list[Value] = []
        if compute is None and isinstance(func, ast.Attribute):
            if func.attr in ("read", "read_text", "readline"):
                return self._content(func.value)
            compute, args = _TEXT_METHODS.get(func.attr), [self._value(func.value)]
        if name == "map" and len(node.args) == 2:
            return self._mapped(_COMPUTED.get(self._dotted(node.args[0])), self._value(node.args[1]))
        return self._computed(compute, args + [self._value(arg) for arg in node.args]) if compute else None

    def _mapped(self, compute: Callable[..., Value] | None, items: Value) -> Value:
        if compute is None or not isinstance(items, tuple | bytes):
            return None
        return tuple(self._computed(compute, [item]) for item in items)

    @staticmethod
    def _computed(compute: Callable[..., Value], args: list[Value]) -> Value:
        try:
            return compute(*args)
        except Exception:  # the code's own arguments: whatever a decoder or a method makes of them, it is no value
            return None

    def _content(self, opened: ast.expr) -> Value:
        """The text of a file that the code reads, where it is there to read."""
        path = self._value(opened.args[0]) if isinstance(opened, ast.Call) and opened.args else self._value(opened)
        return self.call.world.fs.read(self._path(path), LARGEST_CODE) if isinstance(path, str) else None

    def _path(self, path: Value) -> str:
        return absolute(_text(path), self.call.command.cwd, self.call.world)

    def _origins_of(self, node: ast.AST) -> frozenset[str]:
        """Where a value comes from: "remote", "decoded", "secret"."""
        found: set[str] = set()
        for inner in ast.walk(node):
            self._steps += 1
            if self._steps > MOST_STEPS:
                break
            if isinstance(inner, ast.Name | ast.Attribute):
                found |= self._origins.get(self._dotted(inner), frozenset())
            elif isinstance(inner, ast.Call):
                found |= self._origins_of_call(inner)
        return frozenset(found)

    def _origins_of_call(self, node: ast.Call) -> set[str]:
        name, method = self._dotted(node.func), node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in _REMOTE or method in ("recv", "urlopen"):
            return {"remote"}
        if name in _DECODERS and name != "chr":
            return {"decoded"}
        path = node.args[0] if name in _OPENS and node.args else None
        if isinstance(node.func, ast.Attribute) and method.startswith("read_"):
            path = node.func.value
        return {"secret"} if path is not None and is_secret_file(self._path(self._value(path))) else set()

    # ----- calls

    def _on_call(self, node: ast.Call) -> None:
        self._children(node)
        name = self._dotted(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else name
        self._called |= {name, method} & (_SOCKETS | _ATTACHES)
        if name in self._functions or (method in self._functions and "." in (name or ".")):
            self._enter(method, node.args)
        elif name in _ON_FILES:
            self._on_files(name, node)
        elif name == "os.open":  # its flags are numbers
            self.understood = False
        elif name in _OPENS or method == "open":
            self._on_open(name, node)
        elif not self._on_process(name, node) and not self._on_data(name, method, node):
            self._on_method(method, node)

    def _enter(self, name: str, args: Sequence[ast.expr]) -> None:
        """Read the body of a function of the text, its parameters bound."""
        function = self._functions[name]
        self._called.add(name)
        if self._depth > DEEPEST:
            return
        parameters = [p for p in function.args.args if p.arg not in ("self", "cls")]
        for parameter, arg in zip(parameters, [*args, *[None] * len(parameters)], strict=False):
            self._values[parameter.arg] = self._value(arg) if arg is not None else None
            self._origins[parameter.arg] = self._origins_of(arg) if arg is not None else frozenset()
        self._depth += 1
        for statement in function.body:
            self._visit(statement)
        self._depth -= 1

    def _argument(self, node: ast.Call, place: int) -> ast.expr | None:
        named = [k.value for k in node.keywords if k.arg in ("path", "src", "dst", "file", "name", "args", "cmd")]
        given = [*node.args, *named]
        return given[place] if place < len(given) else None

    def _act(self, kind: Kind, path: Value, *, recursive: bool = False) -> None:
        word = _text(path)
        if kind in ("overwrite", "write") and self._path(word).startswith("/dev/"):
            if self._path(word).startswith(_HARMLESS_DEVICES):
                return
            kind = "device"
        self.effects += self.call.on_path(
            kind,
            word,
            recursive=recursive,
            itself=kind == "delete",
            certain=self._certain,
            weight="normal" if kind == "device" else None,
        )

    def _on_files(self, name: str, node: ast.Call) -> None:
        for kind, place in _ON_FILES[name]:
            self._act(kind, self._value(self._argument(node, place)), recursive=name == "shutil.rmtree")

    def _on_open(self, name: str, node: ast.Call) -> None:
        args = list(node.args)
        if name not in _OPENS and isinstance(node.func, ast.Attribute):
            args.insert(0, node.func.value)  # Path("x").open("w")
        path = self._value(args[0]) if args else None
        given = [k.value for k in node.keywords if k.arg == "mode"] + args[1:2]
        mode = _text(self._value(given[0])) if given else "r"
        if "w" in mode:
            self._act("overwrite", path)
        elif set("ax+") & set(mode):
            self._act("write", path)
        else:
            self._reads(path)

    def _reads(self, path: Value) -> None:
        if path is not None and is_secret_file(self._path(path)):
            self._secrets.append(_text(path))
            self.effects += self.call.on_path("read-secret", _text(path), weight="light", certain=self._certain)
        elif path is not None:
            self._act("read", path)

    def _on_method(self, method: str, node: ast.Call) -> None:
        """A method of a path; the receiver is one wherever it has such a method."""
        if not isinstance(node.func, ast.Attribute):
            return
        receiver = self._value(node.func.value)
        if method in _METHODS:
            self._act(_METHODS[method], receiver, recursive=method == "rmtree")
        elif method in ("read_text", "read_bytes"):
            self._reads(receiver)
        elif method in ("rename", "replace") and len(node.args) == 1 and isinstance(receiver, str):
            self._act("delete", receiver)
            self._act("overwrite", self._value(node.args[0]))
        elif method in ("extractall", "extract"):
            self._act("write", self._value(self._argument(node, 0)) if node.args or node.keywords else ".")

    # ----- what runs something

    def _on_process(self, name: str, node: ast.Call) -> bool:
        if name in _RUN_CODE:
            self._on_code(node)
        elif name == "os.chdir":
            self._change_folder(self._value(self._argument(node, 0)))
        elif name in ("os.kill", "os.killpg"):
            everything = isinstance(node.args[:1] and node.args[0], ast.UnaryOp)
            self._add(self.call.effect("kill", weight="heavy" if everything else "light", certain=self._certain))
        elif name in _SHELL_TEXT | _PROCESS | _SPREAD | _LISTED:
            self._starts(name, node)
        elif name.startswith(("ctypes.", "cffi.")):
            self.understood = False
        else:
            return False
        return True

    def _starts(self, name: str, node: ast.Call) -> None:
        values = [self._value(arg) for arg in node.args] or [self._value(self._argument(node, 0))]
        if name.startswith(("os.spawn",)):
            del values[:1]
        if name in _SPREAD and name.startswith("os."):
            values = [(values[0] if values else None, *values[2:])]
        elif name in _SPREAD:
            values = [tuple(values)]
        elif name in _LISTED and len(values) > 1 and isinstance(values[1], tuple):
            values = [(values[0], *values[1][1:])]
        command = values[0] if values else None
        if any(k.arg == "shell" for k in node.keywords) and isinstance(command, tuple) and command:
            command = command[0]
        self._runs(command, node)

    def _runs(self, command: Value, node: ast.Call) -> None:
        origins = frozenset().union(*(self._origins_of(arg) for arg in node.args))
        words = [_text(word) for word in command] if isinstance(command, tuple) else []
        text = shlex.join(words) if words else _text(command)
        if text.strip(UNKNOWN + "' "):
            self.shell.append(self._folder + text)
            given = [self._value(k.value) for k in node.keywords if k.arg == "input"]
            if given and given[0] and posixpath.basename("".join(text.split()[:1])) in _SHELLS:
                self.shell.append(self._folder + _text(given[0]))
            return
        self.understood = False
        if "remote" in origins:
            self._add(self.call.effect("run-remote", scope="remote", certain=self._certain))

    def _on_code(self, node: ast.Call) -> None:
        code = self._value(node.args[0]) if node.args else None
        origins = self._origins_of(node.args[0]) if node.args else frozenset()
        if isinstance(code, str | bytes) and UNKNOWN not in _text(code):
            if any(getattr(each, "attr", "") in _DECODES for each in ast.walk(node.args[0])):
                self._add(self.call.effect("run-opaque", certain=self._certain, why="the code is decoded first"))
            self._run(_text(code))
            return
        self.understood = False
        kind: Kind = "run-remote" if "remote" in origins else "run-opaque"
        self._add(self.call.effect(kind, certain=self._certain and bool(origins), why="the code is computed"))

    def _change_folder(self, path: Value) -> None:
        command = msgspec.structs.replace(self.call.command, cwd=self._path(path), folders=())
        self.call = Call(command, self.call.world, self.call.scopes, frozenset())
        self._folder = f"cd {shlex.quote(command.cwd)} && "

    # ----- what sends or destroys data

    def _on_data(self, name: str, method: str, node: ast.Call) -> bool:
        if name in _PRINTS:
            if self._leaks(node):
                self.effects += self._shown()
        elif name in _SENDS or name in _REMOTE or method in _SENDING_METHODS:
            self._sends(name, node)
        elif method in ("connect", "create_engine") and node.args:
            self._databases.append(_text(self._value(node.args[0])))
        elif method in ("execute", "executescript", "executemany") and node.args:
            self.effects += effects_of_sql(self.call, _text(self._value(node.args[0])), self._databases)
        elif method in _DROPS:
            self._add(self.call.effect("destroy-data", method, scope="remote", certain=self._certain))
        elif method.startswith(("delete_", "terminate_")) and "boto3" in self._names:
            self._add(self.call.effect("destroy-infra", method, scope="remote", certain=self._certain))
        else:
            return False
        return True

    def _leaks(self, node: ast.Call) -> bool:
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        return any("secret" in self._origins_of(arg) for arg in given)

    def _shown(self) -> Iterator[Effect]:
        for path in self._secrets:
            weight: Weight = "normal" if self.call.command.shown else "light"
            yield from self.call.on_path("read-secret", path, weight=weight, certain=self._certain)

    def _sends(self, name: str, node: ast.Call) -> None:
        leaks = self._leaks(node)
        address = _text(self._value(node.args[0])) if node.args else UNKNOWN
        sends = name in _SENDS or any(keyword.arg in ("data", "json", "files") for keyword in node.keywords)
        if (leaks or sends) and not is_here(address):
            weight: Weight = "heavy" if leaks or "secret" in self.call.command.origins else "light"
            self._add(self.call.effect("upload", address, scope="remote", weight=weight, certain=self._certain))
