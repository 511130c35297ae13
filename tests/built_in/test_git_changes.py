"""git commands that would change or remove approved hook files, and those that would not: in a real repository."""

import os
import subprocess
from pathlib import Path

import pytest

from billhook.core.events import PreToolUse
from billhook.effects.effect import ProtectedPaths
from built_in.judging import disarms

NAMES = frozenset({".billhook/hooks.yaml", "hooks.yaml", ".claude/settings.json"})
MAKE = """
git init -q -b main . && git config user.name a && git config user.email a@b
mkdir -p .billhook scripts src && echo 'hooks: {}' > .billhook/hooks.yaml && echo 'exit 2' > scripts/guard.sh
echo 1 > src/x.py && echo ignored > .gitignore && git add -A && git commit -qm one && git tag one
git switch -qc same && echo 2 > src/x.py && git commit -qam same
git switch -qc changed main && echo 'hooks: {a: 1}' > .billhook/hooks.yaml && git commit -qam changed
git switch -qc removed main && git rm -qr .billhook && git commit -qm removed
git switch -qc script main && echo 'exit 0' > scripts/guard.sh && git commit -qam script
git switch -qc elsewhere main && echo x > src/new.py && git add -A && git commit -qm new
git update-ref refs/remotes/origin/distant changed && git update-ref refs/remotes/origin/near same
git update-ref refs/remotes/origin/main changed
git switch -q main && echo 3 > src/y.py && git add -A && git commit -qm three
echo stashed > src/y.py && git stash -q && echo 'hooks: {b: 1}' > .billhook/hooks.yaml && git stash -q
git branch same2 same && echo '# mine' >> src/x.py && echo x > untracked.txt
"""


def run(text: str, folder: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["bash", "-ec", text], cwd=folder, env=env, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("git").resolve()
    run(MAKE, folder)
    return folder


def judge(repository: Path, command: str, cwd: Path | None = None, *, approved: bool = True) -> str:
    return judge_call(repository, "Bash", {"command": command}, cwd, approved=approved)


def judge_call(
    repository: Path, tool: str, given: dict[str, str], cwd: Path | None = None, *, approved: bool = True
) -> str:
    files = (str(repository / ".billhook/hooks.yaml"), str(repository / "scripts/guard.sh"))
    protected = ProtectedPaths(files, (str(repository / ".billhook"),), (), NAMES, approved=files if approved else ())
    event = PreToolUse(cwd=str(cwd or repository), tool_name=tool, tool_input=given)
    return disarms(event, protected)[0]


CHANGES = [
    "git checkout removed --", "git pull . changed", "git pull ../fork main", "git stash store changed",
    "git filter-branch --index-filter 'git rm -r --cached .billhook' HEAD", "git rm --pathspec-from-file=x",
    "git checkout changed", "git switch changed", "git checkout removed", "git switch script", "git switch -d removed",
    "git switch --detach script", "git checkout --detach removed", "git checkout -b new removed",
    "git switch -c new changed", "git switch -C same removed", "git checkout -B x script", "git checkout distant",
    "git switch distant", "git checkout -t origin/distant", "git switch $BRANCH", "git checkout \"$(cat b)\"",
    "git checkout changed -- .billhook", "git checkout removed -- scripts/guard.sh .billhook/hooks.yaml",
    "git checkout changed .billhook/hooks.yaml", "git restore -s changed .", "git restore --source=script scripts",
    "git restore -s script -- scripts/guard.sh", "git reset --hard changed", "git reset --hard removed",
    "git reset --merge script", "git checkout -f changed", "git switch -f removed",
    "git switch --discard-changes script", "git switch --orphan empty", "git merge changed", "git merge removed",
    "git merge --no-ff script", "git rebase changed", "git rebase --onto removed one", "git cherry-pick changed",
    "git cherry-pick script", "git revert one", "git cherry-pick one..removed", "git stash pop", "git stash apply",
    "git stash apply stash@{0}", "git sparse-checkout set src", "git sparse-checkout init", "git rm -r .billhook",
    "git rm scripts/guard.sh", "git mv .billhook b", "git mv scripts s", "git -C src switch removed",
    "cd src && git checkout changed", "git --git-dir=/tmp/other/.git --work-tree=. checkout -f",
    "GIT_DIR=/tmp/other/.git git reset --hard", "git branch -f same removed && git switch same",
    "git update-ref refs/heads/same removed; git switch same", "git rm -r --cached .billhook && git clean -fd",
    "git pull origin main", "git fetch && git switch nowhere", "sh -c 'git switch removed'",
    "git read-tree -u --reset removed", "git checkout-index -f -a", "git switch removed; ls",
    "git stash; git switch removed", "true && git checkout one^0 && git checkout script",
]  # fmt: skip
UNCHANGED = [
    "git pull . same", "git filter-branch --msg-filter 'sed s/a/b/' HEAD", "git checkout same --",
    "git checkout -b new", "git switch -c new", "git switch main", "git checkout same", "git switch same",
    "git checkout near", "git switch near", "git checkout -t origin/near", "git switch elsewhere",
    "git checkout --detach same", "git checkout -b new same", "git stash", "git stash push", "git stash -u",
    "git stash push -m x -- src", "git stash --keep-index", "git stash list", "git stash show -p", "git stash drop",
    "git stash apply stash@{1}", "git stash pop 1", "git reset --soft HEAD~1", "git reset HEAD~1", "git reset --hard",
    "git reset --hard HEAD", "git reset --hard same", "git restore src/x.py", "git restore .",
    "git restore --staged .", "git checkout -- src/x.py", "git checkout .", "git checkout HEAD -- .",
    "git checkout src/x.py", "git checkout same -- src", "git checkout -f", "git clean -fd", "git clean -fdx src",
    "git clean -n", "git merge same", "git merge --abort", "git rebase same", "git rebase --continue",
    "git rebase elsewhere", "git cherry-pick same", "git cherry-pick --abort", "git revert same", "git pull",
    "git fetch --all", "git rm src/x.py", "git mv src/x.py src/z.py", "git rm --cached .billhook/hooks.yaml",
    "git branch new && git switch new", "git worktree list", "git sparse-checkout list",
    "git commit -am x && git switch same", "git -C src switch same", "git tag x", "git switch -", "git log removed",
    "git diff changed", "git show removed:.billhook/hooks.yaml", "git checkout main && git pull",
    "git merge-base main changed", "git status", "git switch one --detach",
]  # fmt: skip


@pytest.mark.parametrize("command", CHANGES)
def test_a_command_that_changes_approved_files_asks(command: str, repository: Path) -> None:
    """Whichever way it brings another state of them, or takes them away."""
    assert judge(repository, command) == "ask"


@pytest.mark.parametrize("command", UNCHANGED)
def test_a_command_that_does_not_touch_them_is_allowed(command: str, repository: Path) -> None:
    """Most branches have the same hooks."""
    assert judge(repository, command) == "none"


@pytest.mark.parametrize("command", ["git switch removed", "git checkout changed", "git merge script", "git stash pop"])
def test_nothing_is_read_without_approved_files(command: str, repository: Path) -> None:
    """Files without an approval may change."""
    assert judge(repository, command, approved=False) == "none"


def test_changed_files_are_not_thrown_away_unseen(tmp_path: Path) -> None:
    """Work on a hook file that is not committed yet is lost by these."""
    folder = tmp_path.resolve()
    run(MAKE + "echo '# more' >> .billhook/hooks.yaml && echo x > .billhook/hooks.local.yaml", folder)
    for command in (
        "git stash",
        "git reset --hard",
        "git restore .",
        "git checkout .",
        "git checkout -f",
        "git clean -fd",
    ):
        assert judge(folder, command) == "ask", command
    for command in ("git switch same", "git stash push -- src", "git restore src", "git reset --soft HEAD~1"):
        assert judge(folder, command) == "none", command


def test_nothing_of_the_repository_runs(tmp_path: Path) -> None:
    """Monitors, filters and programs that it brings along are left alone."""
    folder = tmp_path.resolve()
    run(MAKE, folder)
    evil = f"touch {folder}/ran"
    run(
        f"git config core.fsmonitor '{evil}'; git config filter.x.clean '{evil}'; git config core.pager '{evil}'",
        folder,
    )
    (folder / ".gitattributes").write_text("* filter=x\n")
    (folder / "git").write_text(f"#!/bin/sh\n{evil}\n")
    (folder / "git").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        assert judge(folder, "git switch same") == "none"
        assert judge(folder, "git stash; git switch removed") == "ask"
    assert not (folder / "ran").exists()


TOOLS = [
    ("git_checkout", {"branch_name": "removed"}, "ask"),
    ("git_checkout", {"branch_name": "same"}, "none"),
    ("git_reset", {"mode": "hard", "target": "changed"}, "ask"),
    ("git_reset", {}, "none"),
    ("git_merge", {"branch": "script"}, "ask"),
]


@pytest.mark.parametrize(("tool", "given", "decision"), TOOLS)
def test_a_git_server_is_judged_by_the_same_rules(
    tool: str, given: dict[str, str], decision: str, repository: Path
) -> None:
    """The tool does the same as the git command of that name."""
    assert judge_call(repository, f"mcp__git__{tool}", {"repo_path": str(repository), **given}) == decision
