"""Replay the console sessions of a document and compare their output with the document.

The `console` blocks of a page run in one folder, one after the other, as a reader would follow them. The lines of `sh`
blocks that begin with `billhook` run too, but show no output. `python tests/replay.py PAGE` writes the real output into
the page.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_BLOCK = re.compile(r"(```(?:console|sh)\n)(.*?)(```)", re.DOTALL)
_VARIES = (
    (re.compile(r" +[\d.,]+ ms"), " N ms"),
    (re.compile(r" in \d+\.\d s$", re.MULTILINE), " in N s"),
    (re.compile(r"\s\((?:[\d.,]+|N)\s+ms\)"), " (N ms)"),  # where a line breaks depends on the times
    (re.compile(r"(?<=\(N ms\),)\n"), " "),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<id>"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "<hash>"),
    (re.compile(r"(?<=chars )[0-9a-f]{12}(?=\])"), "<digest>"),
    (re.compile(r"\[redact[^\]\n]*\.\.\."), "[redacted..."),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|\+00:00| UTC)?)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d(?::\d\d)?\b"), "<time>"),
    (re.compile(r"\b(session|it was) [a-z]+-[a-z]+\b"), r"\1 <name>"),
    (re.compile(r"\bfire-[0-9a-f]{8}\b"), "fire-<hash>"),
    (re.compile(r"\btoolu_fire_[0-9a-f]{12}\b"), "toolu_fire_<hash>"),
    (re.compile(r"(?<=\()[0-9a-f]{12}(?=\)$)", re.MULTILINE), "<id>"),
    (re.compile(r" +(?:[\d,]+\.\d+|MS)$", re.MULTILINE), " N"),
    (re.compile(r"(?<=\S) {2,}"), "  "),  # how wide a column is depends on the times in the others
)


class Session:
    """A reader's shell: a home folder, a project in it, and the documents' commands one after the other."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.folder = self.home / "shop"
        (self.folder / ".git").mkdir(parents=True)
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("CLAUDE", "BILLHOOK", "HOOK_"))}
        marks = ("CODEX", "GEMINI", "CURSOR", "COPILOT", "QWEN", "OPENCODE", "XDG_CONFIG", "AGENT")
        kept = {key: value for key, value in kept.items() if not key.startswith(marks) and "AGENT" not in key}
        self.env = {**kept, "PATH": programs, "HOME": str(self.home), "COLUMNS": "100", "NO_COLOR": "1"}

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        in_names = re.sub("[^A-Za-z0-9]", "-", str(self.home))
        return done.stdout.replace(str(self.home), "~").replace(in_names, "-home-you")


def replayed(text: str, session: Session) -> str:
    """The document with the real output of its sessions."""
    return _BLOCK.sub(lambda block: block[1] + _replay_block(block[1], block[2], session) + block[3], text)


def steady(text: str) -> str:
    """The text without the parts that differ from run to run."""
    for pattern, instead in _VARIES:
        text = pattern.sub(instead, text)
    return text


def _replay_block(opening: str, block: str, session: Session) -> str:
    if "sh" in opening:
        for line in block.splitlines():
            if line.startswith("billhook "):
                session.run(line)
        return block
    printed = []
    for command in _commands(block):
        printed.append(f"$ {command}\n")
        printed.append(session.run(command))
        if printed[-1] and not printed[-1].endswith("\n"):
            printed.append("\n")
    return "".join(printed)


def _commands(block: str) -> list[str]:
    """The lines that begin with `$ `, with their continuation lines."""
    commands: list[str] = []
    goes_on = False
    here = ""
    for line in block.splitlines():
        if line.startswith("$ "):
            commands.append(line[2:])
        elif goes_on or here:
            commands[-1] += f"\n{line}"
        else:
            continue
        goes_on = line.endswith("\\")
        if here and line == here:
            here = ""
        elif not here:
            started = re.search(r"<<\s*'?(\w+)'?\s*$", line)
            here = started[1] if started else ""
    return commands


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        with tempfile.TemporaryDirectory() as base:
            page.write_text(replayed(page.read_text(), Session(Path(base))))
