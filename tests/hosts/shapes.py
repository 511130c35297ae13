"""Fifty settings files of users, by name."""

import json
from typing import Any, Final

HOOKS: Final[dict[str, Any]] = {
    "PreToolUse": [
        {"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard.sh", "timeout": 5}]},
        {"matcher": "Write|Edit", "hooks": [{"type": "command", "command": "./scan.sh"}]},
    ],
    "Stop": [{"hooks": [{"type": "command", "command": "make test"}, {"type": "command", "command": "notify done"}]}],
}
SETTINGS: Final[dict[str, Any]] = {
    "model": "opus",
    "permissions": {"allow": ["Bash(ls *)", "Read(~/src/**)"], "deny": ["Read(.env)"]},
    "env": {"A": "1", "EMPTY": ""},
    "statusLine": {"type": "command", "command": "~/bin/status"},
}
BOTH: Final = {**SETTINGS, "hooks": HOOKS}
BOM: Final = "\ufeff"


def _json(value: object, indent: int | str | None = 2, **options: Any) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False, **options)


SHAPES: Final[dict[str, str]] = {
    # nothing, or nearly
    "empty": "",
    "one line end": "\n",
    "blanks": "  \n\t\n",
    "a mark and nothing": BOM,
    "only a line comment": "// settings\n",
    "only a block comment": "/* settings\n   of mine */",
    "an empty mapping": "{}",
    "an empty mapping in lines": "{\n}\n",
    "an empty mapping with a blank": "{ }\n",
    "an empty mapping with a comment": "{\n  // nothing yet\n}\n",
    "a comment before and behind": "// before\n{}\n// behind\n",
    # layouts
    "two blanks": _json(SETTINGS) + "\n",
    "four blanks": _json(SETTINGS, 4) + "\n",
    "one blank": _json(SETTINGS, 1) + "\n",
    "tabs": _json(SETTINGS, "\t") + "\n",
    "no indentation": _json(SETTINGS, 0) + "\n",
    "minified": _json(SETTINGS, None, separators=(",", ":")),
    "one line": _json(SETTINGS, None),
    "no line end": _json(SETTINGS),
    "three line ends": _json(SETTINGS) + "\n\n\n",
    "blanks at line ends": _json(SETTINGS).replace(",\n", ", \n"),
    "CRLF": _json(SETTINGS).replace("\n", "\r\n") + "\r\n",
    "CRLF without the last": _json(SETTINGS).replace("\n", "\r\n"),
    "mixed line ends": _json(SETTINGS).replace("\n", "\r\n", 3) + "\n",
    "a byte order mark": BOM + _json(SETTINGS) + "\n",
    "a byte order mark and CRLF": BOM + _json(BOTH, "\t").replace("\n", "\r\n"),
    "a brace of its own line": '\n\n{\n  "model": "opus"\n}\n',
    "the last brace behind the last value": '{\n  "model": "opus",\n  "env": {}}\n',
    "the first value behind the brace": '{ "model": "opus",\n  "env": {} }\n',
    "blanks before colons": '{\n  "model" : "opus" ,\n  "env" : { "A" : "1" }\n}\n',
    # hooks of others
    "hooks of others": _json(BOTH) + "\n",
    "hooks of others first": _json({"hooks": HOOKS, **SETTINGS}, 4) + "\n",
    "hooks of others with tabs": _json(BOTH, "\t") + "\n",
    "hooks of others minified": _json(BOTH, None, separators=(",", ":")),
    "hooks of others in single lines": """\
{
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "x"}]}]
  }
}
""",
    "no hooks in it": '{\n  "hooks": {}\n}\n',
    "no hooks in it, with a blank": '{"hooks": { }}',
    "an event without hooks": '{\n    "hooks": {\n        "PreToolUse": [],\n        "Stop": [ ]\n    }\n}\n',
    "unknown events": '{\n  "hooks": {\n    "FutureEvent": {"not": "a list"},\n    "Other": []\n  }\n}\n',
    "entries in odd forms": '{\n  "hooks": {\n    "PreToolUse": ["a string", 1, null, {"command": "flat"}]\n  }\n}\n',
    # comments and commas
    "comments everywhere": """\
// top
{
  // the model
  "model": "opus", // behind
  /* a block */ "env": { /* inside */ },
  "hooks": {
    // guards
    "PreToolUse": [ // open
      {"matcher": "Bash", "hooks": [{"type": "command", "command": "x"}]} // last
      // none after this
    ] /* end of it */
    // end of hooks
  } // end
}
// bottom
""",
    "trailing commas": """\
{
  "env": {"A": "1",},
  "hooks": {
    "Stop": [
      {"hooks": [{"type": "command", "command": "x"},],},
    ],
  },
}
""",
    "a comment that looks like JSON": '{\n  // "hooks": {"PreToolUse": []},\n  "model": "a // b /* c */"\n}\n',
    "a comment at the very end": '{\n  "model": "opus"\n}\n// no line end',
    # values
    "escapes": '{\n  "a": "\\u00e9\\n\\"quoted\\" \\\\ \\/ \\ud83d\\ude00",\n  "hooks": {}\n}\n',
    "unicode": """\
{
  "名前": "太郎 🦀",
  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo «готово»"}]}]}
}
""",
    "numbers as they are": '{"a": 1.0, "b": 1e5, "c": -0, "d": 12345678901234567890, "e": 0.10}\n',
    "unknown keys, nested": _json({"a": {"b": {"c": [[{"d": None}], []]}}, "hooks": {"x-own": [], "Stop": []}}) + "\n",
    "the same key twice": '{\n  "env": {"A": "1"},\n  "hooks": {"Stop": []},\n  "env": {"A": "2"},\n  "hooks": {}\n}\n',
    "a long list": _json({"permissions": {"allow": [f"Bash(tool-{n} *)" for n in range(200)]}}, 2) + "\n",
}
assert len(SHAPES) == 50, len(SHAPES)
