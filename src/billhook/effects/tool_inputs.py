"""What the input of a tool names: shell lines, files that are read, written or deleted, code."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from billhook.core import tools
from billhook.effects import calls, rules
from billhook.effects.effect import Kind

_DESTROYS = re.compile(r"(?:^|_)(?:delete|destroy|drop|terminate|purge|wipe|truncate|teardown)(?:_|$)")
_INFRASTRUCTURE: Final = frozenset(
    {
        "cluster",
        "instance",
        "instances",
        "stack",
        "namespace",
        "deployment",
        "server",
        "vm",
        "service",
        "project",
        "resource",
    }
    | {
        "function",
        "app",
        "environment",
        "volume",
        "network",
        "zone",
        "node",
        "pod",
        "droplet",
        "machine",
        "organization",
    }
)
_DATA: Final = frozenset(
    {
        "repository",
        "repo",
        "database",
        "table",
        "bucket",
        "collection",
        "index",
        "schema",
        "branch",
        "snapshot",
        "backup",
    }
    | {
        "dataset",
        "object",
        "objects",
        "documents",
        "records",
        "rows",
        "topic",
        "queue",
        "keyspace",
        "release",
        "workspace",
    }
)


_STATEMENTS: Final = ("sql", "query", "statement", "queries")
_PATHS: Final = ("path", "file_path", "filePath", "filename", "file")


class ToolInput(msgspec.Struct):
    """One tool call, told apart."""

    tool: str
    lines: list[str] = []
    folder: str = ""
    paths: list[tuple[Kind, str]] = []
    code: list[str] = []
    sql: list[str] = []
    recursive: bool = False
    destroys: Kind | None = None

    @property
    def empty(self) -> bool:
        return not (self.lines or self.paths or self.code or self.sql or self.destroys)


def tool_input(name: str, given: object, server: Mapping[str, Any] | None = None) -> ToolInput:
    """The input of a tool by what it names. `name` is the canonical one."""
    if isinstance(given, str):
        given = calls._object(given)
    if not isinstance(given, Mapping):
        return ToolInput(name)
    if tools.is_shell(name):
        return _shell(name, given)
    if name in rules.READS:
        return ToolInput(name, paths=[("read", path) for path in tools.paths_of(name, given)])
    if name == "apply_patch" or name in rules.EDITS:
        return _edit(name, given)
    if name in calls.READ_ONLY or _hint(server, "readOnlyHint") or calls._only_reads(name):
        read: list[tuple[Kind, str]] = [("read", value) for key in _PATHS if isinstance(value := given.get(key), str)]
        return ToolInput(name, paths=read, sql=_sql(given))
    return _other(name, given, server)


def _sql(given: Mapping[str, Any]) -> list[str]:
    """Statements for a database: the values of the names that such tools have for them."""
    return [value for key in _STATEMENTS if isinstance(value := given.get(key), str)]


def _hint(server: Mapping[str, Any] | None, key: str) -> bool:
    """An annotation of the tool, where the agent passes it."""
    annotations = server.get("annotations") if server else None
    found = annotations if isinstance(annotations, Mapping) else server or {}
    return found.get(key) is True


def _shell(name: str, given: Mapping[str, Any]) -> ToolInput:
    lines = calls._lines(name, given)
    if not lines or not tools.ARGUMENTS.isdisjoint(given):
        said = calls.said_by_input(name, given, shell=True)
        return ToolInput(name, [*lines, *said.lines], code=said.code)
    return ToolInput(name, lines, next(iter(tools.folders(given)), ""))


def _edit(name: str, given: Mapping[str, Any]) -> ToolInput:
    paths = [calls.from_address(path) for path in tools.paths_of(name, given)]
    if name != "apply_patch":
        kind: Kind = "overwrite" if name == "Write" else "write"
        return ToolInput(name, paths=[(kind, path) for path in paths])
    text = "\n".join(value for value in given.values() if isinstance(value, str))
    deleted = set(re.findall(r"(?m)^\*\*\* Delete File:[ \t]*([^\n]+)", text))
    return ToolInput(name, paths=[("delete" if path in deleted else "write", path) for path in paths])


def _other(name: str, given: Mapping[str, Any], server: Mapping[str, Any] | None) -> ToolInput:
    """A tool that nothing is known of but its name and its input."""
    said = calls.said_by_input(name, given)
    removes = calls._REMOVING.search(name) is not None
    kind: Kind = "delete" if removes else "write"
    paths = [(kind, path) for path in said.sure if not re.match(r"[a-z][a-z0-9+.-]*://", path)]
    found = ToolInput(
        name, said.lines, paths=paths if calls.writes_by_name(name) else [], code=said.code, recursive=removes
    )
    found.sql, found.destroys = _sql(given), _destroyed(name)
    if found.destroys:  # what it names is no file
        found.paths = []
    if _hint(server, "destructiveHint") and not found.paths:
        found.destroys = found.destroys or "destroy-data"
    return found


def _destroyed(name: str) -> Kind | None:
    """`mcp__github__delete_repository`: what a name says that it destroys."""
    verb = name.rpartition("__")[2].lower().replace("-", "_")
    if not _DESTROYS.search(verb):
        return None
    nouns = set(verb.split("_"))
    return "destroy-infra" if nouns & _INFRASTRUCTURE else "destroy-data" if nouns & _DATA else None
