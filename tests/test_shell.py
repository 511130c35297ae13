"""A shell command parsed into the commands it runs."""

import shutil
import subprocess
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook.effects import script, shell
from billhook.effects.effect import UNKNOWN

U = UNKNOWN
MIB = 1 << 20


def texts(command: str) -> list[str]:
    return [found.text for found in shell.parse(command).commands]


# every row: its name, a line, and what the line runs besides what else is listed
RUNS = [
    ("semicolon", "ls; git push", ["ls", "git push"]),
    ("and", "ls && git push", ["ls", "git push"]),
    ("or", "ls || git push", ["ls", "git push"]),
    ("background", "ls & git push", ["ls", "git push"]),
    ("newline", "ls\ngit push\n", ["ls", "git push"]),
    ("pipe", "ls | git push", ["ls", "git push"]),
    ("pipe with errors", "ls |& git push", ["ls", "git push"]),
    ("pipe at the line's end", "ls |\n git push", ["ls", "git push"]),
    ("no blanks", "ls;git push&&ls", ["git push"]),
    ("subshell", "(git push)", ["git push"]),
    ("nested subshells", "( ( git push ) )", ["git push"]),
    ("group", "{ git push; }", ["git push"]),
    ("function", "f() { git push; }; f", ["git push", "f"]),
    ("function keyword", "function f { git push; }", ["git push"]),
    ("function with subshell", "f () ( git push )", ["git push"]),
    ("negation", "! git push", ["git push"]),
    ("if", "if git fetch; then git push; else git pull; fi", ["git fetch", "git push", "git pull"]),
    ("elif", "if a; then b; elif git fetch; then git push; fi", ["git fetch", "git push"]),
    ("for", "for x in a b; do git push; done", ["git push"]),
    ("for without in", "for x do git push; done", ["git push"]),
    ("for over do", "for x in do; do git push; done", ["git push"]),
    ("for arithmetic", "for ((i=0; i<3; i++)); do git push; done", ["git push"]),
    ("for over a substitution", "for x in $(git push); do ls; done", ["git push", "ls"]),
    ("while", "while git fetch; do git push; done", ["git fetch", "git push"]),
    ("until", "until git fetch; do git push; done", ["git push"]),
    ("select", "select x in a; do git push; done", ["git push"]),
    ("case", "case x in a|b) git push;; *) git pull ;; esac; ls", ["git push", "git pull", "ls"]),
    ("case with parenthesis", "case x in\n (a) git push\n ;;\n esac", ["git push"]),
    ("case in a substitution", "echo $(case x in a) git push;; esac)", ["git push"]),
    ("empty case", "case x in esac; git push", ["git push"]),
    ("case falls through", "case x in a) ls;& b) git push;;& esac", ["git push"]),
    ("test", "[[ -f x && $(git push) ]] && ls", ["git push", "ls"]),
    ("test with signs", "[[ a < b || ( c > d ) ]]; git push", ["git push"]),
    ("arithmetic", "(( x++ )); git push", ["git push"]),
    ("substitution", "echo $(git push)", ["git push"]),
    ("substitution in quotes", 'echo "a $(git push) b"', ["git push"]),
    ("nested substitution", 'echo "$(echo "$(git push)")"', ["git push"]),
    ("substitution in a word", "echo a$(git push)b", ["git push"]),
    ("substitution in an assignment", "x=$(git push)", ["git push"]),
    ("substitution in an array", "x=(a $(git push) b)", ["git push"]),
    ("substitution in arithmetic", "echo $((1 + $(git push)))", ["git push"]),
    ("substitution in a default", "echo ${x:-$(git push)}", ["git push"]),
    ("substitution in a quoted default", 'echo "${x:-$(git push)}"', ["git push"]),
    ("substitution in a subscript", 'echo "${x[$(git push)]}"', ["git push"]),
    ("substitution in a redirection", "ls > $(git push)", ["git push"]),
    ("substitution in declare", "declare -x a=$(git push)", ["git push"]),
    ("substitution in old arithmetic", "echo $[ $(git push) ]", ["git push"]),
    ("backticks", "echo `git push`", ["git push"]),
    ("backticks in quotes", 'echo "`git push`"', ["git push"]),
    ("nested backticks", r"echo `echo \`git push\``", ["git push"]),
    ("process substitution", "diff <(git push) <(ls)", ["git push", "ls"]),
    ("output substitution", "tee >(git push)", ["git push"]),
    ("assignments", "A=1 B='2 3' git push", ["git push"]),
    ("redirection first", ">out git push", ["git push"]),
    ("redirection between", "git >out push 2>&1", ["git push"]),
    ("descriptor variable", "git push {fd}>x", ["git push"]),
    ("word before both outputs", "{git,push}&>x 2&>y", [f"{U} 2"]),
    ("double quotes", '"git" "pu"sh', ["git push"]),
    ("single quotes", "g'i't 'push'", ["git push"]),
    ("backslashes", r"g\it \push", ["git push"]),
    ("ansi-c quotes", r"$'\x67it' $'pu\163h'", ["git push"]),
    ("locale quotes", 'git $"push"', ["git push"]),
    ("line continuation", "git pu\\\nsh", ["git push"]),
    ("line continuation between words", "git \\\n  push", ["git push"]),
    ("line continuation in quotes", '"g\\\nit" push', ["git push"]),
    ("empty quotes", "git'' ''push", ["git push"]),
    ("many blanks", "  git \t  push  ", ["git push"]),
    ("comment", "ls # it's\ngit push", ["ls", "git push"]),
    ("comment with continuation", "ls # \\\ngit push", ["git push"]),
    ("quote in a quoted expansion", '"${x:-\'}"; git push; echo "\'"', ["git push"]),
    ("sudo", "sudo git push", ["sudo git push", "git push"]),
    ("sudo with options", "sudo -n -u me -- git push", ["git push"]),
    ("sudo with attached options", "sudo -nu me git push", ["git push"]),
    ("sudo with long options", "sudo --user me --preserve-env=A A=1 git push", ["git push"]),
    ("sudo with an unknown option", "sudo --new value git push", ["git push"]),
    ("sudo with an unknown flag", "sudo --new git push", ["git push"]),
    ("sudo shell", "sudo -s git push", ["git push"]),
    ("sudo in a folder", "/usr/bin/sudo git push", ["git push"]),
    ("doas", "doas -u me git push", ["git push"]),
    ("env", "env git push", ["git push"]),
    ("env with options", "env -i -u X A=1 B=2 git push", ["git push"]),
    ("env split", "env -S 'git push'", ["git push"]),
    ("env split in a cluster", "env -iS 'A=1 git push'", ["git push"]),
    ("env long split", "env --split-string='git push' x", ["git push x"]),
    ("timeout", "timeout -k 5 10s git push", ["git push"]),
    ("timeout long", "timeout --signal=KILL 10 git push", ["git push"]),
    ("nice", "nice -n 5 git push", ["git push"]),
    ("nice short", "nice -5 git push", ["git push"]),
    ("ionice", "ionice -c 3 git push", ["git push"]),
    ("nohup", "nohup git push &", ["git push"]),
    ("time", "time git push", ["time git push", "git push"]),
    ("time -p", "time -p git push", ["git push"]),
    ("time of a group", "time { git push; }", ["git push"]),
    ("time of a subshell", "time (git push)", ["git push"]),
    ("command", "command git push", ["git push"]),
    ("command -p", "command -p git push", ["git push"]),
    ("builtin", "builtin eval 'git push'", ["git push"]),
    ("exec", "exec -a x git push", ["git push"]),
    ("setsid", "setsid -f git push", ["git push"]),
    ("stdbuf", "stdbuf -oL -e 0 git push", ["git push"]),
    ("watch", "watch -n 1 'git push'", ["git push"]),
    ("flock", "flock /tmp/x git push", ["git push"]),
    ("flock -c", "flock /tmp/x -c 'git push'", ["git push"]),
    ("su", "su me -c 'git push'", ["git push"]),
    ("trap", "trap 'git push' EXIT", ["git push"]),
    ("xargs", "ls | xargs git push", ["xargs git push", f"git push {U}"]),
    ("xargs with options", "xargs -0 -n 1 -P4 -r git push", [f"git push {U}"]),
    ("xargs with replacement", "xargs -I% git push %", [f"git push {U}"]),
    ("xargs running a shell", "xargs sh -c 'git push'", ["git push"]),
    ("find -exec", r"find . -exec git push {} \;", [f"git push {U}"]),
    ("find -execdir", "find . -execdir git push {} +", [f"git push {U}"]),
    ("find -ok", "find . -ok git push ';' -exec ls {} +", ["git push", f"ls {U}"]),
    ("sh -c", "sh -c 'git push'", ["sh -c git push", "git push"]),
    ("bash -lc", "bash -lc 'git push'", ["git push"]),
    ("bash with options", "bash -e -o pipefail -c 'git push' x y", ["git push"]),
    ("option with a value in a cluster", "bash -oc pipefail 'git push'", ["git push"]),
    ("options behind -c", "bash -c -x --norc 'git push'", ["git push"]),
    ("options behind sudo -s", "sudo -s -u me -- git push", ["git push"]),
    ("shell of another user by letters", "sudo -Es git push", ["git push"]),
    ("entry point of a container", "docker run --entrypoint git alpine push", ["git push"]),
    ("options behind the name of a pod", "kubectl exec pod -c app -- git push", ["git push"]),
    ("bash --norc", "bash --norc --rcfile x -c 'git push'", ["git push"]),
    ("zsh -c", "zsh -ic 'git push'", ["git push"]),
    ("dash", "dash -c 'git push'", ["git push"]),
    ("busybox", "busybox sh -c 'git push'", ["git push"]),
    ("shell in a folder", "/bin/sh -c 'git push'", ["git push"]),
    ("shell in a shell", """sh -c "bash -c 'git push'" """, ["git push"]),
    ("eval", "eval git push", ["git push"]),
    ("eval quoted", "eval 'ls; git' push", ["git push"]),
    ("here-document into a shell", "bash <<EOF\ngit push\nEOF\n", ["git push"]),
    ("literal here-document into a shell", "sh -s <<'EOF'\ngit push\nEOF", ["git push"]),
    ("here-document with tabs", "bash <<-EOF\n\tgit push\n\tEOF\nls", ["git push", "ls"]),
    ("command after a here-document", "cat <<EOF\nx\nEOF\ngit push", ["git push"]),
    ("command beside a here-document", "cat <<EOF && git push\nx\nEOF", ["git push"]),
    ("two here-documents", "cat <<A <<B\na\nA\nb\nB\ngit push", ["git push"]),
    ("substitution in a here-document", 'cat <<EOF\n"$(git push)"\nEOF', ["git push"]),
    ("backticks in a here-document", "cat <<EOF\n`git push`\nEOF", ["git push"]),
    ("here-document in a substitution", "echo $(bash <<EOF\ngit push\nEOF\n)", ["git push"]),
    ("here-string into a shell", "bash <<< 'git push'", ["git push"]),
    ("here-string into sudo", "sudo bash <<< 'git push'", ["git push"]),
    ("echo into a shell", "echo 'git push' | sh", ["git push"]),
    ("echo -n into a shell", "echo -n git push | bash -s", ["git push"]),
    ("echo into sudo", "echo 'git push' | sudo -n bash", ["git push"]),
    ("printf into a shell", r"printf '%s\n' 'git push' | sh", ["git push"]),
    ("cat into a shell", "cat <<EOF | sh\ngit push\nEOF", ["git push"]),
    ("joined lines in a here-document", "cat <<EOF\na \\\nEOF\nb\nEOF\ngit push", ["git push"]),
    ("joined lines into a shell", "cat <<EOF | sh\ngit pu\\\nsh\nEOF", ["git push"]),
    ("here-strings of two descriptors", "bash <<<'git push' 3<<<'ls'", ["git push"]),
    ("cat of two descriptors", "cat <<<'git push' 3<<<ls | sh", ["git push"]),
    ("time with an assignment", "time A=1 git push", ["git push"]),
    ("pattern in a shell's folder", "/b?n/bash -c 'git push'", ["git push"]),
    ("pattern in a folder", "/t*/x/bin/git push", ["/t*/x/bin/git push"]),
    ("for with braces", "for ((;;)) { git push; break; }", ["git push"]),
    ("for without a blank", "for ((;;))do git push; done", ["git push"]),
    ("continuation in an assignment", "A\\\n=1 git push", ["git push"]),
    ("env with a dash", "env - git push", ["git push"]),
    ("env with odd names", "env =1 a-b=2 git push", ["git push"]),
    ("sudo of a file with an equals sign", "sudo a-b=1 /x=y git push", ["/x=y git push"]),
    ("env split with options", "env -S '-i git push'", ["git push"]),
    ("env with an unknown value", "env A=$X git push", ["git push"]),
    ("setpriv", "setpriv --reuid 1 git push", ["git push"]),
    ("unshare", "unshare -r -S 0 git push", ["git push"]),
    ("prlimit", "prlimit --nofile=1 git push", ["git push"]),
    ("setarch", "setarch x86_64 git push", ["git push"]),
    ("setarch without a name", "setarch -R git push", ["git push"]),
    ("runuser", "runuser -u x -- git push", ["git push"]),
    ("runuser -c", "runuser - x -c 'git push'", ["git push"]),
    ("sg", "sg x -c 'git push'", ["git push"]),
    ("chroot", "chroot /x git push", ["git push"]),
    ("quoted default", 'echo ${x:-"a b"} "${x:-"a"}"; git push', ["git push"]),
    ("kept as written", "/bin/rm x", ["/bin/rm x"]),
    ("remote is not local", "ssh host git push", ["ssh host git push"]),
    ("sourced file", ". ./x; source y", [". ./x", "source y"]),
    ("pattern in an argument", "rm *.o", ["rm *.o"]),
]


@pytest.mark.parametrize(("line", "expected"), [pytest.param(line, runs, id=name) for name, line, runs in RUNS])
def test_what_a_line_runs(line: str, expected: list[str]) -> None:
    """Every command the line runs is listed, however it is wrapped, and the line is understood."""
    assert set(expected) <= set(texts(line))
    assert shell.parse(line).complete


ONLY = [
    ("quoted mention", 'echo "git push"', ["echo git push"]),
    ("searched text", "grep 'rm -rf' file", ["grep rm -rf file"]),
    ("message", 'git commit -m "rm -rf /; ls $"', ["git commit -m rm -rf /; ls $"]),
    ("escaped separators", r"echo a\;b\&c", ["echo a;b&c"]),
    ("comment", "ls # git push", ["ls"]),
    ("here-document for cat", "cat > x <<'EOF'\n$(git push)\nrm\nEOF", ["cat"]),
    ("escaped substitution", r'echo "\$(git push)"', ["echo $(git push)"]),
    ("single-quoted substitution", "echo '$(git push) `ls`'", ["echo $(git push) `ls`"]),
    ("only asked for", "command -v git", ["command -v git"]),
    ("reserved words as arguments", "echo if then { } do case esac", ["echo if then { } do case esac"]),
    ("assignment alone", "A=1", [""]),
    ("nothing", "  \n# x\n", []),
    ("hash inside a word", "echo a#b", ["echo a#b"]),
    ("quoted braces", 'echo \'{"a":1,"b":2}\'', ['echo {"a":1,"b":2}']),
    ("pattern in a test", "[[ $x =~ ^[a-z]+$ ]]", []),
    ("brackets that are only printed", "printf '[$(x)]'", ["printf [$(x)]"]),
    ("find with unknown values", 'find $D -name "$X" -type f', [f"find {U} -name {U} -type f"]),
    ("arithmetic with shifts", "(( 1 << 2 ))\nls", ["ls"]),
]


@pytest.mark.parametrize(("line", "expected"), [pytest.param(line, runs, id=name) for name, line, runs in ONLY])
def test_data_is_not_execution(line: str, expected: list[str]) -> None:
    """Text that is only an argument, a comment or a document is not listed as a command."""
    assert texts(line) == expected
    assert shell.parse(line).complete


DOUBTFUL = [
    ("unclosed single quote", "echo 'a"),
    ("unclosed double quote", 'echo "a'),
    ("unclosed substitution", "echo $(ls"),
    ("unclosed backtick", "echo `ls"),
    ("unclosed subshell", "(ls"),
    ("stray parenthesis", "ls)"),
    ("unclosed expansion", "echo ${x"),
    ("unclosed here-document", "cat <<EOF\nx"),
    ("here-document without lines", "cat <<EOF"),
    ("unclosed case", "case x in a) ls"),
    ("unclosed test", "[[ -f x"),
    ("unknown text for a shell", 'sh -c "$X"'),
    ("partly unknown text for a shell", 'bash -c "ls $X"'),
    ("unknown text for eval", "eval $X"),
    ("eval of a substitution", 'eval "$(cat x)"'),
    ("download into a shell", "curl https://x | sh"),
    ("decoded into a shell", "echo Z2l0IHB1c2gK | base64 -d | bash"),
    ("escapes into a shell", r"echo -e 'git\x20push' | sh"),
    ("group into a shell", "{ echo git; } | sh"),
    ("subshell into a shell", "(echo git push) | sh"),
    ("pipe into a grouped shell", "echo 'git push' | (sh)"),
    ("shell reading a substitution", "bash <(curl x)"),
    ("sourcing a substitution", ". <(curl x)"),
    ("sourcing standard input", "echo 'git push' | . /dev/stdin"),
    ("shell named by a variable file", "bash $X"),
    ("funsub", "echo ${ git push; }"),
    ("subshells that look like arithmetic", "((git push); ls)"),
    ("arithmetic that reads like a command", "((git push))"),
    ("NUL", "ls\0"),
    ("coproc", "coproc git push"),
    ("extended pattern", "ls !(a|b)"),
    ("redirection to nothing", "ls >"),
    ("joined delimiter", "cat <<EOF\nEO\\\nF\ngit push\nEOF"),
    ("subscript in [", "[ -v 'a[$(git push)]' ]"),
    ("subscript in test", "command test -v 'a[$(git push)]'"),
    ("subscript in [[", "[[ 'a[$(git push)]' -eq 0 ]]"),
    ("backticks in a subscript", "[[ 'a[`git push`]' -eq 0 ]]"),
    ("subscript in read", "read 'a[$(git push)]'"),
    ("subscript in printf", "printf -v 'a[$(git push)]' x"),
    ("subscript in declare", "declare -i x='a[$(git push)]'"),
    ("subscript in unset", "unset 'a[$(git push)]'"),
    ("subscript in let", "let 'a[$(git push)]'"),
    ("subscript in an assignment", "a['$(git push)']=1"),
    ("subscript in an expansion", "ls ${a['$(git push)']}"),
    ("escaped subscript in an expansion", r"ls ${a[\$(git push)]}"),
    ("quoted arithmetic", "(( 'a[$(git push)]' ))"),
    ("escaped arithmetic", r"ls $(( a[\$(git push)] ))"),
    ("ansi-c quotes in an expansion", r"echo ${x:-$'\''}; git push; : '}' \'"),
    ("quotes in a quoted pattern", r"""echo "${x#'"}'}"; git push; echo }'"'\'"""),
    ("quote in an expansion in a here-document", 'cat <<A\n${x:-"}\nA\ngit push'),
    ("callback", "mapfile -C 'git push' -c 1 x"),
    ("blanks in a subscript", "A[ 1 ]=1 git push"),
    ("descriptor as a script", "bash /dev/fd/3 3<<<'git push'"),
    ("descriptor as input", "bash 3<<<'git push' <&3"),
    ("sourced descriptor", ". /dev/fd/3 3<<<'git push'"),
    ("env split with escapes", r"env -S 'git\_push'"),
    ("unknown option of a shell", "bash -$X 'git push'"),
    ("unknown option of a wrapper", "timeout $X 5 git push"),
    ("unknown option of find", r"find . $X git push \;"),
    ("su reading", "echo git push | su"),
    ("too deep", "sudo " * 100 + "git push"),
]


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in DOUBTFUL])
def test_unknown_syntax_is_reported(line: str) -> None:
    """A line that can't be read to the end, or that runs text from elsewhere, is not complete."""
    assert not shell.parse(line).complete


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("$CMD x", (U, "x"), id="variable"),
        pytest.param("$(echo rm) -rf", (U, "-rf"), id="substitution"),
        pytest.param("`echo rm` -rf", (U, "-rf"), id="backticks"),
        pytest.param("r$X y", (f"r{U}", "y"), id="part of a word"),
        pytest.param('"${CMD}" x', (U, "x"), id="quoted"),
        pytest.param("{git,push}", (U,), id="brace expansion"),
        pytest.param("/bin/r? x", (f"/bin/r{U}", "x"), id="pattern"),
        pytest.param("r[m] x", (f"r{U}", "x"), id="class"),
    ],
)
def test_a_dynamic_command_word_is_marked(line: str, words: tuple[str, ...]) -> None:
    """A command word that only the shell knows makes the command dynamic."""
    command = shell.parse(line).commands[-1 if "`" not in line else 0]
    assert command.words == words
    assert command.dynamic


@pytest.mark.parametrize(
    ("line", "written"),
    [
        pytest.param("ls > a", ("a",), id="write"),
        pytest.param("ls >> 'a b'", ("a b",), id="append"),
        pytest.param("ls >| a", ("a",), id="clobber"),
        pytest.param("ls &> a; ls &>> b", ("a", "b"), id="both"),
        pytest.param("ls >& a", ("a",), id="old both"),
        pytest.param("ls <> a", ("a",), id="read and write"),
        pytest.param("ls 2> a", ("a",), id="errors"),
        pytest.param("{ ls; } > a", ("a",), id="group"),
        pytest.param("for x in y; do ls; done > a", ("a",), id="loop"),
        pytest.param("> a", ("a",), id="alone"),
        pytest.param("sh -c 'ls > a'", ("a",), id="inside a shell"),
        pytest.param("ls > $X", (U,), id="unknown"),
        pytest.param("ls 2>&1 >&2 2>&- < a > /dev/null", (), id="none"),
    ],
)
def test_written_files(line: str, written: tuple[str, ...]) -> None:
    """The files that redirections write are known; descriptors and /dev/null are none."""
    assert shell.parse(line).written == written


def test_a_command_lists_its_wrappers() -> None:
    """Each command carries its wrappers, its assignments, and whether it only runs another."""
    outer, timeout, inner = shell.parse("sudo A=1 timeout 5 /bin/rm x").commands
    assert (outer.via, timeout.via, inner.via) == ((), ("sudo",), ("sudo", "timeout"))
    assert (outer.transparent, timeout.transparent, inner.transparent) == (False, True, False)
    assert inner.assignments == ("A=1",)
    assert inner.name == "rm"


SHAPES = {
    "5,000 parentheses": "(" * 5000 + "git push" + ")" * 5000,
    "5,000 subshells": "( " * 5000 + "git push" + " )" * 5000,
    "5,000 substitutions": "echo " + "$(echo " * 5000 + ")" * 5000,
    "parentheses": "(" * MIB,
    "long word": "echo " + "a" * MIB,
    "separators": "ls;" * (MIB // 3),
    "words": "a " * (MIB // 2),
    "substitutions": "echo " + "$(ls)" * (MIB // 5),
    "open substitutions": "$(" * (MIB // 2),
    "open substitutions with blanks": "$( " * (MIB // 3),
    "unclosed double quote": 'echo "' + "a " * (MIB // 2),
    "unclosed single quote": "echo '" + "a " * (MIB // 2),
    "single quotes": "'" * MIB,
    "double quotes": '"a' * (MIB // 2),
    "backticks": "`" * MIB,
    "escaped backticks": "`" + "\\`" * (MIB // 2),
    "here-document": "cat <<EOF\n" + "hello $x world\n" * (MIB // 15) + "EOF\n",
    "here-documents": "cat <<EOF\na\nEOF\n" * (MIB // 16),
    "open here-documents": "cat <<EOF\na\n" * (MIB // 12),
    "here-documents on a line": "cat " + "<<A " * (MIB // 4),
    "braces": "{" * MIB,
    "expansions": "${" * (MIB // 2),
    "quoted expansions": '"${x:-' * (MIB // 6),
    "pipes": "a|" * (MIB // 2),
    "backslashes": "\\" * MIB,
    "continuations": "a\\\n" * (MIB // 3),
    "dollars": "$" * MIB,
    "arithmetic": "$((" * (MIB // 3),
    "arithmetic commands": "((a) " * (MIB // 5),
    "ifs": "if a; then " * (MIB // 11),
    "cases": "case x in a) " * (MIB // 13),
    "redirections": ">a " * (MIB // 3),
    "less-than": "<" * MIB,
    "assignments": "A=1 " * (MIB // 4),
    "subscripts": "a[" * (MIB // 2),
    "arrays": "a=(" * (MIB // 3),
    "tests": "[[ " * (MIB // 3),
    "NUL": "\0" * MIB,
    "lines": "\n" * MIB,
    "times": "time " * (MIB // 5),
    "sudos": "sudo " * (MIB // 5),
    "evals": "eval " * (MIB // 5),
    "nested shells": "sh -c '" * (MIB // 7),
    "functions": "f() { " * (MIB // 6),
    "finds": "find -exec " * (MIB // 11),
    "lone surrogates": "\ud800" * (MIB // 4),
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in SHAPES.items()])
def test_large_and_deep_text_does_not_crash_or_hang(text: str) -> None:
    """Megabytes of any shape are read or given up within seconds of processor time."""
    started = time.thread_time()
    parsed = shell.parse(text)
    assert time.thread_time() - started < 3
    assert len(parsed.commands) <= shell.MAX_COMMANDS + 1


def test_nesting_within_the_limit_is_read() -> None:
    """Thousands of nested subshells or substitutions are still understood."""
    assert "git push" in texts("( " * 5000 + "git push" + " )" * 5000)
    assert "git push" in texts("echo $(" * 5000 + "git push" + ")" * 5000)


SIGNS = [
    "git",
    "push",
    " ",
    "\n",
    ";",
    "&",
    "|",
    "(",
    ")",
    "$(",
    "${",
    "}",
    "{",
    "`",
    '"',
    "'",
    "\\",
    "$",
    "<",
    ">",
    "<<A",
]
SIGNS += [
    "\nA\n",
    "if ",
    "then ",
    "fi",
    "case ",
    " in ",
    "esac",
    ";;",
    "[[",
    "]]",
    "((",
    "))",
    "=",
    "sudo ",
    "sh -c ",
    "eval ",
]
SIGNS += [
    "xargs ",
    "env ",
    "find -exec ",
    "#",
    "\0",
    "\ud800",
    "é",
    "-",
    "*",
    "!",
    "time ",
    "for ",
    "do ",
    "done",
    "a=(",
]


@given(st.lists(st.sampled_from(SIGNS), max_size=60).map("".join) | st.text())
@settings(max_examples=400, deadline=2000)
def test_any_text_is_read(text: str) -> None:
    """No text raises, and every command has words, assignments or redirections."""
    for command in shell.parse(text).commands:
        assert command.words or command.assignments or command.redirects


@given(st.lists(st.sampled_from(SIGNS), min_size=1, max_size=5).map("".join))
@settings(max_examples=25, deadline=4000)
def test_any_repetition_is_read_in_time(unit: str) -> None:
    """No short text becomes slow by being repeated."""
    started = time.thread_time()
    shell.parse(unit * (100_000 // len(unit)))
    assert time.thread_time() - started < 3


QUOTED = st.lists(
    st.sampled_from(
        [
            "a",
            "b c",
            "'",
            '"',
            "\\",
            "'x y'",
            '"p q"',
            "\\ ",
            "$'\\x41\\n'",
            "é",
            ";",
            "\\;",
            "|",
            "\\\n",
            "#",
            "{",
            "=",
        ]
    )
    | st.sampled_from([" ", "\t", '"\\a"', '"\\""', "'\\'", '$"x"', "''", '""', "]", "%", "\\'"]),
    max_size=12,
).map("".join)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash to compare with")
@given(QUOTED)
@settings(max_examples=60, deadline=None)
def test_words_are_those_of_bash(arguments: str) -> None:
    """For one simple command without expansions the words are exactly those bash makes."""
    if arguments.endswith("\\\n\\\n\\"):
        return  # after two continued lines, bash loses a backslash that ends the text; dash keeps it
    parsed = shell.parse(f"echo {arguments}")
    if not parsed.complete or len(parsed.commands) != 1:
        return
    line = f"printf '%s\\0' {arguments}"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, check=False)  # no expansion, no other command
    if ran.returncode == 0:
        assert ran.stdout.decode().split("\0")[:-1] == list(parsed.commands[0].words[1:] or ("",))


def test_threads_may_parse_at_once() -> None:
    """Thirty-two threads reading different lines get what each would get alone."""
    wrong: list[str] = []

    def work(number: int) -> None:
        for turn in range(50):
            line = f"sudo sh -c 'git push {number} {turn}'"
            if f"git push {number} {turn}" not in texts(line):
                wrong.append(line)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_line_that_was_read_before_is_read_within_the_limit_of_each_reader() -> None:
    """Rules and the interpreter share the parsed text, and have separate limits."""
    line = "ls;" * 50
    assert len(script.read(line, 10).commands) < 10
    assert len(script.read(line).commands) == 50
    assert len(script.read(line).commands) == 50
    assert len(script.read(line, 10).commands) < 10
