"""Which paths are inside a workspace, with links, dots and unusual names."""

import os
from pathlib import Path

import pytest

from billhook.agent.tools import ToolError, Workspace
from billhook.core.errors import BillhookError


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace `inner` beside other files, with links that lead everywhere."""
    root = tmp_path / "inner"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "file.txt").write_text("mine")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("theirs")
    (tmp_path / "inner-two").mkdir()
    links = {
        "out": "../outside",
        "out-file": "../outside/secret",
        "out-later": "../outside/not-yet",
        "chain": "out",
        "home": "sub",
        "later": "sub/not-yet",
        "abs": str(root / "sub"),
        "loop": "loop",
        "ping": "pong",
        "pong": "ping",
        "sub/up": "..",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return root


INSIDE = {
    "a file": ("file.txt", "file.txt"),
    "the root": (".", "."),
    "a file that is not there yet": ("new/er/file", "new/er/file"),
    "dots that come back": ("sub/../file.txt", "file.txt"),
    "dots through the parent": ("../inner/file.txt", "file.txt"),
    "a link to a folder": ("home/deep/x", "sub/deep/x"),
    "a link that is absolute": ("abs/x", "sub/x"),
    "a link to nothing yet": ("later", "sub/not-yet"),
    "dots count from where a link leads": ("home/../file.txt", "file.txt"),
    "a link that goes up": ("sub/up/file.txt", "file.txt"),
    "tilde is a name": ("~/x", "~/x"),
    "tilde with a user is a name": ("~root", "~root"),
    "a variable is a name": ("$HOME/x", "$HOME/x"),
    "unicode": ("ünï/日本", "ünï/日本"),
    "a line break": ("a\nb", "a\nb"),
    "blanks": (" ", " "),
}


@pytest.mark.parametrize(("text", "real"), INSIDE.values(), ids=INSIDE)
def test_a_path_inside_is_made_real(place: Path, text: str, real: str) -> None:
    """Relative or absolute, it is resolved to the real path."""
    workspace = Workspace(place)
    wanted = Path(os.path.realpath(place)) / real
    assert workspace.path(text) == wanted
    assert workspace.path(f"{place}/{text}") == wanted
    assert workspace.inside(text)


REFUSED = {
    "the parent": "..",
    "dots": "../outside/secret",
    "many dots": "sub/../../../../../../../../etc/passwd",
    "an absolute path": "/etc/passwd",
    "the root of everything": "/",
    "two slashes": "//etc/passwd",
    "a neighbour with the same beginning": "../inner-two/x",
    "a link to a folder": "out/secret",
    "a link to a file": "out-file",
    "a link to nothing outside": "out-later",
    "a link to a link": "chain/secret",
    "a new file behind a link": "out/new/file",
    "dots behind a link": "out/../outside/secret",
    "the kernel's link to the root": "/proc/self/root/etc/passwd",
    "the kernel's link to the working directory": "/proc/self/cwd/x",
    "NUL": "file.txt\0",
    "a name that is too long": "x" * 256,
    "a folder that is too long": "x" * 300 + "/y",
    "a path that is too long": "x/" * 3000,
    "a link to itself": "loop",
    "two links to each other": "ping/x",
    "a way out after a link to itself": "loop/../out/secret",
    "a way out after two": "ping/../sub/../out",
    "a file as a folder": "file.txt/x",
    "half a character": "\ud800",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_path_that_leads_out_is_refused_by_name(place: Path, text: str) -> None:
    """The error names the path, can be printed, and is not endless."""
    workspace = Workspace(place)
    with pytest.raises(ToolError) as caught:
        workspace.path(text)
    reported = str(caught.value)
    assert text[:100].encode("utf-8", "backslashreplace").decode() in reported
    assert len(reported.encode()) < 1000
    assert not workspace.inside(text)


def test_the_error_contains_where_a_link_leads(place: Path) -> None:
    """A model that was led out has to know by what."""
    with pytest.raises(ToolError, match=r"`out/secret` leads to `.*/outside/secret`, which is outside the workspace `"):
        Workspace(place).path("out/secret")


def test_the_root_itself_may_be_reached_by_a_link(place: Path, tmp_path: Path) -> None:
    """The workspace is the real folder, under either name."""
    (tmp_path / "alias").symlink_to("inner")
    workspace = Workspace(tmp_path / "alias")
    assert workspace.root == Path(os.path.realpath(place))
    assert workspace.path(str(tmp_path / "alias" / "x")) == workspace.root / "x"


def test_relative_paths_begin_in_the_current_directory(place: Path) -> None:
    """And the current directory stays inside."""
    workspace = Workspace(place)
    workspace.cwd = place / "home"
    assert workspace.cwd == workspace.root / "sub"
    assert workspace.path("x") == workspace.root / "sub" / "x"
    assert workspace.path("../x") == workspace.root / "x"
    for text in ("/", "../..", str(place / "out"), "../file.txt", "nowhere", "../loop/../out"):
        with pytest.raises(ToolError):
            workspace.cwd = text
    assert workspace.cwd == workspace.root / "sub"


def test_a_current_directory_that_is_gone_means_the_root(place: Path) -> None:
    """Another process removed it meanwhile."""
    workspace = Workspace(place)
    workspace.cwd = place / "sub" / "deep"
    (place / "sub" / "deep").rmdir()
    assert workspace.cwd == workspace.root


def test_a_workspace_is_a_folder_that_exists(place: Path) -> None:
    """Anything else is an error at once, with a hint."""
    for root in (place / "file.txt", place / "nowhere"):
        with pytest.raises(BillhookError, match=f"`{root}` is not a folder"):
            Workspace(root)


def test_a_link_that_is_put_on_the_way_later_is_not_followed(place: Path) -> None:
    """Between the judgement and the use a folder may be swapped for a link."""
    workspace = Workspace(place)
    path = workspace.path("sub/deep/file")
    (place / "sub").rename(place / "old")
    (place / "sub").symlink_to("../outside")
    for create in (False, True):
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"), workspace.holder(path, create=create):
            pass
    assert [found.name for found in (place / "../outside").iterdir()] == ["secret"]
