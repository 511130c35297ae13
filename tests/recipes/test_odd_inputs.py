"""Recipes and commands as agents write them: chained, wrapped, quoted, in other folders, and what only looks alike."""

import os
from pathlib import Path
from typing import Any

import pytest

from billhook.config import edit_yaml
from billhook.testing.expectations import outcome_of as outcome
from billhook.testing.expectations import ran
from recipes.cases import RECIPES, Scratch

HEREDOC = "git commit -m \"$(cat <<'EOF'\n{}\n\nbody: --no-verify -n\nEOF\n)\""


def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, **given: str) -> Scratch:
    text = edit_yaml.with_sections(None, "hooks.yaml", RECIPES[name].sections(given)).decode()
    return Scratch(tmp_path, text, monkeypatch)


def of_bash(scratch: Scratch, command: str, name: str) -> str:
    """What becomes of a shell line by the recipe's own hooks; the guard has tests of its own."""
    verdict = scratch.fire(scratch.event({"bash": command}))
    assert [one.error for one in verdict.outcomes if not one.success] == []
    own = {one.hook for one in verdict.outcomes if one.source != "built-in"} & {*ran(verdict)}
    return outcome(verdict) if own else "none"


DENIED = {
    "no-verify": [
        "git commit -nm x",
        "git commit -anm x",
        "git commit -an -m x",
        "git commit -m x -n",
        "git commit -m x --no-verify",
        "git commit --no-veri -m x",
        "git -c core.hooksPath=/dev/null commit -m x",
        "git -c core.hookspath= commit -m x",
        "git -C 'a b' -c user.name=x commit -nm x",
        "cd sub && git commit -nm x",
        "(cd sub; git commit -nm x)",
        "sudo -u me git commit --no-verify",
        "env A=1 git commit --no-verify",
        "bash -c 'git commit -n -m x'",
        "git push --no-verify",
        "git push --no-verify origin main",
        "git merge --no-verify topic",
        "git config core.hooksPath /dev/null",
        "git config --global core.hooksPath x",
        "N=-n; git commit $N -m x",
        "if true; then git commit -n; fi",
        "x=$(git commit -nm x)",
    ],
    "conventional-commits": [
        "git commit -m bad",
        "git commit -mbad",
        "git commit -am 'bad thing'",
        "git commit --message=bad",
        "git commit --message bad",
        "git commit -m bad && echo -m 'feat: x'",
        "git commit -m bad -m 'feat: x'",
        "git -C sub commit -m bad",
        "cd sub && git commit -m bad",
        "git commit -m 'Feat: x'",
        "git commit -m 'feat:x'",
        "git commit -m 'feature: x'",
        "git commit -F - <<X\nbad\nX",
        "echo bad | git commit -F -",
        HEREDOC.format("bad"),
        "git commit -m 'feat: x' && git commit -m bad",
        'M=bad; git commit -m "$M"',
        "sh -c \"git commit -m 'bad thing'\"",
    ],
    "locked-installs": [
        "npm install left-pad",
        "npm i -D left-pad",
        "npm install --save-dev @types/node",
        "npm --prefix web install left-pad",
        "cd web && npm i left-pad",
        "sudo npm install -g left-pad",
        "npm install left-pad@1.0.0 && npm test",
        "npm install $NAME",
        "npm update",
        "pnpm add left-pad",
        "pnpm --filter web add left-pad",
        "yarn add left-pad",
        "bun add left-pad",
        "pip install requests",
        "pip install 'requests>=2'",
        "pip3 install -U requests",
        "python -m pip install requests",
        "python3 -m pip install requests",
        "pip install -r requirements.txt requests",
        "pip install git+https://example.com/x.git",
        "pip install -e git+https://example.com/x.git#egg=x",
        "pipx install black",
        "uv add requests",
        "uv pip install requests",
        "uv tool install ruff",
        "uv lock --upgrade",
        "uv sync -U",
        "poetry add requests",
        "poetry update",
        "cargo add serde",
        "cargo install ripgrep",
        "cargo update",
        "cargo add --git https://example.com/x",
        "go get example.com/x",
        "go get -u ./...",
        "go install example.com/x@latest",
        "gem install rails",
        "bundle add rails",
        "bundle update",
        "cat list | xargs pip install",
        "bash -c 'npm install left-pad'",
    ],
}
ALLOWED = {
    "no-verify": [
        "git commit -m 'drop --no-verify'",
        "git commit -m 'fix -n flag'",
        "git commit -m -n",
        "git commit -mn",
        "git commit -uno -m x",
        "git commit -Sname -m x",
        HEREDOC.format("feat: x"),
        "git push -n",
        "git push --dry-run",
        "git log -n 3",
        "git log --grep --no-verify",
        "git show commit -n 3",
        "git help commit",
        "git commit --no-verify --help",
        "git config core.hooksPath",
        "git config --get core.hooksPath",
        "git -c user.name=core.hooksPath commit -m x",
        "echo git commit --no-verify",
        "grep -rn -- --no-verify .",
        "git commit -m x -- -n",
        "git clean -n",
        "git merge -n topic",
    ],
    "conventional-commits": [
        "git commit -m 'feat: x'",
        "git commit -am 'fix(cli): exit code'",
        "git commit -m 'feat(api)!: x'",
        "git commit -m 'feat!: x' -m 'whatever follows'",
        HEREDOC.format("docs: x"),
        "git commit",
        "git commit --amend --no-edit",
        "git commit --fixup HEAD",
        "git commit -m 'fixup! feat: x'",
        "git commit -m 'Revert \"feat: x\"'",
        "git commit -F message.txt",
        'git commit -m "$MESSAGE"',
        "git stash push -m x",
        "git help commit",
        "git commit --help",
        "git log --grep commit -m bad",
        "git tag -a v1 -m bad",
        "git merge topic -m 'Merge it'",
        "echo git commit -m bad",
        "git commit -F - <<X\nfeat: x\nX",
        'T=fix; git commit -m "$T: x"',
    ],
    "locked-installs": [
        "npm install",
        "npm ci",
        "npm i --legacy-peer-deps",
        "npm install ./packages/a",
        "npm --prefix web install",
        "npm install -w web",
        "npm run install",
        "npm install --help",
        "pnpm install --frozen-lockfile",
        "pnpm -C web install",
        "yarn",
        "yarn install --immutable",
        "bun install",
        "pip install -r requirements.txt",
        "pip install -r 'my reqs.txt' --require-hashes",
        "pip install -r a.txt -c b.txt",
        "pip install -e .",
        "pip install .",
        "pip install '.[dev]'",
        "python -m pip install -r requirements.txt",
        "uv sync --locked",
        "uv pip install -r requirements.txt",
        "uv pip sync requirements.txt",
        "uv lock",
        "poetry install",
        "cargo build --locked",
        "cargo install --path .",
        "go mod download",
        "go get ./...",
        "go install ./cmd/x",
        "bundle install",
        "gem list",
        "echo npm install left-pad",
        "git commit -m 'npm install left-pad'",
    ],
}
LINES = [(name, line, "deny") for name, lines in DENIED.items() for line in lines]
LINES += [(name, line, "none") for name, lines in ALLOWED.items() for line in lines]


@pytest.mark.parametrize(("name", "line", "expected"), LINES)
def test_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, line: str, expected: str) -> None:
    """The recipe knows what the program would do with the line."""
    assert of_bash(added(tmp_path, monkeypatch, name), line, name) == expected


# -- branches


@pytest.fixture
def branches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    """A project on `topic`, with a worktree on `main` in `on main`, and a file that is called as a branch could be."""
    scratch = added(tmp_path, monkeypatch, "no-commits-to-main")
    scratch.git("init", "-q")
    scratch.file("README", "x\n")
    scratch.git("add", "-A")
    scratch.git("commit", "-q", "-m", "first")
    scratch.git("switch", "-q", "-c", "topic")
    scratch.git("worktree", "add", "-q", "on main", "main")
    return scratch


TO_MAIN = [
    "git push origin main",
    "git push origin HEAD:main",
    "git push origin topic:refs/heads/main",
    "git push -f origin +topic:main",
    "git push origin --delete main",
    "git push origin :main",
    "git push --all",
    "git push --mirror origin",
    "git push -o ci.skip origin topic main",
    "git -C 'on main' commit -m x",
    "git -C 'on main' merge topic",
    "git -C 'on main' push",
    "cd 'on main' && git commit -m x",
    "(cd 'on main'; git merge topic)",
    "pushd 'on main'; git revert HEAD",
    "git checkout main && git commit -m x",
    "git switch main; git merge topic",
    "git --git-dir='on main/.git' --work-tree='on main' commit -m x",
    "env GIT_EDITOR=true git -C 'on main' cherry-pick topic",
    "bash -c \"cd 'on main' && git commit -m x\"",
]
ELSEWHERE = [
    "git commit -m x",
    "git commit -m 'for main'",
    "git merge main",
    "git push",
    "git push origin topic",
    "git push origin HEAD",
    "git push origin main:review/main",
    "git push origin HEAD:refs/for/main",
    "git push --tags",
    "git push -n origin main",
    "git push --dry-run origin HEAD:main",
    "git fetch origin main",
    "git -C 'on main' log && git commit -m x",
    "git -C 'on main' status",
    "cd 'on main' && ls; cd .. && git commit -m x",
    "cd 'on main' && git pull",
    "git checkout -b fix main && git commit -m x",
    "git -C 'on main' stash push -m commit",
    "git -C 'on main' help commit",
    "git -C 'on main' commit --help",
    "git -C 'on main' commit --dry-run",
    "git -C 'on main' merge --abort",
    "git -C 'on main' log --grep 'git commit '",
    "echo git push origin main",
]


@pytest.mark.parametrize("line", TO_MAIN)
def test_to_main(branches: Scratch, line: str) -> None:
    """In whatever folder the command is given."""
    assert of_bash(branches, line, "no-commits-to-main") == "deny"


@pytest.mark.parametrize("line", ELSEWHERE)
def test_elsewhere(branches: Scratch, line: str) -> None:
    """What does not change main."""
    assert of_bash(branches, line, "no-commits-to-main") == "none"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git commit -m x", "deny"),
        ("git commit --amend", "deny"),
        ("git merge topic", "deny"),
        ("git push", "deny"),
        ("git push origin HEAD", "deny"),
        ("git push -u origin main", "deny"),
        ("git checkout README && git commit -m x", "deny"),
        ("git checkout HEAD README && git commit -m x", "deny"),
        ("git switch -c fix && git commit -m x && git push -u origin fix", "none"),
        ("git checkout -b fix && git commit -m x", "none"),
        ("git push origin topic", "none"),
        ("git pull", "none"),
        ("git stash push -m x", "none"),
    ],
)
def test_on_main(branches: Scratch, monkeypatch: pytest.MonkeyPatch, line: str, expected: str) -> None:
    """In the project's own folder."""
    branches.git("switch", "-q", "--ignore-other-worktrees", "main")

    assert of_bash(branches, line, "no-commits-to-main") == expected


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no branch, nothing is on main."""
    assert of_bash(added(tmp_path, monkeypatch, "no-commits-to-main"), "git commit -m x", "") == "none"


# -- other programs

UV = {
    "pip install rich": "uv pip install rich",
    "pip3 install rich": "uv pip install rich",
    "time pip install rich": "time uv pip install rich",
    "command pip install rich": "command uv pip install rich",
    "nice -n 5 pip install rich": "nice -n 5 uv pip install rich",
    "A='b c' pip install rich": "A='b c' uv pip install rich",
    "env A=1 pip install rich": "env A=1 uv pip install rich",
    "ls | xargs pip install": "ls | xargs uv pip install",
    "/usr/bin/pip install rich": "uv pip install rich",
    "python -m pip install rich": "uv pip install rich",
    "cd 'a b' && pip install rich": "cd 'a b' && uv pip install rich",
    "(pip install 'rich; pip list')": "(uv pip install 'rich; pip list')",
    "pip download x && pip install y": "pip download x && uv pip install y",
    "if pip show x; then pip list; fi": "if uv pip show x; then uv pip list; fi",
    'echo "$(pip freeze)"': 'echo "$(uv pip freeze)"',
    "sudo pip install rich": "deny",
    "bash -c 'pip install rich'": "deny",
    "command -v pip": "none",
    "which pip": "none",
    "pip --version": "none",
    "pip download rich": "none",
    "pip config list": "none",
    "pip install --user rich": "none",
    "pip install -I rich": "none",
    "pip freeze --local": "none",
    "pip install -q --no-cache-dir rich": "uv pip install -q --no-cache-dir rich",
    ".venv/bin/pip install rich": "none",
    "docker run image pip install rich": "none",
    "echo pip install rich": "none",
    "uv pip install rich": "none",
    "PIP install rich": "none",
    "git commit -m 'pip install rich'": "none",
}
PNPM = {
    "npm install": "pnpm install",
    "npm ci": "pnpm install --frozen-lockfile",
    "npm i -D left-pad": "pnpm i -D left-pad",
    "cd 'my web' && npm run build": "cd 'my web' && pnpm run build",
    "npm test; npm run lint": "pnpm test; pnpm run lint",
    "time npm test": "time pnpm test",
    "CI=1 npm test": "CI=1 pnpm test",
    "npm install --legacy-peer-deps": "deny",
    "npm install --verbose": "deny",
    "npm install && npm install -w web": "deny",
    "sudo npm install left-pad": "deny",
    "npm run build -- --watch": "none",
    "npm test -- --watch": "none",
    "npm run build -w web": "none",
    "npm init vite": "none",
    "npm cache clean --force": "none",
    "npm --version": "none",
    "npx tsc": "none",
    "npx -y create-vite": "none",
    "pnpm install": "none",
    "echo npm install": "none",
}


@pytest.mark.parametrize(
    ("name", "file", "line", "expected"),
    [("use-uv", "uv.lock", *pair) for pair in UV.items()]
    + [("use-pnpm", "pnpm-lock.yaml", *pair) for pair in PNPM.items()],
)
def test_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str, line: str, expected: str
) -> None:
    """What the other program can do is rewritten; the rest is denied, or stays as it is."""
    scratch = added(tmp_path, monkeypatch, name)
    scratch.file(file, "")
    verdict = scratch.fire(scratch.event({"bash": line}))
    became = (verdict.tool_input or {}).get("command") if str(verdict.decision) != "deny" else "deny"

    assert (became or "none") == expected


# -- files


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("protect-paths", "echo A=1 > .env.local", "deny"),
        ("protect-paths", "cp a 'secrets/a b'", "deny"),
        ("protect-paths", "cd secrets && echo x > token", "deny"),
        ("protect-paths", "sed -i s/a/b/ .github/workflows/ci.yml", "deny"),
        ("protect-paths", "packages/web/x.sh; echo x > packages/web/.env", "deny"),
        ("protect-paths", "cat .env", "none"),
        ("protect-paths", "echo .env > notes.txt", "none"),
        ("protect-paths", "git commit -m 'edit .env'", "none"),
        ("private-paths", "cat packages/web/.env", "deny"),
        ("private-paths", "cd secrets; cat 'a b'", "deny"),
        ("private-paths", "base64 server.pem | head", "deny"),
        ("private-paths", "cat .env.example", "none"),
        ("private-paths", "ls secrets", "none"),
        ("private-paths", "echo 'cat .env'", "none"),
    ],
)
def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, line: str, expected: str) -> None:
    """Files are known in whatever folder of the project."""
    assert of_bash(added(tmp_path, monkeypatch, name), line, name) == expected


def edited(scratch: Scratch, path: str) -> dict[str, Any]:
    given = {"file_path": str(scratch.project / path), "content": ""}
    return {"hook_event_name": "PostToolUse", "tool_name": "Write", "tool_input": given, "tool_response": "ok"}


@pytest.mark.parametrize("path", ["a b.py", "packages/web app/x.py", "-x.py", "'quoted'.py", "UPPER.py", "ünï.py"])
def test_formatted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Files with odd names, in any folder."""
    import sys

    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    scratch = added(tmp_path, monkeypatch, "format-after-edit")
    scratch.fire(scratch.event({"event": edited(scratch, path), "files": {"ruff.toml": "", path: "x=1\n"}}))

    assert (scratch.project / path).read_text() == "x = 1\n"


def test_the_log_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that looks like an option."""
    scratch = added(tmp_path, monkeypatch, "event-log", file="-x/a b.log")
    scratch.fire(scratch.event({"bash": "ls"}))

    assert len((scratch.project / "-x" / "a b.log").read_text().splitlines()) == 1
