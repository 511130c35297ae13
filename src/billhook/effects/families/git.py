"""Programs of the family git: work that is discarded, history that is rewritten or pushed, ways back that are lost.

The rows of `_VERBS` are about git without its general options: `git -C x --no-pager reset` is read as `git reset` in
the folder x. A row whose scope is unknown gets that of the repository. The target of `discard` is a path, "" for the
whole of the project's own repository, the root of any other one; `why` tells which files `git clean` would remove.
"""

import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from billhook.effects.effect import UNKNOWN, Command, Effect, Weight
from billhook.effects.families.files import patch_effects, undone_work
from billhook.effects.places import absolute, has_pattern, scope_of
from billhook.effects.programs import Options
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import Call, Reader, Row, apply_row, rows_by_program

UNTRACKED: Final = "untracked files"
IGNORED: Final = "ignored files"
UNTRACKED_AND_IGNORED: Final = "untracked and ignored files"

_DRY: Final = "-n --dry-run"
_PAUSED: Final = "--abort --continue --skip --quit --edit-todo --show-current-patch"
_MESSAGES: Final = "-m -F -C -c -t --message --file --author --date --reuse-message --reedit-message --fixup --squash"
_OUT: Final = "-o --output-directory"
_ELSEWHERE: Final = "--prefix -n --no-create"
_REMOTES: Final = "-r --remotes"  # what a fetch brings back
_BRANCHES: Final = "-u --set-upstream-to --contains --merged --sort --format --points-at"
_SPARES_NONE: Final = "--expire*=now --expire*=all --expire*=0 --expire*=0.* --expire*=1.s* --expire*=1.m*"
"""Dates that spare no entry of the reflog; other ones remove what is old."""
_CLONES: Final = (
    "-b --branch -o --origin --depth -c --config --reference --template --filter -j --jobs -u --upload-pack"
)

_VERBS: Final = rows_by_program(
    (
        # what only exists here and is removed; git refuses most of these without force
        Row("rm", "discard", "all", files=True, needs="-f --force", dry=f"{_DRY} --cached", recursive="always"),
        Row("switch", "discard", "none", needs="-f --force --discard-changes", values="-c -C", recursive="always"),
        Row("worktree remove", "discard", "first", files=True, needs="-f --force", recursive="always"),
        Row("read-tree", "discard", "none", needs="-u & --reset", dry=_DRY, recursive="always"),
        Row("checkout-index", "discard", "none", needs="-f --force & -a --all", dry=_ELSEWHERE, recursive="always"),
        Row("checkout-index", "discard", "all", files=True, needs="-f --force", dry=f"{_ELSEWHERE} -a --all",
            recursive="always"),
        # history
        Row("commit", "rewrite-history", "none", needs="--amend", dry="--dry-run", values=_MESSAGES, weight="light"),
        Row("rebase", "rewrite-history", "none", dry=_PAUSED, weight="light"),
        Row("rebase", "rewrite-history", "none", needs="--root", dry=_PAUSED),
        Row("filter-branch", "rewrite-history", "none"),
        Row("filter-repo", "rewrite-history", "none", dry="--analyze --dry-run", heavy="--force -f"),
        Row("replace", "rewrite-history", "all", dry="-d --delete -l --list"),
        Row("lfs migrate import|export", "rewrite-history", "none"),
        Row("switch", "rewrite-history", "none", needs="-C --force-create", values="-C -c", weight="light"),
        Row("checkout", "rewrite-history", "none", needs="-B", values="-B -b", weight="light"),
        Row("branch", "rewrite-history", "all", needs="-f --force -M -C", dry=f"{_REMOTES} -D -d --delete",
            values=_BRANCHES, weight="light"),
        # the ways back
        Row("stash drop|clear", "drop-recovery"),
        Row("branch * *", "drop-recovery", "last", needs="-M -C", values=_BRANCHES),
        Row("branch", "drop-recovery", "all", needs="-D", dry=_REMOTES, values=_BRANCHES),
        Row("branch", "drop-recovery", "all", needs="-d --delete & -f --force", dry=_REMOTES, values=_BRANCHES),
        Row("reflog delete", "drop-recovery", dry=_DRY),
        Row("reflog drop", "drop-recovery", heavy="--all"),
        Row("reflog expire", "drop-recovery", "none", needs=_SPARES_NONE, dry=_DRY, heavy="--all",
            values="--expire --expire-unreachable"),
        Row("gc", "drop-recovery", "none", needs="--p*=now --p*=all --p*=0 --p*=0.*"),
        Row("prune", "drop-recovery", "none", dry=_DRY),
        Row("tag", "drop-recovery", "all", needs="-d --delete", weight="light"),
        Row("update-ref", "drop-recovery", "first", needs="-d", values="-m"),
        Row("symbolic-ref", "drop-recovery", needs="-d --delete"),
        Row("lfs prune", "drop-recovery", "none", dry="-d --dry-run", weight="light"),
        # files
        Row("init", "write", "all", files=True, values="-b --initial-branch --template --separate-git-dir"),
        Row("mv", "overwrite", "last", files=True, needs="-f --force", dry=_DRY),
        Row("bundle create", "overwrite", "first", files=True),
        Row("diff|log|show", "overwrite", files=True, named_by="--output", values="--output"),
        Row("archive", "overwrite", files=True, named_by="-o --output", values="-o --output --format --prefix"),
        Row("format-patch", "write", files=True, named_by=_OUT, values=_OUT),
    )
)  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (
    Row("git-filter-repo", "rewrite-history", "none", dry="--analyze --dry-run", heavy="--force -f", scope="project"),
    Row("bfg", "rewrite-history", "none", scope="project"),
    Row("java", "rewrite-history", "none", needs="-jar=*bfg*.jar", values="-jar", scope="project"),
    Row("gh repo sync", "force-push", needs="--force", values="-b --branch -s --source", scope="remote"),
    # Jujutsu keeps a log of operations: only that log can be lost
    Row("jj abandon", "rewrite-history", weight="light", scope="project"),
    Row("jj op|operation abandon", "drop-recovery", scope="project"),
    Row("jj util gc", "drop-recovery", "none", needs="--expire --expire=now", scope="project"),
    Row("jj git push", "force-push", "none", needs="--deleted", dry="--dry-run", scope="remote"),
    Row("jj git push", "push", "none", dry="--dry-run", weight="light", scope="remote"),
    Row("hg update|up|checkout|co", "discard", "none", needs="-C --clean", scope="project"),
    Row("hg revert", "discard", files=True, needs="--no-backup -C", dry=_DRY, recursive="always"),
    Row("hg revert", "discard", "none", needs="-a --all & --no-backup -C", dry=_DRY, scope="project"),
    Row("hg purge|clean", "discard", "none", dry="-p --print", scope="project"),
    Row("hg strip|debugstrip|rollback", "rewrite-history", "none", dry=_DRY, scope="project"),
    Row("hg rebase|histedit", "rewrite-history", "none", dry="--abort --continue", weight="light", scope="project"),
    Row("hg commit|ci", "rewrite-history", "none", needs="--amend", weight="light", scope="project"),
    Row("hg shelve", "drop-recovery", "none", needs="-d --delete --cleanup", scope="project"),
    Row("hg push", "push", "none", dry="-f --force", weight="light", scope="remote"),
    Row("hg push", "force-push", "none", needs="-f --force", scope="remote"),
    Row("svn revert", "discard", files=True, recursive="always"),
    Row("svn cleanup", "discard", "none", needs="--remove-unversioned --remove-ignored", scope="project"),
    Row("svn delete|del|remove|rm", "discard", files=True, needs="--force", recursive="always"),
    Row("svn commit|ci", "push", "none", weight="light", scope="remote"),
)

_GENERAL: Final = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env")
_PROTECTED: Final = ("main", "master", "trunk", "develop", "production", "prod", "stable")
_MOST_ALIASES: Final = 8  # an alias may name another one


def _git(call: Call) -> Iterator[Effect]:
    settings, folder, rest = general(call.command)
    for _ in range(_MOST_ALIASES):
        alias = settings.get("alias." + "".join(rest[:1]).lower())
        if not alias or alias.startswith("!"):  # the shell command of an alias is read separately
            break
        rest = [*_words(alias), *rest[1:]]
    for cwd in (call.command.cwd, *call.command.folders):
        at = absolute(folder, cwd, call.world) if folder else cwd
        command = msgspec.structs.replace(call.command, args=tuple(rest), cwd=at, folders=())
        inner = Call(command, call.world, call.scopes, frozenset())
        yield from (_placed(inner, effect) for effect in _by_verb(inner, "".join(rest[:1]), settings))


def general(command: Command) -> tuple[dict[str, str], str, list[str]]:
    """The settings given by `-c`, the folder that git works in, and the words from the verb on."""
    settings: dict[str, str] = {}
    given = dict(each.partition("=")[::2] for each in command.assignments)
    tree, store = given.get("GIT_WORK_TREE", ""), given.get("GIT_DIR", "")
    folder, at, words = "", 0, command.args
    while at < len(words) and words[at].startswith("-"):
        option, equals, value = words[at].partition("=")
        if option in _GENERAL and not equals:
            at += 1
            value = "".join(words[at : at + 1])
        at += 1
        if option == "-C":
            folder = posixpath.join(folder, value)
        elif option == "-c":
            name, _, text = value.partition("=")
            settings[name.lower()] = text
        tree, store = (value if option == "--work-tree" else tree), (value if option == "--git-dir" else store)
    if not tree and posixpath.basename(store) == ".git":
        tree = posixpath.dirname(store)
    return settings, posixpath.join(folder, tree) if tree else folder, list(words[at:])


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _by_verb(call: Call, verb: str, settings: Mapping[str, str]) -> Iterator[Effect]:
    for row in _VERBS.get(verb, ()):
        # the verb takes the place of the program's name, which rows don't count among the operands
        yield from apply_row(row, _without_verb(call, row.values))
    if verb in _READERS:
        valued, read = _READERS[verb]
        inner = _without_verb(call, valued)
        if not {("-h", ""), ("--help", "")}.intersection(inner.options.options):
            yield from read(inner)
    now = ("gc.pruneexpire", "gc.reflogexpire", "gc.reflogexpireunreachable")
    if verb == "gc" and any(settings.get(name) in ("now", "all") for name in now):
        yield call.effect("drop-recovery")
    if verb == "clean" and settings.get("clean.requireforce") in ("false", "no", "off", "0"):
        yield from _clean(_without_verb(call, "-e --exclude"), forced=True)


def _without_verb(call: Call, valued: str) -> Call:
    command = msgspec.structs.replace(call.command, args=call.command.args[1:])
    return Call(command, call.world, call.scopes, frozenset(valued.split()))


def _placed(call: Call, effect: Effect) -> Effect:
    """An effect on the repository as such: its scope, and which one it is unless it is the project's own."""
    root, scope, target = _root(call), effect.scope, effect.target
    if scope == "unknown" and not target.startswith(UNKNOWN):
        scope = scope_of(root, call.scopes)
    if effect.kind == "discard" and target in ("", root):
        target = "" if root in call.world.roots else root
    known = effect.certain and UNKNOWN not in call.command.cwd + target
    why = effect.why or ("" if known else "it depends on a value that the call doesn't show")
    return msgspec.structs.replace(effect, scope=scope, target=target, certain=known, why=why)


def _root(call: Call) -> str:
    """The root of the repository that the command runs in; its folder where no `.git` is above it."""
    at = cwd = call.command.cwd
    while UNKNOWN not in at and at.startswith("/"):
        if call.world.fs.kind(posixpath.join(at, ".git")):
            return at
        if at == "/":
            break
        at = posixpath.dirname(at)
    return cwd


def _discarded(call: Call, specs: Sequence[str], *, weight: Weight = "normal", why: str = "") -> Iterator[Effect]:
    """What git takes from the worktree, by its pathspecs: `:/x` is below the root, `:!x` is left out."""
    wanted = [spec for spec in specs if not spec.startswith((":!", ":^", ":(exclude"))]
    if not wanted:
        yield call.effect("discard", recursive=True, weight=weight, why=why)
    for spec in wanted:
        path = spec
        if spec.startswith(":/"):
            path = posixpath.join(_root(call), spec[2:])
        elif spec.startswith(":("):
            magic, _, rest = spec.partition(")")
            path = posixpath.join(_root(call) if "top" in magic else "", rest)
        yield from call.on_path("discard", path or ".", recursive=True, itself=True, weight=weight, why=why)


def _reset(call: Call) -> Iterator[Effect]:
    if call.has("--hard", "--ha", "--h", "--merge"):  # git accepts the beginning of an option
        yield from _discarded(call, ())
    elif call.has("--keep"):  # refuses where work would be lost
        yield from _discarded(call, (), weight="light")
    moved = [word for word in call.operands if word not in ("HEAD", "@") and not _is_file(call, word)]
    if len(call.operands) == 1 and moved and "--" not in call.command.args:
        yield call.effect("rewrite-history", weight="light")


def _checkout(call: Call) -> Iterator[Effect]:
    if call.has("-f", "--force"):
        yield from _discarded(call, ())
    elif not call.has("-b", "-B", "--orphan", "-p", "--patch", "--detach"):
        yield from _put_back(call, _checkout_specs(call))


def _put_back(call: Call, specs: Sequence[str]) -> Iterator[Effect]:
    """Files as the index or a commit has them; of a conflict, only the sides are exchanged."""
    if call.has("--pathspec-from-file"):
        yield from _discarded(call, (), why="the paths are in a file")
    elif specs:
        merging = call.has("-m", "--merge")
        yield from _discarded(call, specs, weight="light" if merging else "normal")


def _checkout_specs(call: Call) -> list[str]:
    """The paths of `git checkout`: those after `--`, after a commit, or a name that no branch has."""
    words, operands = call.command.args, call.operands
    if "--" in words:
        return list(words[words.index("--") + 1 :])
    if operands and _is_spec(call, operands[0]):
        return operands
    return operands[1:]


def _is_spec(call: Call, word: str) -> bool:
    if word in (".", "..") or word.startswith(("./", "../", ":/", ":(", ":!")) or has_pattern(word):
        return True
    return _is_file(call, word) and not _is_ref(call, word)


def _is_file(call: Call, word: str) -> bool:
    return UNKNOWN not in word and any(call.world.fs.kind(path) for path in call.paths(word))


def _is_ref(call: Call, name: str) -> bool:
    """Whether git knows a branch, a tag or a commit of that name."""
    fs, store = call.world.fs, posixpath.join(_root(call), ".git")
    if fs.kind(store) == "file":  # a linked worktree: `gitdir: /main/.git/worktrees/x`
        link = (fs.read(store) or "").removeprefix("gitdir:").strip()
        store = posixpath.join(_root(call), link).partition("/worktrees/")[0]
    if any(fs.kind(f"{store}/{place}{name}") == "file" for place in ("refs/heads/", "refs/tags/", "refs/", "")):
        return True
    packed = (fs.read(f"{store}/packed-refs") or "").splitlines()
    return any(line.endswith((f" refs/heads/{name}", f" refs/tags/{name}")) for line in packed)


def _restore(call: Call) -> Iterator[Effect]:
    index_only = call.has("-S", "--staged") and not call.has("-W", "--worktree")
    if not index_only and not call.has("-p", "--patch"):
        yield from _put_back(call, call.operands)


def _clean(call: Call, *, forced: bool = False) -> Iterator[Effect]:
    if call.has("-n", "--dry-run") or not (forced or call.has("-f", "--force", "-i", "--interactive")):
        return
    why = IGNORED if call.has("-X") else UNTRACKED_AND_IGNORED if call.has("-x") else UNTRACKED
    yield from _discarded(call, call.operands, why=why)


def _submodule(call: Call) -> Iterator[Effect]:
    if call.operands[:1] in (["deinit"], ["update"]) and call.has("-f", "--force"):
        yield from _discarded(call, call.operands[1:])


def _clone(call: Call) -> Iterator[Effect]:
    source, target = (*call.operands[:2], "", "")[:2]
    if source:
        yield from call.on_path("write", target or posixpath.basename(source.rstrip("/")).removesuffix(".git"))


def _update_ref(call: Call) -> Iterator[Effect]:
    if call.has("--stdin") and "delete " in (call.command.stdin or "delete "):
        yield call.effect("drop-recovery", certain=call.command.stdin is not None)


def _patch(call: Call) -> Iterator[Effect]:
    if not call.has("--check", "--stat", "--numstat", "--summary", "--abort", "--cached") or call.has("--apply"):
        folder = (call.options.values("--directory") or ["."])[-1]
        strips = [value for value in call.options.values("-p") if value.isdecimal()]
        yield from patch_effects(call, call.operands, folder, int(strips[-1][:3]) if strips else 1)
        yield from undone_work(call)


def _push(call: Call) -> Iterator[Effect]:
    options = call.options
    if options.has("-n", "--dry-run"):
        return
    if any(name == "--mirror" for name, _ in options.options):
        yield call.effect("force-push", scope="remote", weight="heavy")
        return
    if options.has("--prune"):
        yield call.effect("force-push", scope="remote", why="branches that don't exist here are deleted there")
    refs = call.operands[1:]
    if not refs and options.has("-f", "--force") and options.has("--all", "--branches"):
        yield call.effect("force-push", scope="remote", weight="heavy")
        return
    for ref in refs or [""]:
        yield _pushed(call, options, ref)


def _pushed(call: Call, options: Options, ref: str) -> Effect:
    """The effect of one refspec: `+main`, `:branch`, `HEAD:main`; "" is the current branch."""
    source, colon, goal = ref.removeprefix("+").partition(":")
    branch = (goal if colon else source).removeprefix("refs/heads/")
    if branch in ("HEAD", "@"):
        branch = ""
    forced = ref.startswith("+") or any(name in ("-f", "--force") for name, _ in options.options)
    deleted = (bool(colon) and not source and bool(goal)) or (bool(ref) and options.has("-d", "--delete"))
    leased = any(name.startswith("--force-w") for name, _ in options.options)
    if not (forced or deleted or leased):
        return call.effect("push", branch, scope="remote", weight="light")
    weight: Weight = "normal" if forced or deleted else "light"
    if branch in _PROTECTED or branch.startswith("release") or "*" in branch:
        weight = "heavy"
    return call.effect("force-push", branch, scope="remote", weight=weight, certain=UNKNOWN not in branch)


def _shows_file(call: Call) -> Iterator[Effect]:
    """`git show HEAD:.env`, `git diff -- .env`: the content of a secret file that git keeps."""
    if call.has("--stat", "--name-only", "--name-status", "--numstat", "--shortstat", "--summary", "-q", "--quiet"):
        return
    named = [word.rpartition(":")[2] for word in (*call.operands, *call.command.args) if not word.startswith("-")]
    secret = next((name for name in named if is_secret_file(name)), "")
    if secret and call.command.shown:
        yield call.effect("read-secret", secret)


def _log(call: Call) -> Iterator[Effect]:
    if call.has("-p", "-u", "--patch"):
        yield from _shows_file(call)


_READING: Final = "-l --list --get --get-all --get-regexp --get-urlmatch --unset --unset-all -e --edit --get-color"
_CONFIG_VERBS: Final = frozenset({"set", "get", "list", "unset", "edit", "rename-section", "remove-section"})
_RUN_BY_GIT: Final = """
core.hookspath core.fsmonitor core.gitproxy core.askpass init.templatedir diff.external gpg.program include.path
uploadpack.packobjectshook protocol.ext.allow
"""
_RUN_ENDINGS: Final = (".clean", ".smudge", ".process", ".textconv", ".driver", ".uploadpack", ".receivepack")
_PROGRAMS: Final = ("alias.", "core.editor", "core.pager", "core.sshcommand", "credential.", "pager.", "sequence.")


def _config(call: Call) -> Iterator[Effect]:
    """`git config`: settings that make git run a program from now on."""
    words = call.operands[1:] if call.operands[:1] and call.operands[0] in _CONFIG_VERBS else call.operands
    verb = call.operands[0] if words is not call.operands else "set"
    if call.has(*_READING.split()) or verb != "set" or len(words) < 2 or not _runs(words[0].lower(), words[1]):
        return
    if files := call.options.values("-f", "--file"):
        yield from call.on_path("persist", files[0])
    elif call.has("--system"):
        yield call.effect("persist", words[0], scope="system")
    elif call.has("--global"):
        yield call.effect("persist", words[0], scope="home")
    else:
        yield call.effect("persist", words[0], weight="light")


def _runs(name: str, value: str) -> bool:
    """Whether git will run the value of the setting; plain names of editors, pagers and helpers are harmless."""
    if value in ("", "true", "false", "/dev/null"):
        return False
    if name.startswith(_PROGRAMS):
        return value.startswith(("!", "/")) or not frozenset(";|&$`<>").isdisjoint(value)
    return name in _RUN_BY_GIT.split() or (name.endswith(_RUN_ENDINGS) and not value.startswith("git-lfs "))


_READERS: Final[Mapping[str, tuple[str, Reader]]] = {
    "reset": ("--pathspec-from-file", _reset),
    "checkout": ("-b -B --orphan --conflict", _checkout),
    "restore": ("-s --source --conflict", _restore),
    "clean": ("-e --exclude", _clean),
    "submodule": ("--reference --depth -j --jobs", _submodule),
    "clone": (_CLONES, _clone),
    "update-ref": ("-m", _update_ref),
    "apply": ("-p -C --directory --exclude --include", _patch),
    "am": ("-p -C --directory --exclude --include", _patch),
    "push": ("-o --push-option --receive-pack --exec --repo", _push),
    "send-pack": ("--receive-pack --exec", _push),
    **dict.fromkeys(("show", "diff", "blame", "cat-file", "annotate"), ("", _shows_file)),
    "grep": ("-e -f -A -B -C --max-depth -O", _shows_file),
    "log": ("-n --max-count --author --grep --since --until", _log),
    "config": ("-f --file --type --default --blob --comment", _config),
}
READERS: Final[Mapping[str, Reader]] = {"git": _git}
