"""What is approved: every change of what a hook does changes its fingerprint, and nothing else does."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook.config.declaration import (
    Conditions,
    Exec,
    FixedAnswer,
    HookDeclaration,
    Python,
    RunAction,
    UnsupportedAction,
    Url,
)
from billhook.config.sources import FileSnapshot
from billhook.config.trust import approval_of, changes, definition, fingerprint, holds, same_content, unchanged
from billhook.store.approvals import Approvals

FILES = {
    "guard.py": "import rules\nrules.check()\n",
    "rules.py": "def check(): pass\n",
    "x.sh": "#!/bin/sh\n. ./lib.sh\n",
    "lib.sh": "exit 0\n",
    "rules.json": "{}\n",
    "other.txt": "nothing to do with it\n",
}
COMMAND = "python3 guard.py --config=rules.json && ./x.sh && ./link && ./missing.sh"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    for name, text in FILES.items():
        (root / name).write_text(text)
    (root / "link").symlink_to("lib.sh")
    return root


def edit_x(root: Path) -> None:
    (root / "x.sh").write_text("#!/bin/sh\n. ./lib2sh\n")


def replace_x(root: Path) -> None:
    (root / "new").write_text("#!/bin/sh\nrm -rf .\n")
    (root / "new").rename(root / "x.sh")


def remove_x(root: Path) -> None:
    (root / "x.sh").unlink()


def link_x(root: Path) -> None:
    (root / "x.sh").unlink()
    (root / "x.sh").symlink_to("other.txt")


def edit_what_x_sources(root: Path) -> None:
    (root / "lib.sh").write_text("exit 1\n")


CHANGES_OF_X = [edit_x, replace_x, remove_x, link_x, edit_what_x_sources]


def declared(root: Path, **more: Any) -> HookDeclaration:
    values: dict[str, Any] = {
        "name": "guard",
        "named": True,
        "action": RunAction(COMMAND),
        "events": ("PreToolUse", "PostToolUse"),
        "match": "Bash",
        "on_failure": "deny",
        "after": ("a", "b"),
        "timeout": 30,
        "file": str(root / ".claude/settings.json"),
        "folder": str(root),
        "layer": "project",
    }
    return HookDeclaration(**{**values, **more})


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text(text)


def retarget(root: Path) -> None:
    (root / "link").unlink()
    (root / "link").symlink_to("other.txt")


def retarget_to_the_same_content(root: Path) -> None:
    shutil.copy(root / "lib.sh", root / "copy.sh")
    (root / "link").unlink()
    (root / "link").symlink_to("copy.sh")


def forge_the_time(root: Path) -> None:
    before = (root / "x.sh").stat()
    (root / "x.sh").write_text(FILES["x.sh"].replace("lib", "bil"))
    os.utime(root / "x.sh", ns=(before.st_atime_ns, before.st_mtime_ns))


def package_instead(root: Path) -> None:
    (root / "rules").mkdir()
    (root / "rules" / "__init__.py").write_text("def check(): pass\n")


def become_a_pipe(root: Path) -> None:
    (root / "x.sh").unlink()
    os.mkfifo(root / "x.sh")


CHANGES: dict[str, Callable[[Path], object]] = {
    "one byte of a script": write("guard.py", FILES["guard.py"] + "\n"),
    "one byte of an imported module": write("rules.py", FILES["rules.py"] + " "),
    "one byte of a sourced script": write("lib.sh", "exit 1\n"),
    "one byte of a configuration file": write("rules.json", "[]\n"),
    "the same length and time": forge_the_time,
    "a link leads elsewhere": retarget,
    "a link leads elsewhere, to the same content": retarget_to_the_same_content,
    "a missing script appears": write("missing.sh", ""),
    "a script is deleted": lambda root: (root / "x.sh").unlink(),
    "a module is deleted": lambda root: (root / "rules.py").unlink(),
    "a module is hidden by a package": package_instead,
    "a script becomes a pipe": become_a_pipe,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_on_disk(project: Path, change: Callable[[Path], object]) -> None:
    """The hash differs, and the marks show it before anything is read."""
    before = fingerprint(declared(project))
    assert all(map(holds, before.marks)) and all(map(same_content, before.marks))
    change(project)
    assert fingerprint(declared(project)).hash != before.hash
    moved = [mark for mark in before.marks if not holds(mark)]
    assert moved and not all(map(same_content, moved))


def replace_by_a_copy(root: Path) -> None:
    shutil.copy(root / "x.sh", root / "y")
    (root / "y").rename(root / "x.sh")


HARMLESS: dict[str, Callable[[Path], object]] = {
    "another file": write("other.txt", "changed"),
    "a new file": write("new.py", ""),
    "touched": lambda root: os.utime(root / "x.sh"),
    "written again": write("x.sh", FILES["x.sh"]),
    "replaced by a copy": replace_by_a_copy,
    "made executable": lambda root: (root / "x.sh").chmod(0o755),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_does_not_matter(project: Path, change: Callable[[Path], object]) -> None:
    """The hash stays the same, and the content compares equal."""
    before = fingerprint(declared(project))
    change(project)
    assert fingerprint(declared(project)).hash == before.hash
    assert all(unchanged(mark) or same_content(mark) for mark in before.files)


DIFFERENT: dict[str, dict[str, Any]] = {
    "command": {"action": RunAction(COMMAND + " ")},
    "shell": {"action": RunAction(COMMAND, shell="bash")},
    "login": {"action": RunAction(COMMAND, login="no")},
    "kind": {"action": Exec((COMMAND,))},
    "url": {"action": Url("https://example.com")},
    "nothing": {"action": None},
    "events": {"events": ("PreToolUse",)},
    "every event": {"events": ()},
    "match": {"match": "Write"},
    "no match": {"match": None},
    "if": {"conditions": Conditions(rules=("Bash(ls)",))},
    "priority": {"priority": 99},
    "after": {"after": ("a",)},
    "timeout": {"timeout": 31},
    "no timeout": {"timeout": None},
    "on_failure": {"on_failure": "ask"},
    "background": {"background": True},
    "dialect": {"dialect": "lesson"},
    "name": {"name": "other"},
    "file": {"file": "/elsewhere/settings.json"},
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_what_changes_in_the_definition(project: Path, change: dict[str, Any]) -> None:
    """Every field that determines what the hook does is part of the hash."""
    assert fingerprint(declared(project, **change)).hash != fingerprint(declared(project)).hash


SAME: dict[str, dict[str, Any]] = {
    "line": {"line": 7, "column": 3},
    "title": {"title": "A guard"},
    "order of events": {"events": ("PostToolUse", "PreToolUse")},
    "order of names": {"after": ("b", "a")},
    "spelling of numbers": {"timeout": 30.0, "priority": 100.0},
    "layer": {"layer": "local"},
    "shape": {"shape": "nested"},
    "its mistake": {"broken": "no such key"},
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_what_is_not_part_of_the_definition(project: Path, change: dict[str, Any]) -> None:
    """Moved or reordered lines need no new approval."""
    assert fingerprint(declared(project, **change)).hash == fingerprint(declared(project)).hash


def test_a_generated_name_is_not_part_of_it(project: Path) -> None:
    """Only a name from the file counts."""
    one, two = (declared(project, named=False, name=name) for name in ("one", "two"))
    assert fingerprint(one).hash == fingerprint(two).hash
    assert "name" not in definition(one)


def test_a_link_to_the_systems_program(project: Path) -> None:
    """The Python of a virtual environment is identified by its target: a system update does not change the hook."""
    (project / "python").symlink_to("/bin/sh")
    hook = declared(project, action=RunAction("./python guard.py"))
    before = fingerprint(hook)
    mark = before.files[0]
    assert mark.path.endswith("/python") and mark.sha256 and unchanged(mark) and same_content(mark)
    (project / "python").unlink()
    (project / "python").symlink_to("/bin/ls")
    assert fingerprint(hook).hash != before.hash and not same_content(mark)


@pytest.mark.skipif(not os.access("/opt", os.W_OK), reason="needs a project under /opt")
def test_a_project_among_the_systems_files() -> None:
    """A link inside of the project is identified by its content, wherever the project is."""
    folder = Path(tempfile.mkdtemp(prefix="billhook-test-", dir="/opt"))
    try:
        (folder / "real.sh").write_text("exit 0\n")
        (folder / "x.sh").symlink_to("real.sh")
        before = fingerprint(declared(folder, action=RunAction("./x.sh")))
        (folder / "real.sh").write_text("exit 1\n")
        assert fingerprint(declared(folder, action=RunAction("./x.sh"))).hash != before.hash
        assert not same_content(before.files[0])
    finally:
        shutil.rmtree(folder)


def test_what_can_not_be_read_is_identified_by_its_identity(project: Path) -> None:
    """One pipe in place of another counts as a change, because the contents can't be compared."""
    become_a_pipe(project)
    marks = {mark.path: mark for mark in fingerprint(declared(project)).files}
    mark = marks[str(project / "x.sh")]
    assert mark.sha256 == "" and mark.identity and same_content(mark)
    (project / "x.sh").rename(project / "old")
    os.mkfifo(project / "x.sh")
    assert not unchanged(mark) and not same_content(mark)


def test_a_change_within_the_clocks_tick_is_seen(project: Path) -> None:
    """However soon after the mark: marking a file that was just written waits until its times can differ."""
    script = project / "x.sh"
    for n in range(30):
        script.write_text(f"echo {n:03}\n")
        marks = fingerprint(declared(project, action=RunAction("./x.sh"))).files
        assert all(map(unchanged, marks))
        script.write_text(f"echo {n:03}".replace("echo", "exit") + "\n")
        assert not all(map(unchanged, marks)) and not all(map(same_content, marks))


def test_hooks_that_share_a_snapshot_have_the_same_fingerprint(project: Path) -> None:
    """What is cached for one hook changes nothing for the next."""
    (project / "deep").mkdir()
    (project / "deep" / "rules.py").write_text("import json, guard\n")
    commands = [
        COMMAND,
        "./x.sh",
        "cd deep && python3 rules.py",
        "./link",
        "python3 -m rules",
        "PYTHONPATH=deep ./x.sh",
    ]
    hooks = [declared(project, action=RunAction(command)) for command in (*commands, *reversed(commands))]
    look = FileSnapshot()
    together, alone = [fingerprint(hook, look) for hook in hooks], [fingerprint(hook) for hook in hooks]
    assert [(one.hash, one.files, one.trees) for one in together] == [(one.hash, one.files, one.trees) for one in alone]


@pytest.mark.parametrize("change", CHANGES_OF_X, ids=lambda change: change.__name__)
def test_a_change_during_a_load_is_seen_after_it(project: Path, change: Callable[[Path], object]) -> None:
    """A hook that was marked from an older snapshot does not count as unchanged, and the next load sees the change."""
    look = FileSnapshot()
    hook = declared(project, action=RunAction("./x.sh --again"))
    before = fingerprint(declared(project, action=RunAction("./x.sh")), look)
    change(project)
    marks = fingerprint(hook, look).files
    assert [mark.path for mark in marks] == [mark.path for mark in before.files]
    assert not all(map(unchanged, marks)) and not all(map(same_content, marks))
    after = fingerprint(hook, FileSnapshot())
    assert after == fingerprint(hook) and after.files != marks


def test_a_time_in_the_future_is_not_waited_for(project: Path) -> None:
    """Forged times do not slow down the load."""
    os.utime(project / "x.sh", (time.time() + 10_000,) * 2)
    started = time.monotonic()
    marks = fingerprint(declared(project)).files
    assert time.monotonic() - started < 5
    assert all(map(unchanged, marks))


@pytest.mark.parametrize(
    "action",
    [
        None,
        Url("https://x", (("A", "b"),), ("C",)),
        FixedAnswer("deny", "no"),
        UnsupportedAction("prompt"),
        Python("m:f"),
        Exec(("a", "b")),
    ],
    ids=lambda action: type(action).__name__,
)
def test_every_kind_can_be_approved(project: Path, tmp_path: Path, action: Any) -> None:
    """Also a broken hook. The stored record compares equal and shows no changes."""
    hook = declared(project, action=action)
    print_ = fingerprint(hook)
    record = approval_of(hook, print_)
    approvals = Approvals(tmp_path / "home")
    approvals.add(record)
    back = approvals.get(hook.file, print_.hash)
    assert back == record and back is not None
    assert changes(back, hook, print_) == []


def test_unusual_characters(project: Path) -> None:
    """A command with a lone surrogate or a NUL has a fingerprint."""
    hashes = {
        fingerprint(declared(project, action=RunAction(f"./x.sh {odd}"))).hash for odd in ("\ud800", "\0", "é", "?")
    }
    assert len(hashes) == 4


def test_the_record_keeps_texts(project: Path) -> None:
    """Up to a limit, without binary files. Missing files are recorded as missing."""
    (project / "x.sh").write_bytes(b"\0\xff")
    (project / "guard.py").write_text("#" * (65 << 10))
    hook = declared(project)
    record = approval_of(hook, fingerprint(hook))
    assert set(record.contents) == {str(project / name) for name in ("rules.json", "link")}
    assert record.files[str(project / "missing.sh")] == "" and record.files[str(project / "x.sh")]
    assert record.gate and record.approved_at.endswith("+00:00")


def test_all_texts_together_are_bounded(project: Path) -> None:
    """Not all of ten scripts of 60 KiB are stored."""
    for n in range(10):
        (project / f"s{n}.sh").write_text("#" * (60 << 10))
    hook = declared(project, action=RunAction("; ".join(f"./s{n}.sh" for n in range(10))))
    record = approval_of(hook, fingerprint(hook))
    assert len(record.files) == 10 and len(record.contents) == 4


def test_what_changed_is_shown(project: Path) -> None:
    """As a diff: the fields of the definition, the lines of each file, new and deleted files."""
    (project / "x.sh").write_bytes(b"\0binary")
    old = declared(project)
    record = approval_of(old, fingerprint(old))
    (project / "x.sh").write_bytes(b"\0other")
    (project / "guard.py").write_text("import rules\n")
    (project / "missing.sh").write_text("echo here\n")
    (project / "rules.json").unlink()
    new = msgspec.structs.replace(old, timeout=5)
    root = f"{project}/"
    lines = [line.replace(root, "") for line in changes(record, new, fingerprint(new))]
    assert lines[:2] == ["- timeout: 30", "+ timeout: 5"]
    assert "--- guard.py (approved)" in lines and "-rules.check()" in lines
    assert "missing.sh is new" in lines and "+echo here" in lines
    assert "rules.json is gone" in lines
    assert "binary or long file x.sh changed" in lines
    assert not any("other.txt" in line for line in lines)


def test_a_link_that_leads_elsewhere_is_shown(project: Path) -> None:
    """Even if the content there is the same."""
    hook = declared(project)
    record = approval_of(hook, fingerprint(hook))
    retarget_to_the_same_content(project)
    lines = changes(record, hook, fingerprint(hook))
    assert lines == [f"{project}/link now leads to {project}/copy.sh"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_equal_exactly_when_nothing_differs(data: st.DataObject) -> None:
    """Two hooks have the same hash if and only if their definitions and the contents of their files are equal."""
    texts = st.sampled_from([None, "", "exit 0\n", "exit 1\n", ". ./b.sh\n"])
    fields = st.fixed_dictionaries(
        {
            "action": st.sampled_from([RunAction("./a.sh"), RunAction("./a.sh; ./b.sh"), Exec(("./a.sh",))]),
            "timeout": st.sampled_from([None, 1, 2.5]),
            "match": st.sampled_from([None, "", "Bash"]),
            "events": st.sampled_from([(), ("Stop",), ("Stop", "PreToolUse"), ("PreToolUse", "Stop")]),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        seen = []
        for _ in range(2):
            files = {name: data.draw(texts) for name in ("a.sh", "b.sh")}
            for name, text in files.items():
                (root / name).unlink(missing_ok=True)
                if text is not None:
                    (root / name).write_text(text)
            hook = declared(root, **data.draw(fields))
            print_ = fingerprint(hook)
            named = {os.path.basename(mark.path) for mark in print_.files}
            contents = {name: files[name] for name in named if files[name] is not None}
            seen.append((print_.hash, definition(hook), contents))
    (hash_one, *one), (hash_two, *two) = seen
    assert (hash_one == hash_two) == (one == two)
