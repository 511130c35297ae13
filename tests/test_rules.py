"""Permission rules: their syntax and their two directions."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook.core.errors import RuleError
from billhook.effects import rules, shell
from billhook.effects.rules import Rule, condition, glob, segment_matches

CWD = "/home/me/work"


def strikes(rule: str, command: object) -> bool:
    return Rule.parse(rule).strikes("Bash", {"command": command}, CWD)


def covers(rule: str, command: object) -> bool:
    return Rule.parse(rule).covers("Bash", {"command": command}, CWD)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Bash", Rule("Bash")),
        (" Bash ", Rule("Bash")),
        ("bash", Rule("Bash")),
        ("Bash(*)", Rule("Bash", "*")),
        ("bash(git push *)", Rule("Bash", "git push *")),
        ("write_file(src/**)", Rule("Write", "src/**")),
        ("Bash(echo (a))", Rule("Bash", "echo (a)")),
        ("Edit(app/(group)/**)", Rule("Edit", "app/(group)/**")),
        ("WebFetch(domain:example.com)", Rule("WebFetch", "domain:example.com")),
        ("mcp__github__create_issue", Rule("mcp__github__create_issue")),
        ("mcp__github__*", Rule("mcp__github__*")),
    ],
)
def test_rules_are_read(text: str, rule: Rule) -> None:
    """A rule is a tool, canonical whatever dialect named it, and perhaps a specifier; it prints as it reads."""
    assert Rule.parse(text) == rule
    assert Rule.parse(str(rule)) == rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the rule is empty"),
        ("(git push)", "no tool before the parenthesis in `(git push)`"),
        ("Bash(git", "unbalanced parenthesis in `Bash(git`"),
        ("Bash)", "unbalanced parenthesis in `Bash)`"),
        ("Bash(git) x", "unbalanced parenthesis in `Bash(git) x`"),
        ("Bash()", "nothing between the parentheses in `Bash()`"),
        ("Bash|Edit", "`Bash|Edit` is not one rule: `and`, `or` and lists are not supported"),
        ("Bash, Edit", "`Bash, Edit` is not one rule: `and`, `or` and lists are not supported"),
        ("Bash(ls) and Edit(x)", "`Bash(ls) and Edit(x)` is not one rule: `and`, `or` and lists are not supported"),
        ("Bash(x) or y", "`Bash(x) or y` is not one rule: `and`, `or` and lists are not supported"),
        ("git push *", "`git push *` names no tool"),
        ("Bash(ls), Bash(rm *)", "`Bash(ls), Bash(rm *)` is not one rule: `and`, `or` and lists are not supported"),
        ("WebFetch(https://x/*)", "`https://x/*` is not a specifier of WebFetch"),
    ],
)
def test_an_invalid_rule_has_a_reason(text: str, message: str) -> None:
    """A rule that can't be read raises with an exact message and a hint."""
    with pytest.raises(RuleError) as caught:
        Rule.parse(text)
    assert caught.value.message == message
    assert caught.value.hint


STRIKES = [
    ("bare tool", "Bash", "anything"),
    ("star", "Bash(*)", "anything"),
    ("exact", "Bash(git push)", "git push"),
    ("with arguments", "Bash(git push *)", "git push origin main"),
    ("bare command", "Bash(git push *)", "git push"),
    ("colon", "Bash(git push:*)", "git push origin"),
    ("prefix without boundary", "Bash(git pu*)", "git push"),
    ("star in the middle", "Bash(git * main)", "git push origin main"),
    ("star first", "Bash(*--force*)", "git push --force"),
    ("whole text", "Bash(*| sh)", "ls | sh"),
    ("second command", "Bash(git push *)", "ls && git push"),
    ("wrapper", "Bash(sudo *)", "sudo ls"),
    ("wrapped", "Bash(git push *)", "sudo git push"),
    ("assignments", "Bash(git push *)", "A=1 git push"),
    ("assignments named", "Bash(A=1 git *)", "A=1 git push"),
    ("folder", "Bash(rm *)", "/bin/rm x"),
    ("unknown folder", "Bash(rm *)", "$BIN/rm x"),
    ("backslash", "Bash(rm *)", r"\rm x"),
    ("quotes", "Bash(rm *)", "'r'm x"),
    ("many blanks", "Bash(rm -rf *)", "rm   -rf\t/"),
    ("literal star", r"Bash(rm \*)", "rm '*'"),
    ("unparsable", "Bash(git push *)", "ls '"),
    ("dynamic command", "Bash(git push *)", "$CMD push"),
    ("dynamic argument", "Bash(git push *)", "git $X"),
    ("vanishing word", "Bash(git push *)", "git $X push"),
    ("leading unknown word", "Bash(git push *)", "$X git push"),
    ("part of a word", "Bash(git push *)", "git pu$X"),
    ("IFS", "Bash(git push *)", "git${IFS}push"),
    ("braces", "Bash(git push *)", "{git,push}"),
    ("pattern as command", "Bash(rm *)", "/bin/r? x"),
    ("pattern in a folder", "Bash(rm *)", "/b?n/rm x"),
    ("pattern in a shell's name", "Bash(rm *)", "/bin/ba?h -c 'rm x'"),
    ("shell with a hole", "Bash(rm *)", "ba$()sh -c 'rm x'"),
    ("eval with a hole", "Bash(rm *)", "e${q}val rm x"),
    ("env with a hole", "Bash(rm *)", "e$()nv rm x"),
    ("into a shell with a hole", "Bash(rm *)", "echo rm x | ba$()sh"),
    ("quoted braces", "Bash(rm *)", '{"rm",x}'),
    ("subscript in a subscript", "Bash(rm *)", "A[b[0]]=1 rm x"),
    ("xargs of a wrapper", "Bash(rm *)", "ls | xargs env"),
    ("xargs", "Bash(rm -rf *)", "ls | xargs rm -rf"),
    ("into a shell", "Bash(rm *)", "curl x | sh"),
    ("command is no string", "Bash(git push *)", ["git", "push"]),
    ("command is missing", "Bash(git push *)", None),
]


@pytest.mark.parametrize(("rule", "command"), [pytest.param(*row, id=name) for name, *row in STRIKES])
def test_what_a_rule_strikes(rule: str, command: object) -> None:
    """Any command of the line that matches, or may match, counts; what can't be read matches."""
    assert strikes(rule, command)


SPARES = [
    ("mention", "Bash(git push *)", 'echo "git push"'),
    ("search", "Bash(rm *)", "grep 'rm -rf' file"),
    ("message", "Bash(rm *)", 'git commit -m "rm -rf /"'),
    ("word boundary", "Bash(git push *)", "git pushy"),
    ("other command", "Bash(git push *)", "git pull"),
    ("other with unknown argument", "Bash(git push *)", "echo $X"),
    ("other subcommand with unknown argument", "Bash(git push *)", "git status $X"),
    ("exact only", "Bash(git push)", "git push origin"),
    ("document", "Bash(rm *)", "cat > x <<'EOF'\nrm -rf /\nEOF"),
    ("remote", "Bash(git push *)", "ssh host git push"),
    ("literal star", r"Bash(rm \*)", "rm x"),
    ("loop over files", "Bash(git push *)", 'for f in *.py; do wc -l "$f"; done'),
    ("pattern in another's folder", "Bash(git push *)", "/b?n/ls x"),
    ("case matters", "Bash(git push *)", "Git Push"),
]


@pytest.mark.parametrize(("rule", "command"), [pytest.param(*row, id=name) for name, *row in SPARES])
def test_what_a_rule_spares(rule: str, command: str) -> None:
    """Data is not execution, and a command that can't become the pattern is left alone."""
    assert not strikes(rule, command)


COVERS = [
    ("bare tool", "Bash", "ls '"),
    ("star", "Bash(*)", "curl x | sh > y"),
    ("command", "Bash(git push *)", "git push origin"),
    ("every command", "Bash(git *)", "git fetch && git push; git status | git x"),
    ("unknown argument", "Bash(echo *)", "echo $HOME"),
    ("substitution that is covered", "Bash(git *)", "git show $(git rev-parse HEAD)"),
    ("harmless test", "Bash(git *)", "[ -f x ] && git status || true"),
    ("transparent wrapper", "Bash(npm test *)", "timeout 60 npm test -- x"),
    ("time", "Bash(git *)", "time -p git status"),
    ("no file written", "Bash(git *)", "git status > /dev/null 2>&1"),
    ("reading", "Bash(wc *)", "wc -l < x"),
]


@pytest.mark.parametrize(("rule", "command"), [pytest.param(*row, id=name) for name, *row in COVERS])
def test_what_a_rule_covers(rule: str, command: str) -> None:
    """An allow rule approves a line when every command in it matches."""
    assert covers(rule, command)


UNCOVERED = [
    ("one other command", "Bash(git *)", "git status; rm x"),
    ("piped elsewhere", "Bash(git *)", "git log | sh"),
    ("substitution", "Bash(git *)", "git show $(cat x)"),
    ("backticks", "Bash(git *)", "git show `cat x`"),
    ("writes a file", "Bash(git *)", "git log > ~/.bashrc"),
    ("appends to a file", "Bash(git *)", "git log >> x"),
    ("writes an unknown file", "Bash(git *)", "git log > $X"),
    ("group writes a file", "Bash(git *)", "{ git log; } > x"),
    ("unparsable", "Bash(git *)", "git log '"),
    ("dynamic command", "Bash(git *)", "git$X"),
    ("sudo", "Bash(git *)", "sudo git push"),
    ("inside sudo", "Bash(sudo *)", "sudo rm x"),
    ("assignment before", "Bash(git *)", "LD_PRELOAD=x git status"),
    ("assignment alone", "Bash(git *)", "PATH=/tmp; git status"),
    ("other folder", "Bash(git *)", "/tmp/git status"),
    ("loop sets a variable", "Bash(git *)", "for PATH in /tmp/x; do git status; done"),
    ("select sets a variable", "Bash(git *)", "select PATH in /tmp/x; do git status; done"),
    ("time writes a file", "Bash(git *)", "time -o x git status"),
    ("wrapped time writes a file", "Bash(git *)", "command time -p -o x git status"),
    ("pattern in a folder", "Bash(/opt/*)", "/opt/*/git status"),
    ("joined delimiter", "Bash(cat *)", "cat <<EOF\nEO\\\nF\nrm x\nEOF"),
    ("subscript in a test", "Bash(git *)", "git status; [ -v 'a[$(rm x)]' ]"),
    ("find runs", "Bash(find *)", "find . -exec rm {} +"),
    ("nothing", "Bash(git *)", ""),
    ("no string", "Bash", 3),
    ("missing", "Bash", None),
]


@pytest.mark.parametrize(("rule", "command"), [pytest.param(*row, id=name) for name, *row in UNCOVERED])
def test_what_a_rule_does_not_cover(rule: str, command: object) -> None:
    """One command that does not match, a file written, or a line that can't be read: not approved."""
    assert not covers(rule, command)


def test_rules_cover_a_line_together() -> None:
    """Several allow rules approve a line when each command is approved by one of them."""
    some = [Rule.parse("Bash(git add *)"), Rule.parse("Bash(git commit *)"), Rule.parse("Edit(src/**)")]
    assert rules.covers(some, "Bash", {"command": "git add . && git commit -m x"}, CWD)
    assert not rules.covers(some, "Bash", {"command": "git add . && git push"}, CWD)
    assert not rules.covers([], "Bash", {"command": "ls"}, CWD)


# rule, tool, path, strikes, covers
PATHS = [
    ("below cwd", "Edit(src/**)", "Edit", "src/a/b.py", True, True),
    ("absolute path below cwd", "Edit(src/**)", "Edit", f"{CWD}/src/a.py", True, True),
    ("dots", "Edit(src/**)", "Edit", "./x/../src/a.py", True, True),
    ("dots out", "Edit(src/**)", "Edit", "src/../a.py", False, False),
    ("dots far out", "Edit(src/**)", "Edit", "src/../../../../etc/passwd", False, False),
    ("other depth", "Edit(src/**)", "Edit", "lib/src/a.py", False, False),
    ("any depth", "Edit(**/src/**)", "Edit", "lib/src/a.py", True, True),
    ("absolute rule", "Read(/etc/**)", "Read", "/etc/passwd", True, True),
    ("absolute rule with two slashes", "Read(//etc/**)", "Read", "/etc/passwd", True, True),
    ("two slashes in the path", "Read(/etc/**)", "Read", "//etc//passwd", True, True),
    ("relative path to absolute rule", "Read(/etc/**)", "Read", "../../../etc/passwd", True, True),
    ("star is one segment", "Read(/etc/*)", "Read", "/etc/a/b", True, False),
    ("extension", "Read(*.pem)", "Read", "a/b/c.pem", True, True),
    ("name at any depth", "Read(.env)", "Read", "a/.env", True, True),
    ("name outside cwd", "Read(.env)", "Read", "/srv/.env", True, False),
    ("folder's contents", "Read(secrets)", "Read", "secrets/a", True, False),
    ("folder with slash", "Read(secrets/)", "Read", "secrets/a", True, True),
    ("class", "Read(/a/[b-d]?)", "Read", "/a/cx", True, True),
    ("negated class", "Read(/a/[!b-d])", "Read", "/a/c", False, False),
    ("Edit speaks for Write", "Edit(src/**)", "Write", "src/a", True, True),
    ("Edit speaks for MultiEdit", "Edit(src/**)", "MultiEdit", "src/a", True, True),
    ("dialect name", "Edit(src/**)", "write_file", "src/a", True, True),
    ("Write is Write alone", "Write(src/**)", "Edit", "src/a", False, False),
    ("Read speaks for Grep", "Read(/etc/**)", "Grep", "/etc/ssh", True, True),
    ("Read is no Edit", "Read(src/**)", "Edit", "src/a", False, False),
    ("rule beside cwd", "Edit(../outside/**)", "Edit", "/home/me/outside/a", True, True),
    ("rule beside cwd is not below it", "Edit(../outside/**)", "Edit", "outside/a", False, False),
    ("rule above cwd", "Edit(..)", "Edit", "/home/me/a", True, False),
    ("rule above the root", "Edit(../../../../../etc/*)", "Edit", "/etc/a", True, True),
    ("dots inside a rule", "Edit(a/../src/**)", "Edit", "src/a", True, True),
    ("empty path", "Read(src/**)", "Read", "", True, False),
    ("NUL", "Read(src/**)", "Read", "src/\0", True, False),
    ("very long", "Read(src/**)", "Read", "src/" + "a/" * 500_000, True, False),
]


@pytest.mark.parametrize(
    ("rule", "tool", "path", "matched", "covered"), [pytest.param(*row, id=name) for name, *row in PATHS]
)
def test_path_rules(rule: str, tool: str, path: str, matched: bool, covered: bool) -> None:
    """Path specifiers are gitignore-like patterns over the normalised path."""
    read = Rule.parse(rule)
    assert read.strikes(tool, {"file_path": path}, CWD) is matched
    assert read.covers(tool, {"file_path": path}, CWD) is covered


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` means the home folder in rules and in paths."""
    monkeypatch.setenv("HOME", "/home/me")
    rule = Rule.parse("Read(~/.ssh/**)")
    for path in ("~/.ssh/id", "/home/me/.ssh/id", "../.ssh/id"):
        assert rule.strikes("Read", {"file_path": path}, CWD)


def test_links_are_followed(tmp_path: Path) -> None:
    """A path through a symbolic link is judged by both of its names."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "secret")
    cwd, tool_input = str(tmp_path / "work"), {"file_path": "link/a"}
    assert Rule.parse(f"Read({tmp_path}/secret/**)").strikes("Read", tool_input, cwd)
    assert Rule.parse("Read(link/**)").strikes("Read", tool_input, cwd)
    assert not Rule.parse("Read(link/**)").covers("Read", tool_input, cwd)
    assert Rule.parse(f"Read({tmp_path}/work/link/**)").strikes("Read", {"file_path": f"{tmp_path}/secret/a"}, cwd)


def test_a_deny_rule_through_a_link_means_what_is_behind_it(tmp_path: Path) -> None:
    """A relative deny rule that names a link matches the real folder as well; an allow rule does not."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "out").symlink_to("../outside")
    for path in ("../outside/x", "out/x", str(tmp_path / "outside" / "x")):
        for rule in ("Edit(out/**)", "Edit(out/)", "Edit(out)"):
            assert Rule.parse(rule).strikes("Edit", {"file_path": path}, str(tmp_path / "work"))
            assert not Rule.parse(rule).covers("Edit", {"file_path": path}, str(tmp_path / "work"))


# rule, tool, input, strikes, covers
NAMED = [
    ("notebook", "Edit(src/**)", "NotebookEdit", {"notebook_path": "src/a"}, True, True),
    ("second path in", "Edit(src/**)", "NotebookEdit", {"file_path": "src/a", "notebook_path": "b"}, True, False),
    ("second path out", "Edit(src/**)", "Edit", {"file_path": "b", "path": "src/a"}, True, False),
    ("both paths in", "Edit(src/**)", "Edit", {"file_path": "src/b", "path": "src/a"}, True, True),
    ("search", "Read(src/**)", "Grep", {"path": "src", "pattern": "../x"}, True, True),
    ("search without a path", "Read(src/**)", "Glob", {"pattern": "*.{ts,d.ts}"}, False, False),
    ("search below", "Read(src/**)", "Glob", {"pattern": "src/**/*.py"}, True, False),
    ("search inside", "Read(src/**)", "Glob", {"path": "src", "pattern": "a/{b,c}/*.{ts,tsx}"}, True, True),
    ("search out by dots", "Read(src/**)", "Glob", {"path": "src", "pattern": "../*"}, True, False),
    ("search out by an absolute pattern", "Read(src/**)", "Glob", {"path": "src", "pattern": "/etc/*"}, True, False),
    ("search out by home", "Read(src/**)", "Glob", {"path": "src", "pattern": "~/*"}, True, False),
    ("search out by dots behind a star", "Read(src/**)", "Glob", {"path": "src", "pattern": "*/../../*"}, True, False),
    ("search out by braces", "Read(src/**)", "Glob", {"path": "src", "pattern": "{a,/etc}/*"}, True, False),
    ("search out by dots in braces", "Read(src/**)", "Glob", {"path": "src", "pattern": ".{.,}/*"}, True, False),
    ("search by an absolute pattern", "Read(/etc/**)", "Glob", {"pattern": "/etc/ssh/*"}, True, False),
    ("search elsewhere", "Read(/etc/**)", "Glob", {"pattern": "/srv/*"}, False, False),
    ("search back in", "Read(src/**)", "Glob", {"path": "src", "pattern": "../src/*"}, True, True),
    ("search with a filter", "Read(src/**)", "Grep", {"path": "src", "glob": "../*.py"}, True, False),
]


@pytest.mark.parametrize(
    ("rule", "tool", "tool_input", "matched", "covered"), [pytest.param(*row, id=name) for name, *row in NAMED]
)
def test_every_path_of_a_call_counts(
    rule: str, tool: str, tool_input: dict[str, str], matched: bool, covered: bool
) -> None:
    """Any path of a call may match; all must be covered, and also the folder of a search's pattern."""
    assert Rule.parse(rule).strikes(tool, tool_input, CWD) is matched
    assert Rule.parse(rule).covers(tool, tool_input, CWD) is covered


def test_without_a_folder_a_relative_path_is_in_doubt() -> None:
    """A relative path without a working folder is matched and never covered."""
    for rule in ("Read(src/**)", "Read(/etc/**)"):
        assert Rule.parse(rule).strikes("Read", {"file_path": "a"}, None)
        assert not Rule.parse(rule).covers("Read", {"file_path": "a"}, None)


# rule, url, strikes, covers
FETCHES = [
    ("host", "example.com", "https://example.com/a", True, True),
    ("case, port, dot", "example.com", "https://EXAMPLE.com.:8443/a", True, True),
    ("user part", "example.com", "https://example.com@evil.com/", False, False),
    ("subdomain of a host", "example.com", "https://a.example.com", False, False),
    ("subdomain of a pattern", "*.example.com", "https://a.b.example.com", True, True),
    ("pattern is not the host itself", "*.example.com", "https://example.com", False, False),
    ("ending alike", "example.com", "https://badexample.com", False, False),
    ("no scheme", "example.com", "example.com/a", True, True),
    ("backslash", "example.com", "https://other.com\\@x", True, False),
    ("blank", "example.com", "https://other.com /", True, False),
    ("other scheme", "example.com", "file://example.com/x", True, False),
    ("broken", "example.com", "https://[", True, False),
    ("international", "bücher.example", "https://xn--bcher-kva.example", True, True),
    ("no string", "example.com", 3, True, False),
]


@pytest.mark.parametrize(
    ("domain", "url", "matched", "covered"), [pytest.param(*row, id=name) for name, *row in FETCHES]
)
def test_domain_rules(domain: str, url: object, matched: bool, covered: bool) -> None:
    """`domain:x` is that very host, `domain:*.x` its subdomains; an address that can be read two ways is in doubt."""
    rule = Rule.parse(f"WebFetch(domain:{domain})")
    assert rule.strikes("WebFetch", {"url": url}, CWD) is matched
    assert rule.covers("WebFetch", {"url": url}, CWD) is covered


@pytest.mark.parametrize(
    ("rule", "tool", "named"),
    [
        ("mcp__github", "mcp__github__create_issue", True),
        ("mcp__github", "mcp__github2__create_issue", False),
        ("mcp__github__*", "mcp__github__create_issue", True),
        ("mcp__github__create_issue", "mcp__github__create_issue", True),
        ("mcp__github__create", "mcp__github__create__x", False),
        ("mcp__*__delete_*", "mcp__a__delete_b", True),
        ("*", "Anything", True),
        ("Bash", "bash", True),
        ("Bash", "BashOutput", False),
        ("Edit", "NotebookEdit", True),
    ],
)
def test_tool_names(rule: str, tool: str, named: bool) -> None:
    """Tools are named exactly, by pattern, by dialect name, or by their server."""
    assert Rule.parse(rule).strikes(tool, {}, CWD) is named
    assert Rule.parse(rule).covers(tool, {"command": "x"}, CWD) is named


def test_other_tools() -> None:
    """A known field is matched in both directions; an unknown input is matched by its text and never covered."""
    assert Rule.parse("Task(explorer)").strikes("Task", {"subagent_type": "explorer"}, CWD)
    assert Rule.parse("Task(exp*)").covers("Task", {"subagent_type": "explorer"}, CWD)
    assert not Rule.parse("Task(explorer)").covers("Task", {"subagent_type": "writer"}, CWD)
    deploy = Rule.parse("deploy(prod*)")
    assert deploy.strikes("deploy", {"to": {"where": ["production"]}}, CWD)
    assert not deploy.strikes("deploy", {"to": "staging"}, CWD)
    assert not deploy.covers("deploy", {"to": "production"}, CWD)
    assert Rule.parse('deploy(*"to":"prod"*)').strikes("deploy", {"to": "prod"}, CWD)
    assert deploy.strikes("deploy", {"to": object()}, CWD)


@pytest.mark.parametrize("tool_input", [None, 3, "git push", ["git"], True])
@pytest.mark.parametrize(
    "rule", ["Bash(git push *)", "Read(src/**)", "WebFetch(domain:x)", "Task(x)", "deploy(x)", "Bash"]
)
def test_malformed_input_is_in_doubt(rule: str, tool_input: object) -> None:
    """An input that is not an object is matched and never covered."""
    read = Rule.parse(rule)
    assert read.strikes(read.tool, tool_input, CWD)
    assert not read.covers(read.tool, tool_input, CWD)


def test_a_rule_is_a_condition() -> None:
    """As a condition a rule matches the event's tool call, compares by value, and is false on events without a tool."""
    when = condition("Bash(git push *)")
    assert when == condition("bash(git push *)")
    assert hash(when) == hash(condition("Bash(git push *)"))
    call = SimpleNamespace(tool_name="Bash", tool_input={"command": "git push"}, cwd=CWD)
    assert when(SimpleNamespace(event=call))
    assert not when(SimpleNamespace(event=SimpleNamespace(prompt="git push")))
    assert not when(SimpleNamespace(event=SimpleNamespace(tool_name=None)))


WORD = st.text(alphabet="abcrmgit-./_", min_size=1, max_size=6)
WORDS = st.lists(WORD, min_size=1, max_size=4).filter(
    lambda words: words[0].strip("./-") == words[0] and words[0] != ""
)
WRAPPINGS = [
    "sudo {}",
    "sudo -u me {}",
    "env A=1 {}",
    "env -i {}",
    "A=1 B=2 {}",
    "timeout 5 {}",
    "nice -n 5 {}",
    "nohup {} &",
    "time {}",
    "command {}",
    "exec {}",
    "({})",
    "{{ {}; }}",
    "ls; {}",
    "ls && {}",
    "ls | {}",
    "if true; then {}; fi",
    "for x in y; do {}; done",
    "echo $({})",
    'echo "$({})"',
    "echo `{}`",
    "x=$({})",
    "sh -c '{}'",
    "bash -lc '{}'",
    "eval '{}'",
    "echo '{}' | sh",
    "bash <<< '{}'",
    "bash <<EOF\n{}\nEOF",
    "cat <(\n{}\n)",
    "f() {{ {}; }}; f",
    "! {}",
    "xargs -n1 {}",
    "find . -exec {} \\;",
    "{} > out",
    "ls\n{}\n",
    "sudo sh -c '{}'",
    "case x in x) {};; esac",
    "while {}; do ls; done",
    "busybox {}",
    "stdbuf -oL {}",
    "watch '{}'",
]
QUOTINGS = [
    lambda word: word,
    lambda word: f'"{word}"',
    lambda word: "".join("\\" + char for char in word),
    lambda word: f'{word[:1]}""{word[1:]}',
    lambda word: word[:1] + "\\\n" + word[1:],
]


@given(WORDS, st.sampled_from(WRAPPINGS), st.sampled_from(QUOTINGS))
@settings(max_examples=400, deadline=2000)
def test_a_deny_rule_is_not_dodged_by_wrapping(words: list[str], wrapping: str, quoting: object) -> None:
    """Whatever simple command a rule denies, it denies wrapped, nested and quoted as well."""
    assert callable(quoting)
    command = " ".join(quoting(word) for word in words)
    if "`" in wrapping:
        command = command.replace("\\", "\\\\")
    line = wrapping.format(command)
    # what `echo` makes of a backslash differs between shells, so that line counts as not understood
    assert shell.parse(line).complete or ("| sh" in line and "\\" in line)
    assert Rule("Bash", " ".join(words) + " *").strikes("Bash", {"command": line}, CWD)


@given(
    st.lists(
        st.sampled_from(["git push", "rm x", "ls", ";", "&&", "|", " ", "$(", ")", "'", ">", "$X", "sudo "]), max_size=8
    )
)
@settings(max_examples=400, deadline=2000)
def test_covers_means_that_every_command_matches(parts: list[str]) -> None:
    """An approved line is understood, writes no file, and each of its commands matches the pattern."""
    line = " ".join(parts)
    if covers("Bash(git *)", line):
        parsed = shell.parse(line)
        assert parsed.complete and not parsed.written
        assert all(command.words[0] == "git" for command in parsed.commands)


@given(st.text(alphabet="ab*\\", max_size=8), st.text(alphabet="ab*\\", max_size=12))
def test_globs_agree_with_the_automaton(pattern: str, text: str) -> None:
    """The fast way and the automaton for unknown parts have the same result."""
    read = glob(pattern)
    assert read.matches(text) == read._simulate(text)


@given(st.text(alphabet="ab*", max_size=8), st.text(alphabet="ab\0", max_size=8), st.text(alphabet="ab", max_size=4))
def test_an_unknown_part_may_be_anything(pattern: str, text: str, value: str) -> None:
    """If some value of the unknown part matches, the text with the unknown part may match."""
    read = glob(pattern)
    if read.matches(text.replace("\0", value)):
        assert read.may_match(text)


def test_no_pattern_is_slow() -> None:
    """Patterns that make a backtracking matcher hang are answered at once, over a megabyte too."""
    started = time.thread_time()
    assert not glob("*a" * 40 + "b").matches("a" * 1_000_000)
    assert not glob("*a" * 40 + "b").may_match("a" * 100_000 + "\0" + "c")
    assert not segment_matches("*a" * 20 + "b", "a" * 255)
    assert strikes("Bash(git push *)", "git " + "$X " * 30_000)
    assert time.thread_time() - started < 3
