"""Broken files of every shape: never an exception, and every finding has a place in the file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from billhook.config.config import Config
from billhook.config.declaration import OF_OTHERS, SPELLINGS, field_of
from billhook.config.lint import lint
from billhook.config.loader import load_config
from billhook.core.text import Finding
from config.project import Project

QUICK = settings(
    max_examples=250,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
SLOW = settings(QUICK, max_examples=7_000)

SAMPLES: dict[str, str] = {
    ".claude/settings.json": """{
  // comments are tolerated
  "permissions": {"allow": ["Bash(ls)"]},
  "hooks": {
    "PreToolUse": [
      "if echo \\"$HOOK_TOOL_INPUT\\" | grep -q 'rm -rf'; then echo 'Blocked: \\u00e4'; exit 2; fi",
      {"matcher": "Bash|Edit", "hooks": [
        {"type": "command", "command": "./guard.sh", "timeout": 20, "if": "Bash(git push *)", "onFailure": "block"},
        {"type": "http", "url": "https://example.com/h", "headers": {"x": "$A"}, "allowedEnvVars": ["A"]},
        {"type": "prompt", "prompt": "fine?"},
      ]},
      {"command": "bash audit.sh", "async": true}
    ],
    "Stop": [{"hooks": [{"type": "command", "command": "exec", "args": ["a", "b"], "statusMessage": "x"}]}]
  },
  "disableAllHooks": false, "allowedHttpHookUrls": ["https://*"]
}
""",
    ".hooks.json": """{
"hooks": {
"PreToolUse": [
{"matcher": "bash", "command": "echo 'Checking bash command...'"},
{"matcher": "write_file", "command": "/path/to/lint-check.sh"}
],
"SessionStart": [{"command": "echo 'Session started at $(date)'"}]
}
}
""",
    "hooks.yaml": """# a comment
version: 1
parallelExecution: false
settings: {timeout: 60}
builtins:
  turn-tracker:
    enabled: true
    options: {preserve_on_resume: true}
hooks:
  no-destroy:
    events: PreToolUse
    if: Bash(terraform destroy *)
    deny: Destroying needs a human, ä €
  scan: &scan
    events: [PreToolUse, Stop]
    match: Write|Edit
    run: ./policies/scan.sh ${VAR} ${OTHER:-x}
    gate: true
    priority: 150
    after: [no-destroy]
  again:
    <<: *scan
    priority: 160
  program: {events: Stop, exec: [a, "b", 'c']}
  text:
    events: SessionStart
    python: policies.guard:check
    title: |
      several
      lines
""",
}
FLAT = '{"hooks": {"PreToolUse": [{"command": "python3 /path/to/safety-check.py"}], "PostToolUse": ["x"]}}\n'
SHAPES = {**SAMPLES, ".claude.json": FLAT}

BITS = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"'", b"\n", b"\r\n", b"\t", b" ", b"  - ", b"#", b"//", b"/*", b"\0"]
BITS += [
    b"&a",
    b"*a",
    b"!!python/name:x",
    b"|\n",
    b">-\n",
    b"? ",
    b"%TAG",
    b"---\n",
    b"...\n",
    b"\xff",
    b"\xc3",
    b"\xef",
]
BITS += [
    b"\xef\xbb\xbf",
    b"\\ud800",
    b"\\u0000",
    b"\\",
    b"null",
    b"true",
    b"1e999",
    b"-0",
    b".nan",
    b"0x1F",
    b"12:30:45",
]
BITS += [b"gate: true", b'"gate": 1', b"events: Stop", b"\xe2\x80\xa8", b"\xc2\x85", b"${", b"}}}}", b"[[[[", b"<<: "]
BITS += [
    b"deny",
    b"onFailure",
    b"matcher",
    b"(((",
    b"*",
    b"if",
    b"enabled: false",
    b"\x1b[2J",
    b"\xf0\x9f\x98\x80",
    b"=",
    b"~",
]

mutations = st.lists(
    st.tuples(
        st.sampled_from(["insert", "delete", "replace", "swap", "double", "cut"]), st.floats(0, 1), st.integers(1, 12)
    ).flatmap(lambda row: st.tuples(st.just(row), st.sampled_from(BITS))),
    min_size=1,
    max_size=6,
)


def mutated(text: bytes, steps: list[Any]) -> bytes:
    for (kind, where, size), bit in steps:
        at = int(where * len(text))
        piece = text[at : at + size]
        middle = {"insert": bit + piece, "delete": b"", "replace": bit, "swap": piece[::-1], "double": piece * 2}
        text = text[:at] + middle[kind] + text[at + size :] if kind in middle else text[:at]
    return text


def readings(text: bytes) -> list[list[int]]:
    """The length of each line, for the line endings of JSON, and for those of YAML, which has more."""
    wide = text.startswith((b"\xff\xfe", b"\xfe\xff"))
    decoded = text.decode("utf-16" if wide else "utf-8-sig", "replace")
    return [[len(line) for line in re.split(end, decoded)] for end in ("\n", "\r\n|[\n\r\x85\u2028\u2029]")]


def assert_finding(finding: Finding, path: Path, lines: list[list[int]]) -> None:
    assert finding.file == str(path), finding
    assert re.fullmatch(r"BH\d{3}", finding.code), finding
    assert finding.message.strip() and (finding.hint.strip() or finding.note), finding
    assert is_place(finding.line, finding.column, lines), finding


def is_place(line: int, column: int, lines: list[list[int]]) -> bool:
    return any(1 <= line <= len(one) and 1 <= column <= one[line - 1] + 1 for one in lines)


class Loads:
    """Loads one text after the other from the same file."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def __call__(self, name: str, text: bytes) -> Config:
        path = self.project.path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
        try:
            config = load_config(self.project.folder, home=self.project.root, builtins=False, env={"VAR": "x"})
            assert_sound(config, path, text)
        finally:
            path.unlink()
        return config


def assert_sound(config: Config, path: Path, text: bytes) -> None:
    """What is true for every file, whatever its content."""
    lines = readings(text)
    found = [*config.problems, *lint([entry.declared for entry in config.entries])]
    for finding in found:
        assert_finding(finding, path, lines)
    for entry in config.entries:
        declared = entry.declared
        assert declared.file == str(path) and is_place(declared.line, declared.column, lines), declared
        assert not declared.broken or found, declared
        assert entry.state in ("new", "off", "not yet"), entry
    assert all(read.readable or read.findings for read in config.sources)
    config.engine()


@pytest.fixture
def loads(project: Project) -> Loads:
    return Loads(project)


@pytest.mark.parametrize("name", SHAPES)
def test_the_samples_are_valid(name: str, loads: Loads) -> None:
    """The samples without the changes have no findings."""
    config = loads(name, SHAPES[name].encode())
    assert config.entries and not config.unreadable and all(not entry.declared.broken for entry in config.entries)


def _bytes(loads: Loads, examples: settings) -> None:
    @examples
    @given(st.sampled_from(sorted(SHAPES)), mutations)
    def broken(name: str, steps: list[Any]) -> None:
        loads(name, mutated(SHAPES[name].encode(), steps))

    broken()


words = st.sampled_from(
    [spelling for all_ in SPELLINGS.values() for spelling in all_]
    + ["hooks", "PreToolUse", "Stop", "nothing-known", "gaet", "x-mine", "$schema", "on", "onFailure"]
)
texts = st.one_of(
    words,
    st.text(max_size=12),
    st.sampled_from(
        ["claude", "lesson", "Bash(git *)", "Bash(", "(a", "*", "", " ", "./x.sh", "m:f", "http://h/", "${A"]
    ),
    st.sampled_from(["bash", "exact", "http", "command", "prompt", "block", "\x1b[1m", "a" * 300, "billhook hook"]),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | texts, inner, max_size=4), max_leaves=8
)
entries = st.dictionaries(words, values, max_size=6)
events = st.sampled_from(["PreToolUse", "PostToolUse", "Stop", "PreTooluse", "Nothing", "preToolUse"])
groups = st.fixed_dictionaries({"hooks": st.lists(entries | values, max_size=3)}, optional={"matcher": texts | values})
files = st.dictionaries(
    st.sampled_from(["hooks", "handlers", "builtins", "settings", "timeout", "dialect", "disableAllHooks", "version"]),
    st.one_of(
        st.dictionaries(events, st.lists(entries | groups | texts, max_size=3), max_size=3),
        st.dictionaries(texts, entries | values, max_size=4),
        st.lists(entries, max_size=3),
        values,
    ),
    max_size=4,
)


def _structures(loads: Loads, examples: settings) -> None:
    @examples
    @given(st.sampled_from(sorted(SHAPES)), files, st.booleans())
    def odd(name: str, content: dict[str, Any], laid_out: bool) -> None:
        loads(name, json.dumps(content, indent=1 if laid_out else None, ensure_ascii=False).encode())

    odd()


def _unknown_keys(loads: Loads, examples: settings) -> None:
    @examples
    @given(st.dictionaries(words | st.text("abcgtehs_-", min_size=1, max_size=7), scalars, max_size=5), st.booleans())
    def odd(extra: dict[str, Any], native: bool) -> None:
        entry = {"command" if not native else "run": "true", **extra}
        if native:
            content: dict[str, Any] = {"hooks": {"a": {"events": "PreToolUse", **entry}}}
        else:
            content = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", **entry}]}]}}
        config = loads(
            "hooks.yaml" if native else ".claude/settings.json", json.dumps(content, ensure_ascii=False).encode()
        )
        if any(one.code < "BH2" for one in config.problems):
            return  # not JSON or not YAML: there are no keys
        reported = {re.findall("`(.*?)`", one.message)[0] for one in config.problems if one.code == "BH202"}
        unknown = {key for key in extra if not field_of(key) and not key.startswith(("x-", "$", "//", "_"))}
        if native:  # in an agent's file a key that resembles none of ours is a comment
            assert unknown - OF_OTHERS <= reported, (unknown, config.problems)

    odd()


FUZZES = {"bytes": _bytes, "structures": _structures, "unknown keys": _unknown_keys}


@pytest.mark.parametrize("row", FUZZES)
def test_broken_files(row: str, loads: Loads) -> None:
    """No exception; every finding has a code, a place in the file, a message and a hint; nothing is ignored."""
    FUZZES[row](loads, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("row", FUZZES)
def test_very_many_broken_files(row: str, loads: Loads) -> None:
    """The same with 20,000 of them."""
    FUZZES[row](loads, SLOW)


@pytest.mark.parametrize("name", SHAPES)
def test_hints_name_what_is_known_there(name: str, loads: Loads) -> None:
    """The keys in the hint for an entry without an action are valid there."""
    entry: dict[str, Any] = {"events": "PreToolUse"} if name == "hooks.yaml" else {}

    def content(**more: Any) -> bytes:
        hooks = {"a": {**entry, **more}} if name == "hooks.yaml" else {"PreToolUse": [{**entry, **more}]}
        return json.dumps({"hooks": hooks}).encode()

    (found,) = loads(name, content()).problems
    named = found.hint.removeprefix("add one of ").split(", ")
    assert named
    for key in named:
        assert "BH202" not in [one.code for one in loads(name, content(**{key: "x"})).problems], key
