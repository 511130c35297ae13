"""The guard looks at the repository that git works in, which is not always the one of the session."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from effects.judging import Judgement, engine, home_is, judge
from effects.repository import Repository

_MADE = """
set -e
export GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=user.email GIT_CONFIG_VALUE_0=me@example.com GIT_CONFIG_KEY_1=user.name
export GIT_CONFIG_VALUE_1=me GIT_CONFIG_KEY_2=protocol.file.allow GIT_CONFIG_VALUE_2=always
for each in library stashed inner; do
    git init -q -b main $each && (cd $each && echo 1 > a.txt && git add . && git commit -qm first)
done
mkdir main && cd main && git init -q -b feat && echo inner/ > .gitignore && echo 1 > b.txt
git submodule add -q ../library sub && git add . && git commit -qm first
git worktree add -q ../side && mv ../inner inner
(cd ../stashed && echo 2 > a.txt && git stash -q)
"""
_WORK = "echo 2 > ../side/b.txt; echo 2 > sub/a.txt; echo 2 > inner/a.txt"


class Repositories:
    """A repository without work of its own; a worktree, a submodule, one inside it and others beside it."""

    def __init__(self, folder: Path) -> None:
        (folder / "home").mkdir()
        self.main = Repository(str(folder / "main"), str(folder / "home"))
        done = self.main.run(_MADE, str(folder))
        assert done.returncode == 0, done.stderr

    def judged(self, line: str) -> Judgement:
        return judge(engine(), self.main.root, "Bash", {"command": line})


@pytest.fixture(scope="module")
def repositories() -> Iterator[Repositories]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="guard-repositories-") as folder:
        made = Repositories(Path(folder))
        with home_is(made.main.home):
            yield made


_LOSES_WORK = [
    "git -C ../side reset --hard",
    "cd ../side && git checkout .",
    "cd ../side; git restore b.txt",
    "git worktree remove --force ../side",
    "cd sub && git reset --hard",
    "git -C sub restore .",
    "git --git-dir=sub/.git --work-tree=sub checkout .",
    "git submodule foreach git reset --hard",
    "git submodule deinit -f sub",
    "cd inner && git reset --hard",
    "git -C inner checkout -- a.txt",
]


@pytest.mark.parametrize("line", _LOSES_WORK)
def test_work_of_another_repository(repositories: Repositories, line: str) -> None:
    """Nothing is lost in a repository without work; the same line is stopped where it has some."""
    repositories.main.run("for each in sub inner ../side; do git -C $each checkout -q .; done")
    assert repositories.judged(line).decision == "none"
    repositories.main.run(_WORK)
    assert repositories.judged(line).decision == "ask"
    assert repositories.judged("git reset --hard").decision == "none"


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("git -C ../stashed stash clear", "ask"),
        ("git stash clear", "none"),
        ("cd inner && git push -f", "deny"),
        ("git -C inner push --force-with-lease", "deny"),
        ("git push -f", "ask"),
        ("git push --force-with-lease", "none"),
    ],
)
def test_stashes_and_branches_of_another_repository(repositories: Repositories, line: str, decision: str) -> None:
    assert repositories.judged(line).decision == decision


@pytest.mark.parametrize("line", ["git reset --hard", "git clean -fdx", "git checkout ."])
def test_no_repository(repositories: Repositories, line: str) -> None:
    """git itself refuses where no repository is."""
    assert repositories.judged(f"cd .. && {line}").decision == "none"
    assert repositories.judged(f"git --git-dir=/srv/x.git --work-tree=/srv {line[4:]}").decision == "ask"
