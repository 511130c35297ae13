"""What a tool call writes, creates or removes, told from its input alone."""

import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from billhook.core.events import PreToolUse
from billhook.effects import archives
from billhook.effects import archives as patches
from billhook.effects.calls import Touched, line_touched, touched
from billhook.effects.paths import git_root, spelt_out
from billhook.effects.script import UNKNOWN


def paths(command: str, cwd: str = "/w") -> set[str]:
    return {touch.path for touch in line_touched(command, cwd).paths}


def of_tool(name: str, tool_input: Any) -> Touched:
    return touched(PreToolUse(session_id="s", cwd="/w", tool_name=name, tool_input=tool_input), "/w")


WRITTEN = {
    "redirect": ("echo x > a", {"/w/a"}),
    "nowhere": ("echo x > /dev/null 2>&1", set()),
    "append": ("echo x >> /t/a", {"/t/a"}),
    "both": ("make &> log", {"/w/log"}),
    "reader": ("cat a b", set()),
    "tee": ("tee -a a b", {"/w/a", "/w/b"}),
    "copy": ("cp a b c", {"/w/c"}),
    "copy-to": ("cp -t c a b", {"/w/c"}),
    "copy-to-long": ("cp --target-directory=c a", {"/w/c"}),
    "move": ("mv a b", {"/w/a", "/w/b"}),
    "link": ("ln -s a b", {"/w/a", "/w/b"}),
    "link-here": ("ln -s /x/a", {"/x/a", "/w/."}),
    "link-from-its-folder": ("ln -s a d/b", {"/w/a", "/w/d/a", "/w/d/b"}),
    "install": ("install -m 755 -D a b", {"/w/b"}),
    "remove": ("rm -f -- -a b", {"/w/-a", "/w/b"}),
    "dd": ("dd if=a of=b", {"/w/b"}),
    "sed": ("sed s/a/b/ f", set()),
    "sed-i": ("sed -i -e p f g", {"/w/f", "/w/g"}),
    "perl": ("perl -pe 1 f", set()),
    "perl-i": ("perl -i -pe 1 f", {"/w/f"}),
    "awk": ("awk 1 f", set()),
    "sort": ("sort -o out in", {"/w/out"}),
    "uniq": ("uniq in out", {"/w/out"}),
    "curl": ("curl -so out -H 'A: b' http://h/x", {"/w/out"}),
    "curl-O": ("curl -O http://h/x/y", {"/w/y"}),
    "wget": ("wget http://h/y", {"/w/y"}),
    "wget-P": ("wget -P d http://h/y", {"/w/d/y"}),
    "tar-create": ("tar czf out.tgz src", {"/w/out.tgz"}),
    "tar-list": ("tar tf out.tgz", set()),
    "tar-extract": ("tar -xzf a.tgz -C d m", {"/w/d", "/w/d/m"}),
    "unzip-list": ("unzip -l a.zip", set()),
    "git-branch": ("git checkout -b x", set()),
    "git-reset": ("git reset --hard", {"/w/"}),
    "git-soft": ("git reset --soft HEAD~1", set()),
    "git-C": ("git -C d rm f", {"/w/d/f"}),
    "git-staged": ("git restore --staged f", set()),
    "git-both": ("git restore --staged --worktree f", {"/w/f"}),
    "git-stash-path": ("git stash push -- f", {"/w/f"}),
    "git-clean": ("git clean -fd", {"/w/."}),
    "python": ("python x.py a", {"/w/a"}),
    "shell": ("bash x.sh a", {"/w/a"}),
    "unknown": ("frob a --out=b -oc", {"/w/a", "/w/b", "/w/c"}),
    "unknown-config": ("frob --config a", set()),
    "runner": ("npx -y rimraf a", {"/w/a"}),
    "uv-run": ("uv run rm a", {"/w/a"}),
    "find": ("find d -name x", set()),
    "find-delete": ("find d e -delete", {"/w/d", "/w/e"}),
    "wrapper": ("sudo timeout 5 rm a", {"/w/a"}),
    "time-o": ("time -o t ls", {"/w/t"}),
    "cd": ("cd d && rm a", {"/w/d/a"}),
    "cd-may-fail": ("cd d; rm a", {"/w/a", "/w/d/a"}),
    "cd-unknown": ("cd $X && rm a", {"/w/a", UNKNOWN + "/a"}),
    "env-C": ("env -C d rm a", {"/w/a", "/w/d/a"}),
    "variable": ("f=a; rm $f", {"/w/a"}),
    "two-values": ("f=a; f=b; rm $f", {"/w/a", "/w/b"}),
    "loop": ("for f in a b; do rm $f; done", {"/w/a", "/w/b"}),
    "unknown-variable": ("rm $f", {UNKNOWN}),
    "echo": ("rm $(echo a)", {"/w/a"}),
    "proc": ("rm /proc/self/cwd/a", {"/w/a"}),
    "descriptor": ("echo > /dev/fd/5", {UNKNOWN}),
    "function": ("cat() { rm $1; }; cat a", {UNKNOWN, "/w/a"}),
    "too-long": ("rm " + "a" * 20_000, set()),
}


@pytest.mark.parametrize(("command", "expected"), WRITTEN.values(), ids=WRITTEN)
def test_written_paths(command: str, expected: set[str]) -> None:
    """Each program by what it writes; programs nobody knows by all they name."""
    assert paths(command) == expected


def test_a_leading_cd_holds(tmp_path: Path) -> None:
    """Into a folder that is there; so that `cd build && rm *` is not about the project."""
    (tmp_path / "d").mkdir()
    assert paths("cd d && rm a", str(tmp_path)) == {f"{tmp_path}/d/a"}
    assert paths("cd d; cd ..; rm a", str(tmp_path)) == {f"{tmp_path}/d/../a"}
    assert paths("(cd d); rm a", str(tmp_path)) == {f"{tmp_path}/a", f"{tmp_path}/d/a"}


def test_home_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its sign and by its variable."""
    monkeypatch.setenv("HOME", "/h")
    assert paths("rm ~/a $HOME/b ${HOME}/c") == {"/h/a", "/h/b", "/h/c"}
    assert paths("rm ~$X/a") == {UNKNOWN + "/a"}


def test_below_and_names() -> None:
    """Removing a folder removes what is in it; a search by name only what is called so."""
    (removed,) = line_touched("rm -r d", "/w").paths
    (searched,) = line_touched("find . '(' -name '*.a' -o -iname b ')' -delete", "/w").paths
    (anything,) = line_touched("find . -name a -o -type f -delete", "/w").paths
    assert removed.below and not removed.names
    assert searched.names == ("*.a", "b") and anything.names == ()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("python -c 'x = 1' a", ("x = 1", "a")),
        ("node --eval 1", ("1",)),
        ("perl -ne 1 a", ("1",)),
        ("awk '{print > \"b\"}' a", ('{print > "b"}',)),
        ("awk '{print}' a", ()),
        ("python x.py", ()),
        ("python --version | cat", ()),
        ("echo 1 | python", ("echo 1 | python",)),
    ],
)
def test_code_in_other_languages_is_handed_on(command: str, code: tuple[str, ...]) -> None:
    """It can't be read, only searched for names."""
    assert line_touched(command, "/w").code == code


def test_what_cannot_be_read_is_handed_on_as_text() -> None:
    """A line with an open quote is searched like code."""
    found = line_touched("rm 'a", "/w")
    assert not found.complete and found.code[0] == "rm 'a"


@pytest.mark.parametrize(
    ("name", "tool_input", "expected"),
    [
        ("Write", {"file_path": "a"}, {"/w/a"}),
        ("Edit", {"file_path": "/t/a"}, {"/t/a"}),
        ("NotebookEdit", {"notebook_path": "a"}, {"/w/a"}),
        ("Read", {"file_path": "a"}, set()),
        ("mcp__x__read_file", {"path": "a"}, set()),
        ("mcp__x__get_and_delete", {"path": "a"}, {"/w/a"}),
        ("mcp__x__write", {"path": "a", "content": "1\n2"}, {"/w/a"}),
        ("mcp__x__run", {"command": "rm a"}, {"/w/a"}),
        ("mcp__x__note", {"text": "a"}, set()),
        ("mcp__x__note", {"text": "see b/a"}, set()),
        ("mcp__x__note", {"text": "b/a"}, {"/w/b/a"}),
        ("mcp__x__note", {"outFile": "a"}, {"/w/a"}),
        ("Write", "a", set()),
        ("Bash", {"command": 5}, set()),
    ],
)
def test_tools(name: str, tool_input: Any, expected: set[str]) -> None:
    """Editors by their path, readers not at all, unknown tools by every string."""
    assert {touch.path for touch in of_tool(name, tool_input).paths} == expected


def test_spelling_out_is_bounded() -> None:
    """Values that use each other, or are used often, don't make a text without end."""
    bomb = "a=xxxxxxxxxx; b=$a$a$a$a; c=$b$b$b$b; d=$c$c$c$c; " + "echo $d$d$d$d;" * 1000
    assert all(len(text) < 3 * len(bomb) + 70_000 for text in spelt_out(bomb, "/w")[0])
    assert spelt_out("echo a", "/w") == (["echo a"], True)
    texts, every = spelt_out("for f in 1 2 3 4 5 6 7 8 9 10; do rm $f; done", "/w")
    assert len(texts) == 8 and not every


def test_many_loop_values_are_not_lost() -> None:
    """A list too long to be tried value by value makes the line one that can't be read as a whole."""
    line = f"for f in {' '.join(f'f{n}' for n in range(30))}; do rm $f; done"
    found = line_touched(line, "/w")
    assert not found.complete and line in found.code


def test_archives_are_read_with_bounds(tmp_path: Path) -> None:
    """Neither many members, nor a small file that unpacks to a huge one, nor a broken one takes long or fails."""
    many, bomb, broken = (str(tmp_path / name) for name in ("many.zip", "bomb.tgz", "broken.tar"))
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(archives.MAX_MEMBERS + 10):
            archive.writestr(f"d/{number}", "")
    with tarfile.open(bomb, "w:gz", compresslevel=1) as packed:
        large = tarfile.TarInfo("large")
        large.size = archives.LARGEST + 1_000_000
        packed.addfile(tarfile.TarInfo("first"))
        packed.addfile(large, io.BytesIO(bytes(large.size)))
        packed.addfile(tarfile.TarInfo("last"))
    Path(broken).write_bytes(Path(bomb).read_bytes()[:3000])
    assert len(archives.unpacked(many)) == archives.MAX_MEMBERS
    assert archives.unpacked(many, 1)[:2] == ["0", "1"] and archives.unpacked(many, None)[0] == "0"
    assert archives.unpacked(bomb)[:1] == ["first"] and "last" not in archives.unpacked(bomb)
    assert archives.unpacked(broken)[:1] == ["first"]
    os.mkfifo(tmp_path / "pipe")
    assert (
        archives.unpacked(str(tmp_path / "pipe")) == archives.unpacked(str(tmp_path)) == archives.unpacked("/\0") == []
    )


def test_patch_files_are_read_with_bounds(tmp_path: Path) -> None:
    """One that is too large, no file, or no patch names nothing."""
    patch = tmp_path / "x.diff"
    patch.write_text("--- a/b/c\t2020-01-01\n+++ b/b/c 2020-01-01 00:00:00\nrename to d\n--- /dev/null\n")
    assert patches.patched_by(str(patch), 1) == ["a/b/c", "b/c", "b/b/c", "d"]
    assert patches.patched_by(str(patch), None) == ["a/b/c", "c", "b/b/c", "d"]
    patch.write_bytes(b"--- a/hooks.yaml\n" * 100_000)
    os.mkfifo(tmp_path / "pipe")
    for path in (patch, tmp_path, tmp_path / "none", tmp_path / "pipe"):
        assert patches.patched_by(str(path), 1) == []
    assert patches.patched("\0\ud800 --- \n+++\n") == []


def test_the_root_of_a_repository(tmp_path: Path) -> None:
    """The nearest folder upwards with `.git`, else the folder itself."""
    (tmp_path / "r/.git").mkdir(parents=True)
    (tmp_path / "r/a/b").mkdir(parents=True)
    assert git_root(str(tmp_path / "r/a/b")) == str(tmp_path / "r")
    assert git_root("") == ""
