"""A real repository with work in every state of git, and a home folder, for tests of the guard."""

import os
import subprocess
from pathlib import Path
from typing import Final

import msgspec

_FILES: Final = {
    "src/a.py": "a = 1\n",
    "src/b.py": "b = 1\n",
    "src/app/main.py": "print()\n",
    "docs/c.md": "text\n",
    "clean/k.py": "k = 1\n",
    "package.json": '{"name": "x", "scripts": {"build": "tsc -p .", "wipe": "rm -rf ~/Documents"}}\n',
    "Makefile": "all:\n\tcc a.c\n\nclean:\n\trm -rf build\n\nwipe:\n\trm -rf /etc\n",
    ".gitignore": "build/\nnode_modules/\ndist/\n*.log\n",
    ".env.example": "KEY=\n",
}
_HOME_FILES: Final = {
    "Documents/letter.txt": "dear\n",
    "notes.txt": "notes\n",
    "thesis.tex": "thesis\n",
    ".bashrc": "# rc\n",
    ".ssh/id_rsa": "key\n",
    ".aws/credentials": "[default]\n",
}
_WORK: Final = """
git init -q -b main && git config user.email me@example.com && git config user.name me && git config core.autocrlf false
git add -A && git commit -qm first && git branch merged
git branch feature "$(git commit-tree "HEAD^{tree}" -p HEAD -m more)"
echo 'b = 2' >> src/b.py && git stash -q
echo 'a = 2' >> src/a.py
echo 's = 1' > src/s.py && git add src/s.py
echo 'u = 1' > src/u.py
mkdir -p build node_modules/x && echo o > build/a.o && echo m > node_modules/x/index.js && echo l > a.log
echo SECRET=1 > .env
"""
"""A stash, then a modified, a staged and an untracked file, and some that are generated."""


class Repository(msgspec.Struct, frozen=True):
    """Where it is, and the home of the user whose it is."""

    root: str
    home: str

    def run(self, line: str, cwd: str = "") -> subprocess.CompletedProcess[str]:
        """Run a line in a shell there, as an agent does."""
        return subprocess.run(
            ["/bin/sh", "-c", line], cwd=cwd or self.root, env=environment(self.home), text=True, capture_output=True,
            check=False,
        )  # fmt: skip


def environment(home: str) -> dict[str, str]:
    """The variables of an agent that runs as this user: no settings of git but the repository's own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": home, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


def make_repository(root: Path, home: Path) -> Repository:
    """Write the files, then let git put them into their states."""
    _write(root, _FILES)
    _write(home, _HOME_FILES)
    made = Repository(str(root), str(home))
    done = made.run("set -e\n" + _WORK)
    assert done.returncode == 0, done.stderr
    return made


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
