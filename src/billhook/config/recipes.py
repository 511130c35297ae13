"""Recipes: hooks for one purpose each, as YAML files with parameters, ready to be added to a hooks.yaml.

A recipe is text, so that comments and layout reach the user's file. `<name>` in a value is a placeholder for a
parameter. Its value stays one YAML value, and one word in a shell command, unless the parameter is a command.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.config.cases import event_of
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS
from billhook.core.lazy import lazy_module
from billhook.core.text import suggestion

if TYPE_CHECKING:
    import yaml
else:
    yaml = lazy_module("yaml")

SECTIONS: Final = ("builtins", "hooks", "tests")  # the keys of a hooks.yaml that a recipe adds to
_KEYS: Final = {"title", "purpose", "parameters", "show", *SECTIONS}
_SHELL: Final = ("run", "command")  # keys whose text a shell reads
_PLAIN: Final = re.compile(
    r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[A-Za-z_][\w./@+-]*(?: [\w./@+-]+)*", re.I | re.A
)
_LONGEST: Final = 1000
_LARGEST: Final = 64 << 10
Values = Mapping[str, Any]


class Parameter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value of a recipe that the user can set."""

    default: str | int | float | list[str]
    about: str
    shell: bool = False  # its value is a shell command, not one word of a command
    tested: bool = True  # the recipe's tests are valid for every value; else only for the default
    default_needs: str = ""  # a file without which the default can't work

    def read(self, name: str, text: str) -> Any:
        """The value of a command line argument, of the same type as the default. Raises UsageError."""
        if not text.isprintable() or not text.strip() or len(text) > _LONGEST:
            hint = f"write one line of at most {_LONGEST} printable characters"
            raise UsageError(f"`{name}` can't be set to this value", hint=hint)
        text = text.strip()
        if isinstance(self.default, list):
            return [part.strip() for part in text.strip("[] ").split(",") if part.strip()]
        if isinstance(self.default, str):
            return text
        kind = type(self.default)
        if not re.fullmatch(r"[0-9]{1,9}" if kind is int else r"[0-9]{1,9}(\.[0-9]{1,9})?", text) or float(text) <= 0:
            wanted = "a whole number of at least 1" if kind is int else "a number above 0"
            raise UsageError(f"`{name}` must be {wanted}, not `{text}`", hint=f"for example: --set {name}=10")
        return kind(text)


class Recipe(msgspec.Struct, frozen=True):
    """One recipe, from its file."""

    name: str
    source: str  # its name on the command line, or the path of its file
    title: str
    purpose: str
    parameters: dict[str, Parameter]
    texts: dict[str, str]  # the sections as written, with placeholders
    show: dict[str, Any]  # an event that shows it at work

    def values(self, given: Mapping[str, str]) -> Values:
        """Every parameter with its value."""
        return {
            name: one.read(name, given[name]) if name in given else one.default for name, one in self.parameters.items()
        }

    def check_defaults(self, given: Mapping[str, str], project: Path) -> None:
        """Raises UsageError if a parameter must be set, because its default does not work in this project."""
        for name, one in self.parameters.items():
            if one.default_needs and name not in given and not (project / one.default_needs).exists():
                message = f"this project has no {one.default_needs}, so `{one.default}` can't work"
                raise UsageError(message, hint=f"set the {name}: --set {name}='...' ({one.about})")

    def sections(self, given: Mapping[str, str]) -> dict[str, str]:
        """The text for each section of a hooks.yaml; the first begins with the command that added it."""
        values, filled = self.values(given), {}
        untested = any(not one.tested and values[name] != one.default for name, one in self.parameters.items())
        for key, text in self.texts.items():
            if key != "tests" or not untested:
                filled[key] = _filled(text, values, self.parameters)
        first = next(iter(filled))
        return {**filled, first: f"# {self.command(given)}\n{filled[first]}"}

    def command(self, given: Mapping[str, str]) -> str:
        """The command that adds the recipe with these values."""
        words = ["billhook", "add", self.source]
        for name in self.parameters:
            words += ["--set", f"{name}={given[name]}"] if name in given else []
        return shlex.join(words)

    def demonstration(self, given: Mapping[str, str]) -> list[str]:
        """Shell lines that show it at work: what has to be there first, an event, and what became of it."""
        values = {name: _example(one) for name, one in self.values(given).items()}
        case = dict(self.show or {"explain": "ls"})
        for name in case.keys() - {"event"}:
            key = name if name in ("write", "fire") else "run"  # the others are lines for a shell
            case[name] = _replaced(case[name], key, values, self.parameters) or case[name]
        words = ["explain", case["explain"]] if "explain" in case else ["fire", *fire_arguments(case)]
        return [*filter(None, (case.get("first"), shlex.join(["billhook", *words]), case.get("then")))]


def _example(value: Any) -> Any:
    """One name that a list of globs is about."""
    if not isinstance(value, list):
        return value
    return re.sub(r"\*+", "example", re.sub(r"(?<=\w)\*$", "", value[0].removeprefix("!")))


def plain(sections: Mapping[str, str]) -> dict[str, Any]:
    """Sections as plain data."""
    return {key: yaml.safe_load(text) for key, text in sections.items()}


# -- where recipes are


def shipped() -> list[Recipe]:
    """Every recipe of the package, by purpose."""
    folder = resources.files("billhook.config").joinpath("recipe_files")
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".yaml")), key=lambda one: one.name)
    found = [_read(one.name[:-5], one.name[:-5], one.read_bytes()) for one in files]
    return sorted(found, key=lambda one: (one.purpose, one.name))


def find(word: str) -> list[Recipe]:
    """The recipe of that name, of a file, or all recipes of a folder. Raises UsageError."""
    if "/" not in word and not word.endswith((".yaml", ".yml")):
        known = {one.name: one for one in shipped()}
        if word not in known:
            raise UsageError(f"unknown recipe `{word}`", hint=f"{suggestion(word, known)}; `billhook add` lists all")
        return [known[word]]
    path = Path(word)
    files = sorted(one for one in path.iterdir() if one.suffix in (".yaml", ".yml")) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"no recipe in `{word}`", hint="a recipe is a .yaml file")
    return [_read(one.stem, str(one) if "/" in str(one) else f"./{one}", _bytes(one)) for one in files]


def _bytes(path: Path) -> bytes:
    from billhook.config.sources import read_bytes

    try:
        data = read_bytes(str(path), _LARGEST)
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", "") or str(error)).lower()
        raise UsageError(f"the recipe can't be read: {why}", place=str(path), hint="check the path") from None
    if len(data) > _LARGEST:
        raise UsageError("the recipe is too long", place=str(path), hint=f"at most {_LARGEST >> 10} KB")
    return data


def _read(name: str, source: str, data: bytes) -> Recipe:
    try:
        text = data.decode("utf-8-sig")
        root, data = yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)
        return _parse(name, source, text, root, data)
    except (UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
        raise UsageError(f"not a recipe: {why}", place=source, hint="docs/recipes.md describes the format") from None


def _parse(name: str, source: str, text: str, root: Any, said: Any) -> Recipe:
    if not isinstance(said, dict) or not {"title", "purpose"} <= said.keys() or not {"hooks", "builtins"} & said.keys():
        raise ValueError("it needs `title`, `purpose` and `hooks`")
    if unknown := sorted(str(key) for key in said.keys() - _KEYS):
        raise ValueError(f"unknown key `{unknown[0]}`")
    made = Recipe(
        name=name,
        source=source,
        title=msgspec.convert(said["title"], str),
        purpose=msgspec.convert(said["purpose"], str),
        parameters=msgspec.convert(said.get("parameters") or {}, dict[str, Parameter]),
        texts={key: _section(text, root, key) for key in SECTIONS if key in said},
        show=msgspec.convert(said.get("show") or {}, dict[str, Any]),
    )
    if plain(made.texts) != {key: said[key] for key in made.texts}:
        raise ValueError("`hooks` and `tests` must be on separate lines")
    if not all(isinstance(said[key], list if key == "tests" else dict) for key in made.texts):
        raise ValueError("`hooks` must be a mapping, and `tests` a list")
    if not all(isinstance(text, str) for key, text in made.show.items() if key != "event"):
        raise ValueError("`show` must have strings")
    if made.show and not isinstance(event_of(made.show).get("hook_event_name", made.show.get("explain")), str):
        raise ValueError("`show` names no event")
    return made


def _section(text: str, root: Any, key: str) -> str:
    """The lines below a key, without their common indentation."""
    import textwrap

    keys = [one for one, _ in root.value]
    place = next(number for number, one in enumerate(keys) if one.value == key)
    lines = text.splitlines(keepends=True)
    end = keys[place + 1].start_mark.line if place + 1 < len(keys) else len(lines)
    return textwrap.dedent("".join(lines[keys[place].start_mark.line + 1 : end])).strip("\n") + "\n"


# -- parameters


def _filled(text: str, values: Values, parameters: Mapping[str, Parameter]) -> str:
    """A section with its placeholders replaced. Each value stays inside of the YAML value of its placeholder."""
    found = list(_scalars(yaml.compose(text, Loader=yaml.SafeLoader), ""))
    for node, key in reversed(found):
        start, end = node.start_mark.index, node.end_mark.index
        block = node.style in ("|", ">")  # its lines stay lines
        new = _replaced(text[start:end] if block else node.value, key, values, parameters)
        if new is not None:
            text = text[:start] + (new if block else _written(new)) + text[end:]
    return text


def _scalars(node: Any, key: str) -> Iterator[tuple[Any, str]]:
    """Every value of a section, with its key."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield name, ""
            yield from _scalars(value, str(name.value))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _scalars(value, "")
    else:
        yield node, key


def _replaced(text: str, key: str, values: Values, parameters: Mapping[str, Parameter]) -> Any:
    """A value with its placeholders replaced; None if it has none. A single placeholder may become a list."""
    names = "|".join(map(re.escape, values))
    if not names or re.search(f"<(?:{names})>", text) is None:
        return None
    if text[1:-1] in values and f"<{text[1:-1]}>" == text and key not in _SHELL:
        return values[text[1:-1]]

    def word(found: "re.Match[str]") -> str:
        value = values[found[1]]
        words = value if isinstance(value, list) else [str(value)]
        if key in _SHELL and not parameters[found[1]].shell:
            return " ".join(map(shlex.quote, words))
        return ", ".join(words)

    return re.sub(f"<({names})>", word, text)


def _written(value: Any) -> str:
    """A value as YAML on one line. A string has no quotes if that is safe."""
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


# -- the event of a test or of `show`


def fire_arguments(case: Mapping[str, Any]) -> Sequence[str]:
    """The arguments of `billhook fire` for `{bash: ls}`, `{write: file}`, `{prompt: text}` or a whole `event`."""
    event = event_of(case)
    name, tool = event.pop("hook_event_name"), event.pop("tool_name", None)
    if tool is None and "tool_name" in getattr(EVENTS.get(name), "__struct_fields__", ()):
        tool, event = "Bash", {"tool_input": {"command": "ls"}}
    words = [str(name), *(["--tool", str(tool)] if tool else [])]
    given = event.get("tool_input") if tool else event
    output = ["--output", json.dumps(event["tool_response"])] if "tool_response" in event else []
    return [*words, *(["--input", json.dumps(given, ensure_ascii=False)] if given else []), *output]
