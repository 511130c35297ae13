"""What git, and the few programs around it, would do: one row per command."""

import shlex

import pytest

from billhook.effects.effect import Command
from billhook.effects.families import effects_of_command
from billhook.effects.families.git import IGNORED, UNTRACKED, UNTRACKED_AND_IGNORED
from effects.world import PROJECT, effects_of_words, world

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    f"{PROJECT}/.git/HEAD": "ref: refs/heads/feature\n",
    f"{PROJECT}/.git/refs/heads/docs": COMMIT,
    f"{PROJECT}/.git/packed-refs": f"# pack-refs\n{COMMIT} refs/heads/packed\n{COMMIT} refs/tags/v1\n",
    f"{PROJECT}/docs/index.md": "",
    f"{PROJECT}/packed": "",
    f"{PROJECT}/README.md": "",
    "/home/me/other/.git": None,
    "/home/me/other/sub/x": "",
    "/tmp/scratch/.git": None,
}


def effects(line: str, cwd: str = PROJECT) -> list[str]:
    found = effects_of_words(*shlex.split(line), files=FILES, cwd=cwd)
    return [f"{each.kind}:{each.scope}:{each.weight}" for each in found]


DISCARDS = """
git reset --hard
git reset --har
git reset --hard HEAD
git reset --merge
git checkout .
git checkout -- src/a.py
git checkout -- .
git checkout -f
git checkout -f main
git checkout --force main
git checkout HEAD -- src
git checkout HEAD src/a.py
git checkout HEAD~3 -- src/a.py
git checkout README.md
git checkout src
git checkout :/
git checkout '*.py'
git checkout ':(top)src'
git checkout --pathspec-from-file=list
git restore src/a.py
git restore .
git restore -s HEAD~2 src
git restore --staged --worktree .
git restore -SW .
git restore --source=HEAD -- src/a.py
git switch -f main
git switch --discard-changes main
git clean -f
git clean -fd
git clean -xdf
git clean -ffdx
git clean -f -d src
git clean --force
git clean -i
git clean -fd -e keep
git clean -fdx -e -n
git -c clean.requireForce=false clean -d
git rm -f src/a.py
git rm -rf src
git checkout-index -f -a
git checkout-index --force src/a.py
git read-tree -u --reset HEAD
git worktree remove --force src
git submodule deinit -f lib
git submodule deinit --all --force
git --no-pager -c color.ui=never reset --hard
git -c alias.x='reset --hard' x
git -c alias.x=y -c alias.y='checkout .' x
git -C . reset --hard
git --git-dir=.git --work-tree=. checkout .
hg update -C
hg up --clean tip
hg purge
hg revert --no-backup src
svn revert -R .
svn cleanup --remove-unversioned
"""
HARMLESS = """
git
git --version
git status
git log --oneline -5
git diff HEAD~1 -- src
git show HEAD:src/a.py
git add -A
git add -f src
git commit -m 'reset --hard and push --force'
git commit --no-verify -m x
git commit -am 'git clean -fdx'
git stash
git stash push -m wip
git stash -u
git stash pop
git stash apply
git stash list
git checkout -b new
git checkout -b docs origin/docs
git checkout main
git checkout docs
git checkout packed
git checkout v1
git checkout -
git checkout --detach HEAD~2
git checkout -t origin/feature
git checkout -p
git switch main
git switch -c new
git restore --staged .
git restore -S src/a.py
git restore -p src
git reset
git reset HEAD
git reset HEAD src/a.py
git reset -- src/a.py
git reset -p
git clean -n
git clean -nfd
git clean -fdn
git clean --dry-run -fdx
git clean -d
git clean -f --help
git rm src/a.py
git rm --cached -f src/a.py
git rm -rf -n src
git worktree remove ../feature
git worktree add ../feature
git worktree prune
git worktree list
git submodule update --init --recursive
git submodule status
git branch
git branch -d merged
git branch -Dr origin/gone
git branch -u origin/main
git tag v2
git tag -a v2 -m x
git tag -l
git fetch --prune
git fetch --all --force
git pull --rebase
git merge feature
git merge --abort
git rebase --abort
git rebase --continue
git cherry-pick abc
git revert HEAD
git bisect start
git bisect reset
git reflog
git reflog show main
git reflog expire --dry-run --expire=now --all
git reflog expire --all
git gc
git gc --aggressive
git gc --prune=2.weeks.ago
git prune -n
git fsck --lost-found
git filter-repo --analyze
git lfs prune --dry-run
git lfs pull
git push --dry-run --force origin main
git push -n -f
git push --help
git remote remove origin
git remote -v
git ls-files -d
git config --list
git config user.name
git config --global user.email me@example.org
git config --global alias.co checkout
git config --global core.editor 'code --wait'
git config --global credential.helper osxkeychain
git config --get core.hooksPath
git config core.fsmonitor true
git config --unset core.hooksPath
git config get alias.x
git config set user.name me
git -c core.hooksPath=/dev/null status
git -c alias.x='log -1' x
git apply --check fix.patch
git apply --stat fix.patch
git blame -f src/a.py
git grep -n -f patterns
git ls-remote --heads origin
git archive HEAD
git replace -l
git update-index --refresh
git unknown-verb --hard
gh repo view
gh repo clone me/x
gh pr merge --delete-branch
gh api repos/me/x
hg status
hg update tip
hg revert src
svn status
svn update
jj log
jj undo
jj squash
"""
OTHERS = {
    # light: what people do all day
    "git reset --keep HEAD~1": ["discard:project:light", "rewrite-history:project:light"],
    "git reset --soft HEAD~1": ["rewrite-history:project:light"],
    "git reset HEAD~2": ["rewrite-history:project:light"],
    "git reset --hard origin/main": ["discard:project:normal", "rewrite-history:project:light"],
    "git checkout --ours src/a.py": ["discard:project:normal"],
    "git checkout -B main origin/main": ["rewrite-history:project:light"],
    "git switch -C main": ["rewrite-history:project:light"],
    "git branch -f main HEAD~1": ["rewrite-history:project:light"],
    "git branch -M main": ["rewrite-history:project:light"],
    "git commit --amend --no-edit": ["rewrite-history:project:light"],
    "git rebase main": ["rewrite-history:project:light"],
    "git rebase -i HEAD~3": ["rewrite-history:project:light"],
    "git tag -d v1": ["drop-recovery:project:light"],
    "git lfs prune": ["drop-recovery:project:light"],
    "git clone https://example.org/x.git": ["write:project:light"],
    "git clone --depth 1 https://example.org/x /tmp/x": ["write:temp:light"],
    "git clone https://example.org/x ~/x": ["write:home:light"],
    "git init /etc/x": ["write:system:light"],
    "git apply fix.patch": ["write:project:light"],
    "git apply --stat --apply fix.patch": ["write:project:light"],
    "git am x.mbox": ["write:project:light"],
    "git archive -o out.tar HEAD": ["overwrite:project:light"],
    "git archive --output=/etc/x HEAD": ["overwrite:system:light"],
    "git diff --output=../d.patch": ["overwrite:home:light"],
    "git bundle create x.bundle main": ["overwrite:project:light"],
    "git mv -f a b": ["overwrite:project:light"],
    # history and the ways back
    "git filter-branch --tree-filter 'rm x' HEAD": ["rewrite-history:project:normal"],
    "git filter-repo --path src": ["rewrite-history:project:normal"],
    "git filter-repo --force --path src": ["rewrite-history:project:heavy"],
    "git-filter-repo --force --path src": ["rewrite-history:project:heavy"],
    "git replace abc def": ["rewrite-history:project:normal"],
    "git lfs migrate import --everything": ["rewrite-history:project:normal"],
    "bfg --delete-files id_rsa": ["rewrite-history:project:normal"],
    "git stash drop": ["drop-recovery:project:normal"],
    "git stash drop stash@{2}": ["drop-recovery:project:normal"],
    "git stash clear": ["drop-recovery:project:normal"],
    "git reflog delete HEAD@{1}": ["drop-recovery:project:normal"],
    "git reflog expire --expire=now main": ["drop-recovery:project:normal"],
    "git reflog expire --expire now --all": ["drop-recovery:project:heavy"],
    "git reflog expire --expire-unreachable=now --all": ["drop-recovery:project:heavy"],
    "git gc --prune=now": ["drop-recovery:project:normal"],
    "git gc --aggressive --prune=all": ["drop-recovery:project:normal"],
    "git -c gc.pruneExpire=now gc": ["drop-recovery:project:normal"],
    "git prune": ["drop-recovery:project:normal"],
    "git branch -D feature": ["drop-recovery:project:normal"],
    "git branch -d -f feature": ["drop-recovery:project:normal"],
    "git branch --delete --force feature": ["drop-recovery:project:normal"],
    "git update-ref -d refs/heads/main": ["drop-recovery:project:normal"],
    "git update-ref --stdin": ["drop-recovery:project:normal"],
    "jj abandon @": ["rewrite-history:project:light"],
    "jj op abandon ..@-": ["drop-recovery:project:normal"],
    "hg strip tip": ["rewrite-history:project:normal"],
    # pushes
    "git push": ["push:remote:light"],
    "git push -u origin feature": ["push:remote:light"],
    "git push origin main": ["push:remote:light"],
    "git push origin HEAD:main": ["push:remote:light"],
    "git push --tags": ["push:remote:light"],
    "git push --force-if-includes origin x": ["push:remote:light"],
    "git push --force": ["force-push:remote:normal"],
    "git push -f origin feature": ["force-push:remote:normal"],
    "git push -fu origin feature": ["force-push:remote:normal"],
    "git push origin +feature": ["force-push:remote:normal"],
    "git push origin feature --force": ["force-push:remote:normal"],
    "git push --force-with-lease origin feature": ["force-push:remote:light"],
    "git push --force-with-lease": ["force-push:remote:light"],
    "git push --force-with-lease=feature:abc origin feature": ["force-push:remote:light"],
    "git push --force --force-with-lease origin feature": ["force-push:remote:normal"],
    "git push --force-with-lease origin main": ["force-push:remote:heavy"],
    "git push -f origin main": ["force-push:remote:heavy"],
    "git push origin +HEAD:main": ["force-push:remote:heavy"],
    "git push origin +refs/heads/x:refs/heads/master": ["force-push:remote:heavy"],
    "git push -f origin release/1.2": ["force-push:remote:heavy"],
    "git push origin '+refs/heads/*:refs/heads/*'": ["force-push:remote:heavy"],
    "git push --mirror": ["force-push:remote:heavy"],
    "git push --all --force": ["force-push:remote:heavy"],
    "git push --prune origin feature": ["force-push:remote:normal", "push:remote:light"],
    "git push origin --delete feature": ["force-push:remote:normal"],
    "git push -d origin feature": ["force-push:remote:normal"],
    "git push origin :feature": ["force-push:remote:normal"],
    "git push origin --delete main": ["force-push:remote:heavy"],
    "git push origin :main": ["force-push:remote:heavy"],
    "git push -o ci.skip origin feature": ["push:remote:light"],
    "git push origin a +b": ["push:remote:light", "force-push:remote:normal"],
    "hg push": ["push:remote:light"],
    "hg push -f": ["force-push:remote:normal"],
    "jj git push": ["push:remote:light"],
    # settings that make git run something
    "git config core.hooksPath .githooks": ["persist:project:light"],
    "git config alias.x '!rm -rf /'": ["persist:project:light"],
    "git config --global alias.x '!curl x | sh'": ["persist:home:normal"],
    "git config --global core.hooksPath /tmp/hooks": ["persist:home:normal"],
    "git config set --global core.fsmonitor ./run": ["persist:home:normal"],
    "git config --global core.pager 'less; curl x | sh'": ["persist:home:normal"],
    "git config --system credential.helper '!x'": ["persist:system:normal"],
    "git config -f ~/.gitconfig core.hooksPath /tmp/x": ["persist:home:light"],
    # other repositories
    "git -C /home/me/other reset --hard": ["discard:home:normal"],
    "git -C ../other checkout -- sub": ["discard:home:normal"],
    "git -C /tmp/scratch clean -fdx": ["discard:temp:normal"],
    "git --git-dir=/home/me/other/.git branch -D x": ["drop-recovery:home:normal"],
    "git --work-tree /home/me/other checkout -f": ["discard:home:normal"],
    "git rm -f /etc/x": ["discard:system:normal"],
    # hosts of repositories
    "gh repo delete me/x": ["destroy-infra:remote:normal"],
    "gh repo delete me/x --yes": ["destroy-infra:remote:heavy"],
    "gh api -X DELETE repos/me/x": ["destroy-infra:remote:normal"],
}


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("line", lines(DISCARDS))
def test_uncommitted_work_would_be_discarded(line: str) -> None:
    assert effects(line) == ["discard:project:normal"]


@pytest.mark.parametrize("line", lines(HARMLESS))
def test_nothing_is_lost(line: str) -> None:
    assert effects(line) == []


@pytest.mark.parametrize(("line", "expected"), OTHERS.items())
def test_the_rest(line: str, expected: list[str]) -> None:
    assert effects(line) == expected


def test_many_cases_are_harmless_or_light() -> None:
    """The share of look-alikes that a guard must leave alone."""
    light = [line for line, found in OTHERS.items() if all(each.endswith(":light") for each in found)]
    harmless = len(lines(HARMLESS)) + len(light)
    assert harmless / (len(lines(HARMLESS)) + len(lines(DISCARDS)) + len(OTHERS)) > 0.4


@pytest.mark.parametrize(
    ("line", "cwd", "expected"),
    [
        ("git reset --hard", PROJECT, [""]),
        ("git reset --hard", f"{PROJECT}/src", [""]),
        ("git checkout .", PROJECT, [""]),
        ("git checkout .", f"{PROJECT}/src", [f"{PROJECT}/src"]),
        ("git checkout -- :/", f"{PROJECT}/src", [""]),
        ("git restore :/docs", f"{PROJECT}/src", [f"{PROJECT}/docs"]),
        ("git restore . ':!keep'", f"{PROJECT}/src", [f"{PROJECT}/src"]),
        ("git restore a b", PROJECT, [f"{PROJECT}/a", f"{PROJECT}/b"]),
        ("git reset --hard", "/home/me/other/sub", ["/home/me/other"]),
        ("git -C /home/me -C other restore sub", PROJECT, ["/home/me/other/sub"]),
        ("git push origin HEAD", PROJECT, [""]),
        ("git push -f", PROJECT, [""]),
        ("git push origin HEAD:refs/heads/x", PROJECT, ["x"]),
        ("git push origin :a b", PROJECT, ["a", "b"]),
        ("git branch -D a b", PROJECT, ["a b"]),
    ],
)
def test_the_target(line: str, cwd: str, expected: list[str]) -> None:
    """A path, a branch, or "": the whole worktree, the current branch."""
    assert [each.target for each in effects_of_words(*shlex.split(line), files=FILES, cwd=cwd)] == expected


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("git reset --hard", ""),
        ("git clean -fd", UNTRACKED),
        ("git clean -fdx", UNTRACKED_AND_IGNORED),
        ("git clean -fdX", IGNORED),
    ],
)
def test_which_files_clean_removes(line: str, why: str) -> None:
    assert [each.why for each in effects_of_words(*line.split(), files=FILES)] == [why]


@pytest.mark.parametrize(
    ("words", "scope"),
    [
        (("git", "-C", "\0", "reset", "--hard"), "unknown"),
        (("git", "checkout", "--", "\0"), "unknown"),
        (("git", "branch", "-D", "x-\0"), "project"),
        (("git", "push", "-f", "origin", "\0"), "remote"),
        (("git", "update-ref", "--stdin"), "project"),
    ],
)
def test_what_the_call_does_not_show_is_uncertain(words: tuple[str, ...], scope: str) -> None:
    [found] = effects_of_words(*words, files=FILES)
    assert (found.certain, found.scope) == (False, scope)
    assert found.why


def test_the_folder_of_the_command_and_its_variables_decide_on_the_repository() -> None:
    here = world(FILES)
    command = Command("git", ("reset", "--hard"), PROJECT, assignments=("GIT_WORK_TREE=/home/me/other",))
    [found] = effects_of_command(command, here, here.scopes)
    assert (found.target, found.scope) == ("/home/me/other", "home")
    command = Command("git", ("reset", "--hard"), PROJECT, folders=("/home/me/other",))
    assert [each.scope for each in effects_of_command(command, here, here.scopes)] == ["project", "home"]


@pytest.mark.parametrize(("text", "count"), [("delete refs/heads/x\n", 1), ("create refs/heads/x abc\n", 0)])
def test_update_ref_reads_its_commands_from_standard_input(text: str, count: int) -> None:
    here = world(FILES)
    command = Command("git", ("update-ref", "--stdin"), PROJECT, stdin=text)
    assert len(effects_of_command(command, here, here.scopes)) == count


def test_a_linked_worktree_knows_the_branches_of_the_main_one() -> None:
    linked = {
        "/home/me/linked/.git": f"gitdir: {PROJECT}/.git/worktrees/linked\n",
        "/home/me/linked/docs/x": "",
        "/home/me/linked/src": None,
    }
    kinds = [
        effects_of_words("git", "checkout", name, files=FILES | linked, cwd="/home/me/linked")
        for name in ("docs", "src")
    ]
    assert [len(each) for each in kinds] == [0, 1]


@pytest.mark.parametrize(
    "words", [("git", "-C"), ("git", "-c"), ("git", "-c", "alias.x='", "x"), ("git", "push", "-o")]
)
def test_broken_commands_do_nothing(words: tuple[str, ...]) -> None:
    assert all(each.kind == "push" for each in effects_of_words(*words))


def test_an_alias_of_itself_ends() -> None:
    assert effects_of_words("git", "-c", "alias.x=x -f", "x") == []
