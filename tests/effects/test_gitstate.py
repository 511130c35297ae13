"""What a repository has that no commit has, compared with what git itself reports, and with hostile repositories."""

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook.effects.gitstate import (
    MOST_NAMES,
    Work,
    current_branch,
    default_branches,
    has_stash,
    repository,
    uncommitted,
    worktrees,
)

ENOUGH = 60_000.0  # the tests are about what is found; the limit has tests of its own
ALONE = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *words]
    done = subprocess.run(command, cwd=folder, env=os.environ | ALONE, check=True, capture_output=True)
    return done.stdout.decode("utf-8", "surrogateescape")


def write(root: Path, **files: str) -> bool:
    """Files by name, `__` for a slash and `_d_` for a dot."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_d_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return True


def commit(root: Path, message: str = "x") -> str:
    return git(root, "add", "-A") + git(root, "commit", "-qm", message)


def replace_by_link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").write_text("x")


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_executable(path: Path) -> bool:
    path.chmod(0o755)
    return True


def links(root: Path) -> None:
    (root / "link").symlink_to("/nowhere")
    (root / "loop").symlink_to(".")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q")
    write(root, a="one\n", b="two\n", src__a="three\n", src__deep__b="four\n", docs__index="five\n")
    commit(root)
    return root


def work(root: Path, *paths: str, ignored: bool = False, deadline_ms: float = ENOUGH) -> Work:
    named = [str(root / path) for path in paths]
    return uncommitted(str(root), named, untracked=True, ignored=ignored, deadline_ms=deadline_ms)


def by_git(root: Path, *paths: str) -> tuple[list[str], list[str], list[str]]:
    """Modified, staged and untracked files as `git status` reports them."""
    status = git(root, "status", "--porcelain", "-z", "-uall", "--no-renames", "--ignore-submodules=all", "--", *paths)
    modified, staged, untracked = [], [], []
    for line in filter(None, status.split("\0")):
        left, right, name = line[0], line[1], line[3:]
        if left == "?":
            untracked.append(name)
            continue
        unmerged = "U" in (left, right) or line[:2] in ("AA", "DD")
        if right != " " or unmerged:
            modified.append(name)
        if left != " " and not unmerged:
            staged.append(name)
    return sorted(modified), sorted(staged), sorted(untracked)


def same_as_git(root: Path, *paths: str) -> Work:
    found = work(root, *paths)
    assert (found.certain, found.why) == (True, "")
    assert (sorted(found.modified), sorted(found.staged), sorted(found.untracked)) == by_git(root, *paths)
    return found


def nothing(_root: Path) -> None:
    pass


def replaced_by_link(root: Path) -> None:
    shutil.rmtree(root / "src")
    (root / "src").symlink_to("docs")


def conflict(root: Path) -> None:
    git(root, "checkout", "-qb", "other")
    write(root, a="theirs\n")
    commit(root)
    git(root, "checkout", "-q", "main")
    write(root, a="ours\n")
    commit(root)
    subprocess.run(["git", "merge", "other"], cwd=root, env=os.environ | ALONE, check=False, capture_output=True)


IGNORED = {
    "names": ("*.log\n/only\nsub/\n", "x.log only deep/only sub/x deep/sub/x sub2"),
    "except": ("*.log\n!keep.log\n", "x.log keep.log s/keep.log"),
    "except below an ignored folder": ("out/\n!out/keep\nsrc/*\n!src/keep\n", "out/keep src/keep src/lost"),
    "any depth": ("a1/**/z\n**/y\nq/**\nr/**/s/t\n", "a1/z a1/b/c/z z b1/y y q/r/s r/s/t r/1/2/s/t"),
    "escapes": ("\\#x\n\\!y\n# no\n\ntrail   \nb\\*\n", "#x !y no trail b* bb"),
    "signs": ("f[0-9]\ng[^a]\ng[!b]x\nh?\n*.py[co]\nm/n\n*\\.q", "f1 fa ga gb gax gbx h hh x.pyc x.py m/n k/m/n a.q"),
    "everything": ("*\n", "x src/y"),
    "everything except": ("/*\n!/src\n", "x src/y docs/z"),
    "odd lines": ("/\n!\n//\n/**/\nx\r\n[\n", "w x v/x"),
}


@pytest.mark.parametrize("rules", IGNORED)
@pytest.mark.parametrize("place", [".gitignore", "src/.gitignore", ".git/info/exclude"])
def test_ignored_files(repo: Path, place: str, rules: str) -> None:
    lines, names = IGNORED[rules]
    (repo / place).write_text(lines)
    for name in names.split():
        for path in (repo / name, repo / "src" / name):
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_dir():
                path.write_text("")
    same_as_git(repo)


def test_rules_below_come_after_those_above(repo: Path) -> None:
    write(repo, _d_gitignore="*.t\n", src__a_d_t="", src__b_d_t="", c_d_t="")
    (repo / "src/.gitignore").write_text("!a.t\n")
    assert "src/a.t" in same_as_git(repo).untracked


EDITS: dict[str, Callable[[Path], object]] = {
    "clean": nothing,
    "changed": lambda root: write(root, a="changed\n"),
    "same size": lambda root: write(root, a="ONE\n"),
    "same content": lambda root: write(root, a="one\n"),
    "touched": lambda root: os.utime(root / "a", (1, 1)),
    "emptied": lambda root: write(root, a=""),
    "deleted": lambda root: (root / "a").unlink(),
    "folder deleted": lambda root: shutil.rmtree(root / "src"),
    "folder replaced by a link": replaced_by_link,
    "file replaced by a link": lambda root: replace_by_link(root / "a", "b"),
    "file replaced by a folder": lambda root: replace_by_folder(root / "a"),
    "executable": lambda root: (root / "a").chmod(0o755),
    "staged": lambda root: (write(root, src__a="x"), git(root, "add", "-A")),
    "staged and changed": lambda root: (write(root, a="x"), git(root, "add", "a"), write(root, a="y")),
    "new and staged": lambda root: (write(root, src__new="x"), git(root, "add", "-A")),
    "new folder staged": lambda root: (write(root, new__deep__x="x"), git(root, "add", "-A")),
    "removed": lambda root: git(root, "rm", "-rq", "src"),
    "moved": lambda root: git(root, "mv", "a", "src/moved"),
    "staged mode": lambda root: (make_executable(root / "a"), git(root, "add", "a")),
    "intent to add": lambda root: (write(root, new="x"), git(root, "add", "-N", "new")),
    "only in the index": lambda root: git(root, "rm", "-q", "--cached", "a"),
    "untracked": lambda root: write(root, new="x", src__new="y", other__deep__x="z"),
    "odd names": lambda root: write(root, **{"a b": "x", "ü": "y", "-n": "z", "[x]": "w"}),
    "excluded": lambda root: ((root / ".git/info/exclude").write_text("x\n"), write(root, x="", src__x="")),
    "ignored, but tracked": lambda root: (write(root, _d_gitignore="a\nsrc\n", src__new=""), write(root, a="changed")),
    "links": links,
    "pipe": lambda root: os.mkfifo(root / "pipe"),
    "pipe for a file": lambda root: replace_by_pipe(root / "a"),
    "assumed": lambda root: (git(root, "update-index", "--assume-unchanged", "a"), write(root, a="x")),
    "skipped": lambda root: (git(root, "update-index", "--skip-worktree", "a"), write(root, a="x")),
    "conflict": conflict,
    "detached": lambda root: (git(root, "checkout", "-q", "--detach"), write(root, a="x")),
    "mixed reset": lambda root: (write(root, a="x"), commit(root), git(root, "reset", "-q", "HEAD~1")),
    "soft reset": lambda root: (write(root, a="x", n="y"), commit(root), git(root, "reset", "-q", "--soft", "HEAD~1")),
    "no index": lambda root: (root / ".git/index").unlink(),
}  # fmt: skip

FORMS: dict[str, Callable[[Path], object]] = {
    "plain": nothing,
    "packed": lambda root: git(root, "gc", "-q"),
    "index version 4": lambda root: git(root, "update-index", "--index-version", "4"),
    "index without cached trees": lambda root: (git(root, "read-tree", "--empty"), git(root, "add", "-A")),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("form", FORMS)
def test_the_work_is_what_git_reports(repo: Path, form: str, edit: str) -> None:
    FORMS[form](repo)
    EDITS[edit](repo)
    same_as_git(repo)


@pytest.mark.parametrize("edit", ["clean", "changed", "staged", "untracked", "removed"])
@pytest.mark.parametrize("path", ["a", "src", "src/deep", "src/a", "missing"])
def test_paths_limit_the_work(repo: Path, edit: str, path: str) -> None:
    EDITS[edit](repo)
    same_as_git(repo, path)


def test_a_pattern_limits_the_work_as_in_git(repo: Path) -> None:
    write(repo, a="x", src__a="x", b="x", new_d_log="")
    assert same_as_git(repo, "*a").modified == ["a", "src/a"]


def test_paths_elsewhere_have_no_work(repo: Path) -> None:
    write(repo, a="x")
    assert uncommitted(str(repo), ["/elsewhere"], untracked=True, deadline_ms=ENOUGH) == Work([], [], [])


@pytest.mark.parametrize("seed", range(12))
def test_random_edits(repo: Path, seed: int) -> None:
    """Many files in many folders, some of them changed, staged, removed or new; compared after each round."""
    dice = random.Random(seed)
    names = [f"{dice.choice('pqr')}/{dice.choice('stu')}/{number}" for number in range(40)]
    for name in names:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(name * dice.randrange(1, 50))
    commit(repo)
    for _ in range(4):
        for name in dice.sample(names, 8):
            path = repo / name
            action = dice.choice(["change", "remove", "stage", "touch", "new", "gc", "commit", "unstage"])
            if action in ("change", "stage"):
                path.write_text(str(dice.random()))
            elif action == "remove" and path.exists():
                path.unlink()
            elif action == "touch" and path.exists():
                os.utime(path)
            elif action == "new":
                (path.parent / f"new{dice.randrange(9)}").write_text("x")
            if action == "stage":
                git(repo, "add", name)
            elif action == "unstage":
                git(repo, "reset", "-q")
            elif action == "gc":
                git(repo, "gc", "-q")
            elif action == "commit":
                git(repo, "commit", "-q", "--allow-empty", "-m", "x")
        same_as_git(repo)


def test_a_repository_that_borrows_objects(repo: Path) -> None:
    git(repo, "gc", "-q")
    git(repo.parent, "clone", "-q", "--shared", str(repo), "borrower")
    borrower = repo.parent / "borrower"
    write(borrower, a="x")
    git(borrower, "add", "a")
    assert same_as_git(borrower).staged == ["a"]


def test_a_repository_with_sha256(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    write(tmp_path, a="1", src__b="2")
    commit(tmp_path)
    write(tmp_path, a="x", src__b="y")
    git(tmp_path, "add", "src")
    same_as_git(tmp_path)
    git(tmp_path, "gc", "-q")
    found = same_as_git(tmp_path)
    assert (found.modified, found.staged) == (["a"], ["src/b"])


def test_before_the_first_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, a="1", b="2")
    git(tmp_path, "add", "a")
    found = same_as_git(tmp_path)
    assert (found.staged, found.untracked) == (["a"], ["b"])
    assert current_branch(str(tmp_path)) == "main"


def test_a_linked_worktree(repo: Path) -> None:
    linked = repo.parent / "linked"
    git(repo, "worktree", "add", "-q", str(linked), "-b", "feature")
    write(linked, a="x", new="y")
    found = same_as_git(linked)
    assert (found.modified, found.untracked) == (["a"], ["new"])
    assert same_as_git(repo).modified == []
    assert repository(str(linked / "src")) == (str(linked), str(repo / ".git/worktrees/linked"))
    assert (current_branch(str(linked)), current_branch(str(repo))) == ("feature", "main")
    assert worktrees(str(repo / ".git")) == worktrees(str(repo / ".git/worktrees/linked")) == [str(linked)]


def test_a_worktree_that_does_not_point_back_does_not_count(repo: Path) -> None:
    """Otherwise a repository could declare the user's home to be a part of itself."""
    claimed = repo.parent / "claimed"
    claimed.mkdir()
    claim = repo / ".git/worktrees/claim"
    claim.mkdir(parents=True)
    (claim / "gitdir").write_text(f"{claimed}/.git\n")
    (claim / "HEAD").write_text("ref: refs/heads/main\n")
    assert worktrees(str(repo / ".git")) == []
    (claimed / ".git").write_text(f"gitdir: {repo}/.git\n")
    assert worktrees(str(repo / ".git")) == []


def test_a_submodule(repo: Path) -> None:
    top = repo.parent / "top"
    top.mkdir()
    git(top, "init", "-q")
    git(top, "submodule", "--quiet", "add", str(repo), "lib")
    commit(top)
    write(top, lib__a="x")
    assert same_as_git(top).modified == []
    assert repository(str(top / "lib/src")) == (str(top / "lib"), str(top / ".git/modules/lib"))
    assert same_as_git(top / "lib").modified == ["a"]


def test_a_repository_inside_counts_as_untracked(repo: Path) -> None:
    write(repo, inner__a="x")
    git(repo / "inner", "init", "-q")
    assert work(repo).untracked == ["inner/"]


def test_ignored_files_are_listed_on_request_but_not_what_is_generated(repo: Path) -> None:
    write(repo, _d_gitignore=".env\nlocal/\n*.pyc\n", _d_env="secret", local__x="", node_modules__x="", build__y="")
    commit(repo)
    write(repo, node_modules__z="")
    assert work(repo).untracked == []
    assert sorted(work(repo, ignored=True).untracked) == [".env", "local/x"]


def test_at_most_some_names_are_listed(repo: Path) -> None:
    for number in range(MOST_NAMES + 20):
        (repo / f"new{number}").write_text("")
    assert len(work(repo).untracked) == MOST_NAMES


def test_without_a_repository(tmp_path: Path) -> None:
    write(tmp_path, a="")
    assert repository(str(tmp_path)) is None
    assert work(tmp_path) == Work([], [], [], False, "no git repository")
    assert (current_branch(str(tmp_path)), has_stash(str(tmp_path))) == ("", False)
    assert default_branches(str(tmp_path)) == {"main", "master"}
    assert worktrees(str(tmp_path)) == []


@pytest.mark.parametrize("packed", [False, True])
def test_branches_and_stashes(repo: Path, packed: bool) -> None:
    git(repo, "checkout", "-qb", "dev/x")
    origin = repo.parent / "origin.git"
    git(repo.parent, "init", "-q", "--bare", str(origin))
    git(repo, "remote", "add", "origin", str(origin))
    git(repo, "push", "-q", "origin", "dev/x")
    git(repo, "remote", "set-head", "origin", "dev/x")
    git(repo, "config", "init.defaultBranch", "trunk")
    if packed:
        git(repo, "gc", "-q")
    assert current_branch(str(repo)) == "dev/x"
    assert default_branches(str(repo)) == {"main", "master", "dev/x", "trunk"}
    assert has_stash(str(repo)) is False
    write(repo, a="x")
    git(repo, "stash")
    if packed:
        git(repo, "pack-refs", "--all")
    assert has_stash(str(repo)) is True
    git(repo, "checkout", "-q", "--detach")
    assert current_branch(str(repo)) == ""


# Hostile repositories: nothing runs, nothing is raised, nothing hangs.


SETTINGS = """
core.fsmonitor core.sshCommand core.pager core.editor core.askPass core.gitProxy core.alternateRefsCommand diff.external
diff.x.command diff.x.textconv merge.x.driver filter.x.clean filter.x.smudge filter.x.process pager.diff-index
pager.ls-files alias.diff-index alias.ls-files interactive.diffFilter gpg.program credential.helper
"""


@pytest.mark.parametrize("edit", ["changed", "same content", "staged", "untracked", "conflict"])
def test_nothing_that_a_repository_configures_runs(repo: Path, monkeypatch: pytest.MonkeyPatch, edit: str) -> None:
    write(repo, _d_gitattributes="* filter=x diff=x merge=x\n")
    commit(repo)
    EDITS[edit](repo)
    os.utime(repo / "b", (1, 1))
    expected = work(repo)
    ran = repo.parent / "ran"
    for name in SETTINGS.split():
        git(repo, "config", name, f"{'!' if name.startswith('alias') else ''}touch {ran};:")
    for name in os.listdir(repo / ".git/hooks"):
        (repo / ".git/hooks" / name.removesuffix(".sample")).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (repo / ".git/hooks" / name.removesuffix(".sample")).chmod(0o755)
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {ran}")
    monkeypatch.setenv("GIT_PAGER", f"touch {ran}")
    assert questions(repo) == expected
    assert expected.certain
    assert not ran.exists()
    monkeypatch.undo()
    subprocess.run(["git", "status"], cwd=repo, env=os.environ | ALONE, check=False, capture_output=True)
    assert ran.exists()  # it is a trap: git itself, as it is usually run, steps into it


@pytest.mark.parametrize("url", ["{}", "ssh://localhost/x", "ext::touch {}"])
def test_a_missing_object_is_not_fetched(repo: Path, url: str) -> None:
    """A fetch runs what the repository configures for its remote."""
    ran = repo.parent / "ran"
    tree = git(repo, "rev-parse", "HEAD^{tree}").strip()
    write(repo, a="x")
    git(repo, "add", "a")
    (repo / ".git/objects" / tree[:2] / tree[2:]).unlink()
    settings = {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": url.format(repo.parent if url == "{}" else ran),
        "remote.origin.uploadpack": f"touch {ran};:",
        "core.sshCommand": f"touch {ran};:",
        "protocol.allow": "always",
        "protocol.ext.allow": "always",
    }
    for name, value in settings.items():
        git(repo, "config", name, value)
    found = questions(repo)
    assert not found.certain
    assert not ran.exists()
    command = ["git", "diff-index", "--cached", "HEAD"]
    subprocess.run(command, cwd=repo, env=os.environ | ALONE, check=False, capture_output=True)
    assert ran.exists()


def test_a_git_that_the_repository_brings_does_not_run(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = repo.parent / "ran"
    write(repo, bin__git=f"#!/bin/sh\ntouch {ran}\n")
    (repo / "bin/git").chmod(0o755)
    (repo.parent / "bin").symlink_to(repo / "bin")
    monkeypatch.setenv("PATH", f"{repo}/bin:{repo.parent}/bin:bin:{os.environ['PATH']}")
    assert work(repo).untracked == ["bin/git"]
    assert not ran.exists()


def test_settings_and_variables_lead_git_nowhere_else(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = repo.parent / "other"
    write(other, secret="x")
    git(repo, "config", "core.worktree", str(other))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(other))
    write(repo, new="x", a="x")
    assert work(repo) == Work(["a"], [], ["new"])


def questions(root: Path) -> Work:
    """Every question to one repository; the answer to the first."""
    at = str(root)
    current_branch(at)
    default_branches(at)
    has_stash(at)
    worktrees(str(root / ".git"))
    repository(str(root / "src"))
    return work(root, deadline_ms=500)


PLACES = "index HEAD config packed-refs refs/heads/main info/exclude commondir objects/info/alternates"


@pytest.mark.parametrize("place", PLACES.split())
@pytest.mark.parametrize("content", ["pipe", "folder", "loop", "empty", "zeros", "text", "device"])
def test_odd_things_in_the_place_of_files(repo: Path, place: str, content: str) -> None:
    path = repo / ".git" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    makers: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "loop": lambda: path.symlink_to(path),
        "empty": path.touch,
        "zeros": lambda: path.write_bytes(bytes(5000)),
        "text": lambda: path.write_text("ref: refs/heads/../../HEAD\n"),
        "device": lambda: path.symlink_to("/dev/zero"),
    }
    makers[content]()
    write(repo, a="changed", src__a="changed")
    found = questions(repo)
    assert found.modified == ["a", "src/a"] or not found.certain


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_truncated_or_changed_index_is_uncertain(repo: Path, version: str) -> None:
    git(repo, "update-index", "--index-version", version)
    index = repo / ".git/index"
    whole = index.read_bytes()
    for size in range(0, len(whole), 3):
        index.write_bytes(whole[:size])
        assert not work(repo).certain
    for place in range(0, len(whole), 3):
        index.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        assert not work(repo).certain


def test_an_index_without_a_checksum_may_hold_anything(repo: Path) -> None:
    """index.skipHash writes zeros, so that a broken index can't be told by its checksum."""
    index = repo / ".git/index"
    whole = index.read_bytes()[:-20] + bytes(20)
    index.write_bytes(whole)
    same_as_git(repo)
    for place in range(len(whole) - 20):
        for bit in (1, 0x80) if place % 2 else (0xFF,):
            index.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            work(repo)


def test_broken_objects_and_packs_are_uncertain(repo: Path) -> None:
    write(repo, a="x")
    git(repo, "add", "a")
    git(repo, "gc", "-q")
    dice = random.Random(1)
    for path in (repo / ".git/objects/pack").iterdir():
        path.chmod(0o644)
        whole = path.read_bytes()
        for _ in range(150):
            place = dice.randrange(len(whole))
            path.write_bytes(whole[:place] + bytes([dice.randrange(256)]) + whole[place + 1 :])
            assert work(repo).modified == []
        path.write_bytes(whole[: len(whole) // 2])
        assert work(repo).modified == []
        path.write_bytes(whole)
    shutil.rmtree(repo / ".git/objects")
    found = work(repo)
    assert not found.certain


def test_a_split_index_is_uncertain(repo: Path) -> None:
    git(repo, "update-index", "--split-index")
    assert not work(repo).certain


def test_the_time_is_limited(repo: Path) -> None:
    """No time at all: everything is uncertain, and a file that is known to be changed is still named."""
    write(repo, a="x")
    found = uncommitted(str(repo), untracked=True, deadline_ms=0)
    assert not found.certain and "in time" in found.why


def test_rules_that_take_too_long_hide_nothing(repo: Path) -> None:
    """git takes minutes for these rules; then all that is untracked counts, folders as one."""
    write(repo, _d_gitignore="*a*a*a*a*a*a*a*a*a*a*a*b\n" + "**/" * 100 + "x\n" + "(" * 400 + "[\n")
    write(repo, **{"a" * 200: "", "d/" * 90 + "y": ""})
    found = work(repo, deadline_ms=500)
    assert (sorted(found.untracked), found.certain) == ([".gitignore", "a" * 200, "d/"], False)


def test_ignored_files_alone(repo: Path) -> None:
    """`git clean -X` leaves the other untracked files alone."""
    write(repo, _d_gitignore=".env\n", _d_env="secret")
    commit(repo)
    write(repo, notes="mine")
    found = uncommitted(str(repo), untracked=True, ignored=True, only_ignored=True, deadline_ms=ENOUGH)
    assert found.untracked == [".env"]
