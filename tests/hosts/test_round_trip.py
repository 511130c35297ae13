"""Install and uninstall restore a file, and keep other changes that were made in between."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billhook.agents import AGENTS
from billhook.agents.base import Agent, Scope, SettingsFormat
from billhook.cli.install.entries import EntryOptions, entries_for, is_written, with_entries, without, written_handlers
from billhook.config.edit_json import decoded, measured
from billhook.config.nodes import read_text
from billhook.core.errors import BillhookError
from hosts.installed import Home
from hosts.shapes import SHAPES


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # of this test alone
    return Home(tmp_path)


def plain(data: bytes) -> Any:
    read = read_text(data, "settings.json")
    assert read.node is not None and not [one for one in read.findings if one.code != "BH105"], read.findings
    return read.node.plain()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_there_and_back(home: Home, shape: str) -> None:
    """All existing content stays, the entries are added, a second install changes nothing, and in the end every byte is
    as before."""
    data = SHAPES[shape].encode()
    file = home.write(data)
    file.chmod(0o640)
    assert home.install().state == "installed"
    there = file.read_bytes()
    assert len(written_handlers(measured(decoded(there, str(file))), AGENTS["claude"])) == len(AGENTS["claude"].events)
    _nothing_lost(data, there)
    assert home.install().state == "already"
    assert file.read_bytes() == there
    assert home.install(if_missing="allow").state == "updated"
    assert home.install().state == "updated"
    assert file.read_bytes() == there, "back to the first choice"
    assert home.uninstall().state == "removed"
    assert file.read_bytes() == data
    assert file.stat().st_mode & 0o777 == 0o640
    assert home.uninstall().state == "absent"


FORMS: dict[str, Callable[[str], str]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "tabs": lambda text: text.replace("  ", "\t"),
    "no final newline": lambda text: text.rstrip("\n"),
    "comments": lambda text: text.replace("{", "{ // mine", 1),
    "a byte order mark": lambda text: "\ufeff" + text,
    "minified": lambda text: json.dumps(json.loads(text), separators=(",", ":")),
    "unknown keys": lambda text: text.replace("{", '{\n  "x-unknown": {"a": [1.0, null]},', 1),
}
MINE = {"command": "./mine.sh", "type": "command"}


def settings_of(host: Agent) -> str:
    """A file of a user, with a hook and a setting."""
    own = host.event_names.get("Stop", "PreToolUse")
    item = {"hooks": [MINE]} if host.grouped(own) else MINE
    said = json.dumps({"setting": "é", host.hooks_key: {own: [item]}}, indent=2, ensure_ascii=False) + "\n"
    return host.format.write(said, "")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("host", AGENTS.values(), ids=lambda host: host.name)
def test_there_and_back_in_every_agent(home: Home, host: Agent, form: str) -> None:
    """What a user has in an agent's file is byte for byte the same after uninstalling. A file that can't be edited is
    refused, and stays as it is: a plugin of another author, and YAML or JSON in a form that its agent can't read."""
    scope: Scope = "project" if host.project_file else "user"
    name = host.file(scope, "")
    if name.endswith(".json"):
        text = FORMS[form](settings_of(host))
    else:
        text = YAML_FORMS[form] if name.endswith(".yaml") else f"export const Mine = 1 // {form}\n"
    file = home.write(text, host.name, scope)
    try:
        assert home.install(host.name, scope).state == "installed"
    except BillhookError:
        assert type(host.format) is not SettingsFormat and file.read_bytes() == text.encode()
        assert form == "comments" or not name.endswith((".json", ".yaml"))
        return
    _ours_are_there(host, file, text)
    assert home.install(host.name, scope).state == "already"
    assert home.uninstall(host.name, scope).state == "removed"
    assert file.read_bytes() == text.encode()


YAML = "model: x\nhooks:\n  pre_verify:\n    - command: ./mine.sh\ndisplay: true\n"
YAML_FORMS = {
    "CRLF": YAML.replace("\n", "\r\n"),
    "tabs": YAML.replace("x\n", "x # \tmine\n"),
    "no final newline": YAML.rstrip("\n"),
    "comments": YAML.replace("hooks:", "# mine\nhooks:"),
    "a byte order mark": "\ufeff" + YAML,
    "minified": "model: x\nhooks: {pre_verify: [{command: ./mine.sh}]}\n",
    "unknown keys": YAML + "x-unknown: [1.0, null]\n",
}


def _ours_are_there(host: Agent, file: Path, before: str) -> None:
    """billhook's entries, beside what was there, with its line ends and byte order mark."""
    written = file.read_bytes().decode()
    assert written.startswith("\ufeff") == before.startswith("\ufeff")
    assert "\r\n" not in before or written.count("\n") == written.count("\r\n")
    settings = decoded(host.format.read(written).encode(), str(file))
    document = measured(settings)
    assert len(written_handlers(document, host)) == len(host.events)
    assert "./mine.sh" not in before or "./mine.sh" in settings


def _nothing_lost(before: bytes, after: bytes) -> None:
    was, now = plain(before), plain(after)
    for key, value in was.items():
        if key != "hooks":
            assert now[key] == value
    for event, entries in was.get("hooks", {}).items():
        found = now["hooks"][event]
        assert found[: len(entries)] == entries if isinstance(entries, list) else found == entries
    comments = [line.strip() for line in before.decode().splitlines() if line.strip().startswith("//")]
    assert all(comment in after.decode() for comment in comments)


OTHERS = [
    name for name, one in AGENTS.items() if type(one.format) is SettingsFormat and name not in ("claude", "cursor")
]


def some_events(host: str) -> list[str]:
    return [event for event in ("PreToolUse", "Stop") if event in AGENTS[host].event_names]


@pytest.mark.parametrize("host", ["cursor", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_there_and_back_in_others(home: Home, shape: str, host: str) -> None:
    """The same for the JSON files of every other agent."""
    data = SHAPES[shape].encode()
    file = home.write(data, host)
    assert home.install(host, events=some_events(host)).state == "installed"
    _nothing_lost(data, file.read_bytes())
    assert home.install(host, events=some_events(host)).state == "already"
    assert home.uninstall(host).state == "removed"
    assert file.read_bytes() == data


@pytest.mark.parametrize("host", ["claude", pytest.param("cursor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", [name for name, text in SHAPES.items() if plain(text.encode())], ids=str)
def test_with_changes_of_others(home: Home, shape: str, host: str) -> None:
    """A key that is added later stays, and only billhook's entries are removed."""
    text = SHAPES[shape]
    file = home.write(text, host)
    home.install(host, events=some_events(host))
    file.write_text(_with_a_key(file.read_bytes()), newline="", encoding="utf-8")
    home.uninstall(host)
    assert file.read_bytes().decode() == _with_a_key(text.encode())


def _with_a_key(data: bytes) -> str:
    """Add a key at the beginning of the root, as an editor would."""
    text = data.decode()
    root = measured(text).root
    assert root is not None
    return text[: root.start + 1] + ' "added": [1, {"x": "}"}],' + text[root.start + 1 :]


def test_no_file(home: Home) -> None:
    """A created file and its created folders are removed again; folders with other content stay."""
    for host, about in AGENTS.items():
        scope: Scope = "project" if about.project_file else "user"
        home.install(host, scope)
        made = home.file(host, scope)
        assert set(plain(about.format.read(made.read_text()).encode())) == {about.hooks_key, *about.head}
        if host == "codex":
            (made.parent / "mine").touch()
        home.uninstall(host, scope)
        assert not made.exists()
        assert made.parent.exists() == (host == "codex" or made.parent == home.project)


def test_another_machine(home: Home) -> None:
    """Without a record, billhook's entries are still recognised and removed, with containers that are then empty."""
    for host, about in AGENTS.items():
        if type(about.format) is not SettingsFormat:
            continue
        file = home.write(json.dumps({"own": 1}, indent=2), host)
        home.install(host)
        fresh = Home(home.folder / host)
        there = fresh.write(file.read_bytes(), host)
        assert fresh.install(host).state == "already"
        assert fresh.uninstall(host).state == "removed"
        assert plain(there.read_bytes()) == {"own": 1, **about.head}


def test_our_own_file_elsewhere(home: Home) -> None:
    """A file that only billhook uses is removed, also without a record."""
    home.install("copilot")
    fresh = Home(home.folder / "fresh")
    there = fresh.write(home.file("copilot").read_bytes(), "copilot")
    fresh.uninstall("copilot")
    assert not there.exists()


def test_entries_of_others_around_ours(home: Home) -> None:
    """Entries that the user added before, after and inside billhook's group stay."""
    file = home.write("{}")
    home.install(events=["PreToolUse"])
    data = json.loads(file.read_text())
    mine = {"type": "command", "command": "mine"}
    data["hooks"]["PreToolUse"][0]["hooks"].append(mine)
    data["hooks"]["PreToolUse"] = [{"hooks": [mine]}, *data["hooks"]["PreToolUse"], {"matcher": "X", "hooks": [mine]}]
    file.write_text(json.dumps(data, indent=2))
    home.uninstall()
    left = json.loads(file.read_text())
    assert left == {"hooks": {"PreToolUse": [{"hooks": [mine]}, {"hooks": [mine]}, {"matcher": "X", "hooks": [mine]}]}}


def test_entries_removed_by_the_user(home: Home) -> None:
    """If the entries are gone already, uninstalling removes nothing else."""
    file = home.write('{"model": "a"}')
    home.install()
    file.write_text('{"model": "b"}')
    assert home.uninstall().state == "absent"
    assert file.read_text() == '{"model": "b"}'
    assert home.target().record is None, "nothing is remembered any more"
    home.install()
    file.unlink()
    assert home.uninstall().state == "absent"
    assert not file.exists()


def test_an_update_after_changes_of_others(home: Home) -> None:
    """Installing again with other options keeps changes that were made in between, and so does uninstalling."""
    file = home.write('{\n  "model": "a"\n}\n')
    home.install(events=["PreToolUse", "Stop"])
    file.write_text(file.read_text().replace('"model": "a"', '"model": "b"'))
    home.install(events=["PreToolUse"])
    assert list(json.loads(file.read_text())["hooks"]) == ["PreToolUse"]
    home.uninstall()
    assert file.read_text() == '{\n  "model": "b"\n}\n'


def test_the_backup(home: Home) -> None:
    """The original file is in billhook's state, private, and stays there after uninstalling."""
    file = home.write('{"model": "a"}')
    backup = home.install().target.shelf.backup
    assert backup.is_relative_to(home.root)
    assert (backup.read_text(), backup.stat().st_mode & 0o777) == ('{"model": "a"}', 0o600)
    home.install(events=["Stop"])
    assert backup.read_text() == '{"model": "a"}', "still what was there before us"
    home.uninstall()
    assert backup.read_text() == '{"model": "a"}'
    assert sorted(path.name for path in file.parent.iterdir()) == ["settings.json"], "nothing beside the file"


keys = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | keys,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
handlers = st.fixed_dictionaries({"type": st.just("command"), "command": st.sampled_from(["a", "b // c", '"q"'])})
groups = st.fixed_dictionaries({"hooks": st.lists(handlers, max_size=2)}, optional={"matcher": keys})
hooks = st.dictionaries(st.sampled_from(["PreToolUse", "Stop", "Other"]), st.lists(groups, max_size=2), max_size=3)
files = st.fixed_dictionaries({}, optional={"model": values, "env": values, "hooks": hooks, "z": values})
spaces = st.sampled_from(["", " ", "\n", "\r\n", "\n  ", "\t", " // c\n", " /* , ] } */ ", "\n\n    "])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """JSON with any white space and comments between its tokens, and trailing commas."""
    compact = json.dumps(draw(files), ensure_ascii=draw(st.booleans()), separators=(",", ":"))
    out: list[str] = []
    in_text, escaped = False, False
    for char in compact:
        if not in_text and char in "}]" and out and out[-1].strip() and draw(st.integers(0, 5)) == 0:
            last = "".join(out).rstrip()[-1:]
            out.append("," if last not in "{[,/" and "//" not in "".join(out[-3:]) and "*/" not in out[-1] else "")
        if not in_text and char in "{}[],:":
            out.append(draw(spaces) if char in "}]" else "")
        out.append(char)
        if not in_text and char in "{}[],:":
            out.append(draw(spaces))
        if in_text:
            in_text = escaped or char != '"'
            escaped = char == "\\" and not escaped
        else:
            in_text = char == '"'
    return draw(spaces) + "".join(out) + draw(spaces)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts(), st.sampled_from(["claude", "cursor", "gemini"]))
def test_any_layout(text: str, name: str) -> None:
    """With any white space and comments: the entries are complete, nothing else changes its meaning, and after their
    removal the text means the same as before."""
    _in_and_out(text, AGENTS[name])


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts(), st.sampled_from(["claude", "cursor", "gemini"]))
def test_many_layouts(text: str, name: str) -> None:
    """The same, with many more examples."""
    _in_and_out(text, AGENTS[name])


def _in_and_out(text: str, host: Agent) -> None:
    if [one for one in read_text(text.encode(), "x.json").findings if one.code != "BH105"]:
        return
    entries = entries_for(host, ("PreToolUse", "Stop"), EntryOptions(scope="project"))
    there = with_entries(text, host, entries)
    _nothing_lost(text.encode(), there.encode())
    now = plain(there.encode())
    assert all(now["hooks"][event][-1] == entry for event, entry in entries.items())
    back = without(there, host, lambda one: is_written(one.data), text)
    assert plain(back.encode()) == plain(text.encode())
