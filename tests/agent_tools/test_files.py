"""Read, Write and Edit on real files, good and hostile."""

import os
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from billhook.agent.tools import LARGEST_FILE, READ_CAP, Workspace, standard_tools

from .calling import Agent

CALLS: dict[str, dict[str, Any]] = {
    "Read": {},
    "Write": {"content": "new"},
    "Edit": {"old_string": "theirs", "new_string": "new"},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def agent(root: Path) -> Agent:
    return Agent(root)


def test_what_is_written_can_be_read_and_edited(agent: Agent, root: Path) -> None:
    """The way of seed 004: make `notes/hello.ts` and print it."""
    content = 'export const hello = "world";\nconsole.log(hello);\n'
    assert agent.call("Write", file_path="notes/hello.ts", content=content) == "Wrote 2 lines to notes/hello.ts"
    assert agent.call("Read", file_path="notes/hello.ts") == content
    reported = agent.call("Edit", file_path=str(root / "notes/hello.ts"), old_string="world", new_string="wörld")
    assert reported == "Edited notes/hello.ts: replaced 1 occurrence"
    assert (root / "notes/hello.ts").read_text("utf-8") == content.replace("world", "wörld")


def test_the_names_of_seed_004_are_taken_too(agent: Agent, root: Path) -> None:
    """`path`, `old_text` and `new_text` are the same fields."""
    agent.call("Write", path="a.txt", content="one two")
    agent.call("Edit", path="a.txt", old_text="two", new_text="three")
    assert agent.call("Read", path="a.txt") == "one three"
    assert agent.call("Read", path="a.txt", file_path="a.txt") == "one three"


def test_two_names_that_differ_are_refused(agent: Agent, root: Path) -> None:
    """Or else a hook would judge the one and the tool use the other."""
    reported = agent.fails("Write", file_path="a.txt", path=".env", content="x")
    assert reported == "`file_path` and `path` are the same field, but they differ: use `file_path` only"
    assert list(root.iterdir()) == []


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "no path": ("Read", {}, "`file_path` is missing: it must be a string"),
    "a null path": ("Read", {"file_path": None}, "`file_path` is missing: it must be a string"),
    "a list of paths": ("Read", {"file_path": ["a"]}, "`file_path` must be a string, not a list"),
    "an empty path": ("Read", {"file_path": ""}, "`file_path` is empty"),
    "an offset of 0": ("Read", {"file_path": "a", "offset": 0}, "`offset` must be a whole number from 1 up, not 0"),
    "half an offset": ("Read", {"file_path": "a", "offset": 1.5}, "`offset` must be a whole number from 1 up, not 1.5"),
    "no number": (
        "Read",
        {"file_path": "a", "limit": float("nan")},
        "`limit` must be a whole number from 1 up, not nan",
    ),
    "endless": ("Read", {"file_path": "a", "limit": float("inf")}, "`limit` must be a whole number from 1 up, not inf"),
    "a limit in words": (
        "Read",
        {"file_path": "a", "limit": "5"},
        "`limit` must be a whole number from 1 up, not a string",
    ),
    "true for a limit": (
        "Read",
        {"file_path": "a", "limit": True},
        "`limit` must be a whole number from 1 up, not a boolean",
    ),
    "no content": ("Write", {"file_path": "a"}, "`content` is missing: it must be a string"),
    "content of objects": (
        "Write",
        {"file_path": "a", "content": {"x": 1}},
        "`content` must be a string, not an object",
    ),
    "half a character": (
        "Write",
        {"file_path": "a", "content": "x\ud800"},
        "`content` contains half a character (a lone surrogate) at position 1",
    ),
    "no old text": ("Edit", {"file_path": "a", "new_string": ""}, "`old_string` is missing: it must be a string"),
    "an empty old text": ("Edit", {"file_path": "a", "old_string": "", "new_string": "x"}, "`old_string` is empty"),
    "no new text": ("Edit", {"file_path": "a", "old_string": "x"}, "`new_string` is missing: it must be a string"),
    "nothing to change": (
        "Edit",
        {"file_path": "a", "old_string": "x", "new_string": "x"},
        "`old_string` and `new_string` are the same: there is nothing to change",
    ),
    "an odd flag": (
        "Edit",
        {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": "yes"},
        "`replace_all` must be true or false, not a string",
    ),
}


@pytest.mark.parametrize(("tool", "given", "reported"), WRONG.values(), ids=WRONG)
def test_a_wrong_input_is_named(agent: Agent, root: Path, tool: str, given: dict[str, Any], reported: str) -> None:
    """The field, what it must be, and what it was; nothing is touched."""
    (root / "a").write_text("x")
    assert agent.fails(tool, **given) == reported
    assert (root / "a").read_text() == "x"


def test_the_schemas_are_schemas(root: Path) -> None:
    """Closed objects that a validator accepts, with the canonical names."""
    tools = standard_tools(Workspace(root))
    assert [tool.name for tool in tools] == ["Bash", "Read", "Write", "Edit", "TodoWrite"]
    for tool in tools:
        schema = dict(tool.spec.schema)
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])
    for name, more in CALLS.items():
        schema = dict(next(tool for tool in tools if tool.name == name).spec.schema)
        jsonschema.validate({"file_path": "a", **more}, schema)


# Paths that lead out, and things that are no files


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize(
    "path", ["link", "folder/secret", "folder/new", "../outside/secret", "sub/../../outside/secret"]
)
def test_nothing_outside_is_touched(agent: Agent, root: Path, tool: str, path: str) -> None:
    """By a link, by a link in the way, or by dots."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("theirs")
    (root / "link").symlink_to("../outside/secret")
    (root / "folder").symlink_to(outside)
    (root / "sub").mkdir()
    reported = agent.fails(tool, file_path=path, **CALLS[tool])
    assert f"`{path}`" in reported and "is outside the workspace" in reported and "theirs" not in reported
    assert {found.name: found.read_text() for found in outside.iterdir()} == {"secret": "theirs"}


@pytest.mark.parametrize("tool", CALLS)
def test_the_password_file_is_outside(agent: Agent, tool: str) -> None:
    """Also for root."""
    assert "`/etc/passwd` is outside the workspace" in agent.fails(tool, file_path="/etc/passwd", **CALLS[tool])


@pytest.mark.parametrize("tool", CALLS)
def test_what_is_no_file_is_refused_at_once(agent: Agent, root: Path, tool: str) -> None:
    """It does not wait for the other end of a pipe."""
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    (root / "file").write_text("x")
    here = os.getcwd()
    os.chdir(root)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")
            for name, kind in [("pipe", "a named pipe"), ("folder", "a folder"), ("socket", "a socket")]:
                assert f"it is {kind}, not a file" in agent.fails(tool, file_path=name, **CALLS[tool])
    finally:
        os.chdir(here)
    assert "the workspace itself is a folder" in agent.fails(tool, file_path=".", **CALLS[tool])
    assert "Not a directory" in agent.fails(tool, file_path="file/x", **CALLS[tool])
    assert "File name too long" in agent.fails(tool, file_path="x" * 256, **CALLS[tool])
    assert stat.S_ISFIFO((root / "pipe").stat().st_mode)


def test_a_device_is_refused(agent: Agent, root: Path) -> None:
    """An endless one would fill the memory."""
    try:
        os.mknod(root / "zero", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root may make one")
    for tool, more in CALLS.items():
        assert "it is a device, not a file" in agent.fails(tool, file_path="zero", **more)


def test_a_file_that_keeps_turning_into_a_link_is_never_followed_out(agent: Agent, root: Path) -> None:
    """Another process swaps it as fast as possible while it is read and written."""
    secret = root.parent / "secret"
    secret.write_text("theirs")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            (root / "s").symlink_to(secret)
            os.replace(root / "s", root / "file")
            (root / "t").write_text("mine")
            os.replace(root / "t", root / "file")

    (root / "file").write_text("mine")
    thread = threading.Thread(target=swap)
    thread.start()
    heard = []
    try:
        for _ in range(300):
            for tool, given in [("Read", {}), ("Write", {"content": "mine"})]:
                try:
                    heard.append(agent.call(tool, file_path="file", **given))
                except Exception as error:  # every answer will do but theirs
                    heard.append(str(error))
    finally:
        over.set()
        thread.join()
    assert secret.read_text() == "theirs"
    assert not any("theirs" in text for text in heard)
    assert [found.name for found in root.iterdir() if found.name.startswith(".billhook")] == []


# Read


def test_a_part_can_be_read(agent: Agent, root: Path) -> None:
    """From a line on, so many lines, and how to go on."""
    (root / "a").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    more = "[... there is more: continue with `offset` {} ...]"
    assert agent.call("Read", file_path="a", limit=2) == "line 1\nline 2\n" + more.format(3)
    assert agent.call("Read", file_path="a", offset=3, limit=1.0) == "line 3\n" + more.format(4)
    assert agent.call("Read", file_path="a", offset=9, limit=2) == "line 9\nline 10\n"
    assert agent.call("Read", file_path="a", offset=10) == "line 10\n"
    assert agent.fails("Read", file_path="a", offset=11) == "`offset` 11 is beyond the end: the last line is 10"


def test_long_files_are_cut(agent: Agent, root: Path) -> None:
    """By lines, or by characters when they are long."""
    (root / "lines").write_text("x\n" * 2001)
    assert agent.call("Read", file_path="lines").endswith("x\n[... there is more: continue with `offset` 2001 ...]")
    (root / "wide").write_text(("ü" * 999 + "\n") * 60)
    reported = agent.call("Read", file_path="wide")
    assert len(reported) < READ_CAP + 100 and reported.endswith("\n[... cut in line 51, after 50,000 characters ...]")
    (root / "line").write_text("\N{GRINNING FACE}" * 100_000)
    reported = agent.call("Read", file_path="line")
    assert reported == "\N{GRINNING FACE}" * READ_CAP + "\n[... cut in line 1, after 50,000 characters ...]"


def test_a_huge_file_is_not_loaded(agent: Agent, root: Path) -> None:
    """The beginning comes at once; the lines of gigabytes are not counted."""
    with open(root / "huge", "wb") as file:
        file.write(b"first line\n" + b"x" * 20_000 + b"\n")
        file.truncate(1 << 33)
    assert agent.call("Read", file_path="huge", limit=1).startswith("first line\n[... there is more")
    assert "is beyond the first" in agent.fails("Read", file_path="huge", offset=4)
    reported = agent.fails("Edit", file_path="huge", old_string="first", new_string="last")
    assert f"`huge` is larger than {LARGEST_FILE:,} bytes" in reported


def test_odd_content_is_read_or_refused(agent: Agent, root: Path) -> None:
    """Invalid bytes are replaced, CRLF is read as LF, binaries are rejected, an empty file is reported as empty."""
    (root / "bad").write_bytes(b"caf\xe9 \xff\n\xc3")
    assert agent.call("Read", file_path="bad") == "caf\ufffd \ufffd\n\ufffd"
    (root / "dos").write_bytes(b"a\r\nb\rc\r\n")
    assert agent.call("Read", file_path="dos") == "a\nb\rc\n"
    (root / "half").write_bytes(b"\xc3")
    assert agent.call("Read", file_path="half") == "\ufffd"
    (root / "binary").write_bytes(b"\x7fELF\0\0")
    assert agent.fails("Read", file_path="binary") == "`binary` is a binary file of 6 bytes"
    (root / "empty").touch()
    assert agent.call("Read", file_path="empty") == "(`empty` is empty)"
    assert agent.fails("Read", file_path="gone/x") == "`gone/x` can't be read: No such file or directory"


# Write


@pytest.mark.parametrize(
    ("content", "lines"), [("", "0 lines"), ("a", "1 line"), ("a\n", "1 line"), ("a\n\nb", "3 lines")]
)
def test_lines_are_counted(agent: Agent, root: Path, content: str, lines: str) -> None:
    """A last line without an end counts; the bytes are those that were given."""
    assert agent.call("Write", file_path="a", content=content) == f"Wrote {lines} to a"
    assert (root / "a").read_bytes() == content.encode()


def test_an_existing_file_keeps_its_mode(agent: Agent, root: Path) -> None:
    """A script stays executable; a new file gets the usual mode."""
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o751)
    agent.call("Write", file_path="run.sh", content="new")
    agent.call("Edit", file_path="run.sh", old_string="new", new_string="newer")
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    (root / "usual").touch()
    agent.call("Write", file_path="new", content="")
    assert (root / "new").stat().st_mode == (root / "usual").stat().st_mode


def test_the_old_file_is_replaced_whole(agent: Agent, root: Path) -> None:
    """Who has it open still sees all of the old one, and nothing else is left in the folder."""
    (root / "a").write_text("old")
    with open(root / "a") as before:
        agent.call("Write", file_path="a", content="new")
        assert before.read() == "old"
    assert [found.name for found in root.iterdir()] == ["a"]


def test_a_link_inside_stays_a_link(agent: Agent, root: Path) -> None:
    """What it leads to is written; it may lead to nothing yet."""
    (root / "real").write_text("old")
    (root / "link").symlink_to("real")
    (root / "later").symlink_to("sub/new")
    assert agent.call("Write", file_path="link", content="new") == "Wrote 1 line to real"
    agent.call("Write", file_path="later", content="new")
    assert (root / "link").is_symlink() and (root / "later").is_symlink()
    assert (root / "real").read_text() == (root / "sub/new").read_text() == "new"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_read_only_file_is_left_alone(agent: Agent, root: Path) -> None:
    """A new file in its place would get around its mode."""
    (root / "a").write_text("x")
    (root / "a").chmod(0o444)
    assert agent.fails("Write", file_path="a", content="y") == "`a` can't be written: it is read-only"


# Edit


def test_text_that_does_not_occur_once_is_counted(agent: Agent, root: Path) -> None:
    """None, several, and those that overlap; the file stays as it was."""
    (root / "a").write_text("one two two aXaXa")
    reported = agent.fails("Edit", file_path="a", old_string="three", new_string="x")
    assert reported == "`old_string` does not occur in `a`: read the file and use the text exactly as it is there"
    reported = agent.fails("Edit", file_path="a", old_string="two", new_string="x")
    assert reported == "`old_string` occurs 2 times in `a`: include more of the text around it, or use `replace_all`"
    assert "occurs 2 times" in agent.fails("Edit", file_path="a", old_string="aXa", new_string="x")
    assert (root / "a").read_text() == "one two two aXaXa"


def test_all_can_be_replaced(agent: Agent, root: Path) -> None:
    """And the result has their number."""
    (root / "a").write_text("two two")
    reported = agent.call("Edit", file_path="a", old_string="two", new_string="", replace_all=True)
    assert reported == "Edited a: replaced 2 occurrences"
    assert (root / "a").read_text() == " "


BYTES: dict[str, tuple[bytes, str, str, bytes]] = {
    "plain": (b"a\nb\n", "a\nb", "c\nd", b"c\nd\n"),
    "Windows lines": (b"a\r\nb\r\n", "a\nb", "c\nd\ne", b"c\r\nd\r\ne\r\n"),
    "Windows lines, given so": (b"a\r\nb\r\n", "a\r\nb", "c\r\nd", b"c\r\nd\r\n"),
    "one Windows line": (b"a\r\nb\r\n", "b", "c\nd", b"a\r\nc\r\nd\r\n"),
    "mixed lines stay mixed": (b"a\r\nb\nc\r\n", "b", "x\ny", b"a\r\nx\ny\nc\r\n"),
    "bad bytes elsewhere": (b"\xff\xfe caf\xe9 old\0", "old", "new", b"\xff\xfe caf\xe9 new\0"),
    "no end of line": (b"old", "old", "new", b"new"),
    "a pattern is plain text": (b"a.*b\\1", ".*", "\\1\\g<0>", b"a\\1\\g<0>b\\1"),
    "unicode": ("grün".encode(), "ü", "\N{GRINNING FACE}", "gr\N{GRINNING FACE}n".encode()),
}


@pytest.mark.parametrize(("before", "old", "new", "after"), BYTES.values(), ids=BYTES)
def test_all_other_bytes_stay(agent: Agent, root: Path, before: bytes, old: str, new: str, after: bytes) -> None:
    """Whatever they are; the ends of lines stay what they are in the file."""
    (root / "a").write_bytes(before)
    agent.call("Edit", file_path="a", old_string=old, new_string=new)
    assert (root / "a").read_bytes() == after


def test_an_edit_of_nothing_makes_nothing(agent: Agent, root: Path) -> None:
    """A file that is missing is an error, and its folder is not made."""
    reported = agent.fails("Edit", file_path="sub/a", old_string="x", new_string="y")
    assert reported == "`sub/a` can't be read: No such file or directory"
    assert list(root.iterdir()) == []
