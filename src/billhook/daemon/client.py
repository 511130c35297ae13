"""billhook-hook where nothing can be compiled: client.c in Python, with the same arguments, wire and failure answers.

Run as `python -I -S client.py ARGUMENTS`. It starts at every tool call: nothing is imported but what is built in C.
Blocking calls all the way: the deadline is a timer, and its signal ends whatever we are waiting in, like any other.
"""

import errno
import posix
import sys
from _functools import partial  # type: ignore[import-not-found]
from _signal import (  # type: ignore[import-not-found]
    ITIMER_REAL,
    SIG_DFL,
    SIG_IGN,
    SIGALRM,
    SIGCHLD,
    SIGHUP,
    SIGINT,
    SIGIO,
    SIGKILL,
    SIGPIPE,
    SIGPROF,
    SIGQUIT,
    SIGTERM,
    SIGUSR1,
    SIGUSR2,
    SIGVTALRM,
    SIGXCPU,
    SIGXFSZ,
    setitimer,
    signal,
)
from _socket import AF_UNIX, SHUT_RDWR, SOCK_STREAM, SOL_SOCKET, socket
from time import monotonic, sleep

SIGNALS = (SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGPROF, SIGVTALRM, SIGIO)
"""Every signal that would end us without an answer, but our own timer's and those of our own faults."""
VERSION = "0.1.0"
MOST_BYTES = 64 << 20
MOST_ARGUMENTS = 64
MOST_VARIABLES = 8192
MOST_ANSWER = (16 << 20) + 9
LONGEST_EVENT = 100
LONGEST_ADDRESS = 107 if sys.platform == "linux" else 103
LONGEST_PATH = 4096
GRACE = 0.5  # seconds for `billhook hook` to answer by itself when a signal came
EARLY = 0.05  # seconds before the deadline, when it is asked to; a tenth of the time, if that is less
BURIAL = 2.0  # seconds for it to end its hooks after we have answered
EXIT = 0.1  # seconds between the end of its stdout and its own; later than that, a hook of it answers later
SILENCE = 0.5  # seconds after which a whole document on stdin counts as all that comes
START = 5.0  # seconds for the daemon to begin; half of the deadline, if that is less
ANSWER = 600.0  # seconds for the daemon to answer once it began, when there is no deadline

TOOL, PROMPT, PERMISSION, COMPACT, SUBAGENT, UNREFUSED = (
    frozenset(names.split())
    for names in (
        b"pretooluse beforetool beforeshellexecution beforemcpexecution beforereadfile beforetabfileread",
        b"userpromptsubmit beforeagent userpromptsubmitted beforesubmitprompt",
        b"permissionrequest",
        b"precompact precompress",
        b"subagentstart",
        b"stop subagentstop teammateidle posttooluse posttoolusefailure permissiondenied notification messagedisplay "
        b"sessionstart sessionend setup stopfailure postcompact postmodelswitch instructionsloaded cwdchanged "
        b"filechanged directoryadded worktreeremove aftertool afteragent aftermodel beforetoolselection agentstop "
        b"erroroccurred userprompttransformed aftershellexecution aftermcpexecution afterfileedit aftertabfileedit "
        b"afteragentresponse afteragentthought workspaceopen todocreated todocompleted sessiondelete",
    )
)
"""Events of each kind in the spelling of every agent, without case, `_` and `-`. The last are those whose refusal has
no effect, or would keep an agent going that wants to stop."""

# In a form `@` is the reason, and `'` the quote.
BLOCK = "{'decision':'block','reason':'@'}\n"
DENY = "'permissionDecision':'deny','permissionDecisionReason':'@'"
FOR_TOOL = "'hookSpecificOutput':{'hookEventName':'PreToolUse'," + DENY + "}"
DENIED = "'behavior':'deny','message':'@'"
FOR_PERMISSION = "'hookSpecificOutput':{'hookEventName':'PermissionRequest','decision':{" + DENIED + "}}"
CURSOR = "'permission':'deny','user_message':'@','agent_message':'@'"

WORDINGS: "tuple[tuple[bytes | None, frozenset[bytes] | None, int, str | None], ...]" = (
    (b"cursor", SUBAGENT, 0, "{" + CURSOR + "}\n"),
    (None, SUBAGENT | UNREFUSED, 0, None),
    (b"claude", TOOL, 2, "{" + FOR_TOOL + "}\n"),  # the code is for Claude Code, the form for who reads its settings
    (b"claude", PROMPT, 0, BLOCK),  # Copilot, which reads them too, would not hear the code here
    (b"claude", PERMISSION, 0, "{" + FOR_PERMISSION + "}\n"),
    (b"claude", None, 2, ""),
    (b"claw", None, 2, "@"),
    (b"claw-text", None, 2, "@"),
    (b"lesson", TOOL, 1, ""),
    (b"lesson", None, 1, BLOCK),  # where the code alone is a warning
    (b"codex", COMPACT, 0, None),
    (b"codex", PERMISSION, 0, "{" + FOR_PERMISSION + "}\n"),
    (b"codex", None, 2, ""),
    (b"gemini", COMPACT, 0, None),
    (b"gemini", None, 2, ""),
    (b"qwen", COMPACT, 0, None),
    (b"qwen", PERMISSION, 0, "{" + FOR_PERMISSION + "}\n"),
    (b"qwen", None, 2, ""),
    (b"copilot", COMPACT, 0, None),
    (b"copilot", TOOL, 0, "{" + DENY + "," + FOR_TOOL + "}\n"),  # one for each spelling of its events
    (b"copilot", PROMPT, 0, BLOCK),
    (b"copilot", PERMISSION, 0, "{" + DENIED + "," + FOR_PERMISSION + "}\n"),
    (b"copilot", None, 2, "{" + DENY + "}\n"),
    (b"cursor", COMPACT, 0, None),
    (b"cursor", PROMPT, 0, "{'continue':false,'user_message':'@'}\n"),
    (b"cursor", TOOL, 0, "{" + CURSOR + "}\n"),
    (b"cursor", None, 2, "{" + CURSOR + "}\n"),
    # universal, and who is not known
    (None, PROMPT, 0, "{'decision':'block','reason':'@','continue':false,'stopReason':'@'}\n"),
    (None, PERMISSION, 0, "{" + FOR_PERMISSION + "}\n"),
    (None, None, 2, "{'decision':'block','reason':'@'," + DENY + "," + CURSOR + "," + FOR_TOOL + "}\n"),
)
"""The failure answer: dialect, events, exit code and form; the first row that fits counts. Without a form the event
passes. The reason is on stderr as well; the code is that of an answer whose form was written."""


FOR_EVER = 1e12


class FailureError(Exception):
    """The end of a call that got no answer: why. Without quotes and backslashes: it is put into JSON as it is."""


class Ended(BaseException):
    """A signal came; 14 is our own timer."""


class Call:
    """One call, from the command line to the exit code."""

    def __init__(self, arguments: "list[bytes]", environment: "list[bytes]") -> None:
        self.arguments = arguments
        self.environment = environment
        self.dialect = b"claude"
        self.event = b""
        self.lets_pass = False
        self.deadline_ms = 0
        self.parts: list[bytes] = []  # what was read of stdin
        self.more_stdin = False
        self.stdout_begun = False
        self.said: list[bytes] = []  # what `billhook hook` has said on stdout, and nobody has seen yet
        self.errors_seen = 0  # how much was passed on of what it said on stderr
        self.read_arguments()
        self.until = monotonic() + self.deadline_ms / 1000 if self.deadline_ms else FOR_EVER

    def read_arguments(self) -> None:
        """Take what we need ourselves. What is wrong with the rest is for billhook to say."""
        words = list(self.arguments)
        while words:
            option, equals, value = words.pop(0).partition(b"=")
            if option[:1] != b"-":
                self.event = self.event or option + equals + value
            elif option in (b"--as", b"--on-failure", b"--deadline", b"--config", b"--from"):
                value = value if equals else words.pop(0) if words else b""
                if option == b"--as":
                    self.dialect = value
                elif option == b"--on-failure":
                    self.lets_pass = value == b"allow"
                elif option == b"--deadline":
                    # isdigit of bytes knows ASCII only
                    self.deadline_ms = min(int(value.lstrip(b"0")[:12] or b"0"), 2**31 - 1) if value.isdigit() else 0

    # -- the usual way

    def answer(self) -> int:
        """The exit code; stdout and stderr are written. May become `billhook hook`."""
        if b"--help" in self.arguments or b"-h" in self.arguments:
            self.go_cold(with_daemon=False, keep_stdin=False)
        fits = self.read_stdin()
        head = self.head()
        folder = self.folder()
        stdin = b"".join(self.parts)
        size = len(head) + len(stdin) + 12
        many = len(self.arguments) > MOST_ARGUMENTS or len(self.environment) > MOST_VARIABLES
        if not fits or not folder or many or size > MOST_BYTES:
            return self.go_cold(with_daemon=False)
        begin_by = monotonic() + min(START, (self.until - monotonic()) / 2)
        line = self.call_daemon(folder, begin_by)
        if line is None:
            return self.go_cold(with_daemon=True)
        try:
            line.settimeout(max(begin_by - monotonic(), 0.001))
            for part in (b"bh\0\1" + number(size - 8) + head + number(len(stdin)), stdin):
                line.sendall(part)
        except OSError:
            pass  # what the daemon says, or its silence, tells
        found = self.take_answer(line, begin_by)
        line.close()
        if found is False:
            found = is_gone(folder)
        return self.go_cold(with_daemon=found) if isinstance(found, bool) else self.give(found)

    def read_stdin(self) -> bool:
        """False: more than the daemon takes; the rest can still be read."""
        size = 0
        part = b""
        while size < MOST_BYTES:
            part = self.next_part(part)
            if not part:
                return True
            self.parts.append(part)
            size += len(part)
        self.more_stdin = True
        return False

    def next_part(self, last: bytes) -> bytes:
        """What comes next on stdin; nothing at its end, and when an agent that leaves the pipe open has said all: a
        whole document, and then nothing for a while."""
        left = self.until - monotonic()
        if last[-64:].rstrip().endswith(b"}") and left > SILENCE:
            try:
                setitimer(ITIMER_REAL, SILENCE)
                return some_of(0)
            except Ended as ended:
                if ended.args[0] != SIGALRM:
                    raise
                if is_whole(b"".join(self.parts)):
                    return b""
            finally:
                left = self.until - monotonic()
                setitimer(ITIMER_REAL, max(left, 0.001) if self.deadline_ms else 0)
        return some_of(0)

    def head(self) -> bytes:
        """Everything between the request's length and stdin."""
        try:
            cwd = posix.getcwdb()
        except OSError:
            cwd = b""
        texts = [text(VERSION.encode()), number(len(self.arguments)), *map(text, self.arguments), text(cwd)]
        return b"".join([*texts, number(len(self.environment)), *map(text, self.environment)])

    def variable(self, name: bytes) -> bytes:
        start = name + b"="
        return next((entry[len(start) :] for entry in self.environment if entry.startswith(start)), b"")

    def folder(self) -> bytes:
        """The path of the daemon's folder; nothing when nobody can tell."""
        chosen, home = self.variable(b"BILLHOOK_HOME") or b"~/.claude", self.variable(b"HOME")
        if chosen[:1] == b"~":
            if not home or chosen[1:2] not in (b"", b"/"):
                return b""
            chosen = home + chosen[1:]
        path = chosen + b"/billhook/daemon"
        return path if len(path) < LONGEST_PATH else b""

    def call_daemon(self, folder: bytes, begin_by: float) -> "socket | None":
        """A connection to our own daemon. Only a folder that nobody else can put anything into is looked at."""
        try:
            status = posix.lstat(folder)
        except (OSError, ValueError):
            return None
        if status.st_mode & 0o170077 != 0o040000 or status.st_uid != posix.geteuid():
            return None
        line = out_of_the_way(socket(AF_UNIX, SOCK_STREAM))
        line.setblocking(False)
        while True:
            try:
                connect_in(line, folder)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EINTR) or monotonic() >= begin_by:
                    return None
            sleep(0.005)  # it has no room for us yet
        return line if peer_of(line) == posix.geteuid() else None

    def take_answer(self, line: socket, until: float) -> "bytes | bool":
        """The body of the answer. When the daemon has not started: whether one is to be started."""
        started = False
        data = b""
        while True:
            data = read_to(line, data, 1, until)
            kind = data[:1]
            if kind == b"N" and not started:
                data = read_to(line, data, 5, until)
                return not (len(data) >= 5 and int.from_bytes(data[1:5], "big") <= MOST_ANSWER)
            if kind != b"A" and (kind != b"S" or started):
                break
            started = True  # from this byte on: hooks may have run
            until = self.until if self.deadline_ms else monotonic() + ANSWER
            data = read_to(line, data, 5, until)
            size = int.from_bytes(data[1:5], "big")
            if len(data) < 5 or size > (MOST_ANSWER if kind == b"A" else 0):
                break
            if kind == b"A":
                body = read_to(line, data, 5 + size, until)[5 : 5 + size]
                if len(body) == size and is_answer(body):
                    return body
                break
            data = data[5:]
        if started and monotonic() >= until:
            raise Ended(SIGALRM)
        if started:
            raise FailureError("the daemon broke off after it had started; hooks may have run")
        return monotonic() < until

    def give(self, body: bytes) -> int:
        out = int.from_bytes(body[1:5], "big")
        view = memoryview(body)
        if not self.put(1, view[5 : 5 + out]):
            raise FailureError("the answer could not be written to stdout")
        self.put(2, view[9 + out :])
        return body[0]

    def put(self, fd: int, data: memoryview) -> bool:
        while data:
            try:
                self.stdout_begun |= fd == 1
                data = data[posix.write(fd, data[: 1 << 16]) :]
            except BlockingIOError:
                sleep(0.001)
            except OSError:
                return False
        return True

    # -- the cold path

    def go_cold(self, *, with_daemon: bool, keep_stdin: bool = True) -> int:
        if with_daemon and not self.variable(b"BILLHOOK_NO_DAEMON"):
            self.start_daemon()
        if keep_stdin:
            self.give_back_stdin()
        else:
            self.become_billhook([b"hook", *self.arguments])
        return self.run_hook()

    def become_billhook(self, words: "list[bytes]") -> None:
        """The one beside us, else the one on PATH. Comes back when there is none."""
        setitimer(ITIMER_REAL, 0)
        for number_ in SIGNALS:
            if _listened.get(number_):
                signal(number_, SIG_DFL)
        signal(SIGPIPE, SIG_DFL)
        signal(SIGXFSZ, SIG_DFL)
        environment = dict(entry.split(b"=", 1) for entry in self.environment if b"=" in entry[1:])
        folders = [beside(), *(self.variable(b"PATH") or b"/usr/local/bin:/usr/bin:/bin").split(b":")]
        for folder in folders:
            program = (folder or b".") + b"/billhook"
            try:
                posix.execve(program, [program, *words], environment)
            except OSError:
                continue

    def start_daemon(self) -> None:
        """A grandchild in a session of its own, with nothing of the caller's open: it lives on, nobody waits for it."""
        child = posix.fork()
        if child:
            posix.waitpid(child, 0)
            return
        try:
            if not posix.fork():
                posix.setsid()
                null = posix.open("/dev/null", posix.O_RDWR)
                for fd in range(3):
                    posix.dup2(null, fd)
                posix.closerange(3, 65536)
                self.become_billhook([b"daemon", b"start", b"--quiet"])
        finally:
            posix._exit(0)

    def give_back_stdin(self) -> None:
        """What we have read of stdin becomes stdin again, with the rest of it."""
        try:
            fd = scratch()
            for part in (*self.parts, *iter(lambda: some_of(0) if self.more_stdin else b"", b"")):
                view = memoryview(part)
                while view:
                    view = view[posix.write(fd, view) :]
            posix.lseek(fd, 0, 0)
            posix.dup2(fd, 0)
            posix.set_inheritable(0, True)
            posix.close(fd)
        except OSError:
            raise FailureError("stdin can not be kept for billhook hook") from None

    def run_hook(self) -> int:
        """Run it as long as there is time, and a little before it is over ask it to end. The code that it ends with by
        itself is the answer, also then: it knows its hooks. A code that `billhook hook` has no use for is a fault: some
        agents would let the call pass. What it says goes through our hands: there is one answer, its own or ours."""
        code, late = 255, None
        pid, out, err = self.start_hook()
        try:
            if self.deadline_ms:
                left = self.until - monotonic()
                setitimer(ITIMER_REAL, max(left - min(EARLY, left / 10), 0.001))
            code = self.hear_to_the_end(pid, out, err)
        except Ended as ended:
            late = ended
            code = self.hear_last_words(pid, out, ended.args[0])
        if code in (0, 2) or (code == 1 and self.dialect == b"lesson"):
            self.pass_on(err)
            return code
        if late is not None:
            raise late
        self.pass_on_errors(err)
        raise FailureError("billhook hook can not be started" if code == 127 else "billhook hook broke off")

    def start_hook(self) -> "tuple[int, int, int]":
        """Its number, and where it speaks: the end of a pipe for stdout, and a file for stderr."""
        us = posix.getpid()
        try:
            out, into = (high(fd) for fd in posix.pipe())
            err = scratch()
            pid = posix.fork()
        except OSError:
            raise FailureError("no process can be started for billhook hook") from None
        if not pid:
            self.be_hook(us, into, err)
        posix.close(into)
        return pid, out, err

    def be_hook(self, us: int, out: int, err: int) -> None:
        """It learns who we are and until when we wait: its own clock would start after Python has."""
        try:
            posix.setpgid(0, 0)
            posix.dup2(out, 1)
            posix.dup2(err, 2)
            until = int(self.until * 1000) if self.deadline_ms else 0
            self.environment.append(b"BILLHOOK_CLIENT=%d %d" % (us, until))
            self.become_billhook([b"hook", *self.arguments])
        finally:
            posix._exit(127)

    def hear_to_the_end(self, pid: int, out: int, err: int) -> int:
        """The code that it ended with. When it only hung up, because a hook answers later, the agent gets its answer
        and may go on."""
        self.hear(out)
        soon = monotonic() + EXIT
        while monotonic() < soon:
            found, status = posix.waitpid(pid, posix.WNOHANG)
            if found:
                return posix.waitstatus_to_exitcode(status)
            sleep(0.001)
        self.pass_on(err)
        posix.close(1)
        return posix.waitstatus_to_exitcode(posix.waitpid(pid, 0)[1])

    def hear(self, out: int) -> None:
        """All of it, in C: a signal can't come between reading and keeping."""
        self.said.extend(iter(partial(posix.read, out, 1 << 16), b""))

    def hear_last_words(self, pid: int, out: int, number_: int) -> int:
        """Ask it to end; the code that it ends with by itself while there is time, else 255."""
        left = max(self.until - monotonic(), 0.001)
        try:
            setitimer(ITIMER_REAL, left if number_ == SIGALRM else min(left, GRACE))
            posix.kill(-pid, number_ if number_ in (SIGINT, SIGHUP) else SIGTERM)
            self.hear(out)
            return posix.waitstatus_to_exitcode(posix.waitpid(pid, 0)[1])
        except (OSError, Ended):
            setitimer(ITIMER_REAL, 0)
            leave_a_witness(pid)
            return 255

    def pass_on(self, err: int) -> None:
        if not self.put(1, memoryview(b"".join(self.said))):
            raise FailureError("the answer could not be written to stdout")
        self.said.clear()
        self.pass_on_errors(err)

    def pass_on_errors(self, err: int) -> None:
        while part := posix.pread(err, 1 << 16, self.errors_seen):
            self.errors_seen += len(part)
            self.put(2, memoryview(part))

    # -- the failure answer

    def fail(self, why: str) -> int:
        name = event_in_json(b"".join(self.parts)) or self.event or self.variable(b"HOOK_EVENT")
        event = name[:LONGEST_EVENT].replace(b"_", b"").replace(b"-", b"").lower()
        code, form = wording(self.spoken(), event)
        passes = self.lets_pass or form is None
        passing = "billhook: the event passes without having been judged\n" if passes else ""
        say(2, f"billhook: {why}\n{passing}")
        if form is None or self.lets_pass:
            return 0
        words = form.replace("'", '"').replace("@", f"billhook: {why}")
        return code if words and not self.stdout_begun and say(1, words) else code or 2

    def spoken(self) -> bytes:
        """The dialect of who calls: Copilot reads Claude Code's settings, and does not say what that says each time."""
        copilots = self.variable(b"COPILOT_PROJECT_DIR") or self.variable(b"COPILOT_CLI")
        if self.dialect != b"claude" or not copilots or b'"permission_mode"' in b"".join(self.parts):
            return self.dialect
        return b"copilot"


def is_gone(folder: bytes) -> bool:
    """A daemon that leaves has removed its socket before it says so."""
    try:
        posix.lstat(folder + b"/s")
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False


def wording(dialect: bytes, event: bytes) -> "tuple[int, str | None]":
    """The exit code and the form of a refusal."""
    for name, events, code, form in WORDINGS:
        if name in (dialect, None) and (events is None or event in events):
            return code, form
    return 2, ""


# -- reading and writing -------------------------------------------------------------------------------------------


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def some_of(fd: int) -> bytes:
    """The next bytes; none at the end, and where there is nothing to read."""
    while True:
        try:
            return posix.read(fd, 1 << 20)
        except BlockingIOError:
            sleep(0.001)
        except OSError:
            return b""


def read_to(line: socket, data: bytes, size: int, until: float) -> bytes:
    """The data with as much behind it as is needed for `size` bytes, or as there is, or comes until then. Who hangs up
    has still what was sent before; and a daemon that can't say that it began does not begin."""
    parts = [data]
    have = len(data)
    while have < size:
        try:
            line.settimeout(max(min(until - monotonic(), 1e6), 0.001))
            part = line.recv(1 << 18)
        except TimeoutError:
            hang_up(line)
            continue
        except OSError:
            part = b""
        if not part:
            break
        parts.append(part)
        have += len(part)
    return b"".join(parts)


def hang_up(line: socket) -> None:
    try:
        line.shutdown(SHUT_RDWR)
    except OSError:  # it was first
        pass


def is_answer(body: bytes) -> bool:
    out = int.from_bytes(body[1:5], "big")
    return len(body) >= 9 + out and len(body) == 9 + out + int.from_bytes(body[5 + out : 9 + out], "big")


def say(fd: int, words: str) -> bool:
    """Short words for somebody who may not be listening: they are not waited for."""
    setitimer(ITIMER_REAL, 0.1)
    try:
        return posix.write(fd, words.encode()) == len(words)
    except (OSError, Ended):
        return False
    finally:
        setitimer(ITIMER_REAL, 0)


def is_whole(data: bytes) -> bool:
    """Whether all that was opened in a text is closed again."""
    depth = at = 0
    while at < len(data):
        quote = data.find(b'"', at)
        plain = data[at : quote if quote >= 0 else len(data)]
        depth += plain.count(b"{") + plain.count(b"[") - plain.count(b"}") - plain.count(b"]")
        if quote < 0:
            break
        at = end_of_string(data, quote) + 1
        if at > len(data):
            return False
    return depth == 0


def event_in_json(data: bytes) -> bytes:
    """The value of the first "hook_event_name" at the top level: a tool's input may hold the same words deeper."""
    depth = at = 0
    size = len(data)
    while at < size:
        sign = data[at]
        if sign in b"{[":
            depth += 1
        elif sign in b"}]":
            depth -= 1
            if depth <= 0:
                return b""
        elif sign == 0x22:
            end_ = end_of_string(data, at)
            is_name = depth == 1 and data[at:end_] == b'"hook_event_name'
            at = end_
            rest = data[at + 1 : at + 300].lstrip(b" \t\r\n") if is_name else b""
            if rest[:1] == b":":
                value = rest[1:].lstrip(b" \t\r\n")
                close = end_of_string(value, 0)
                return value[1:close] if value[:1] == b'"' and 1 < close < len(value) else b""
        at += 1
    return b""


def end_of_string(data: bytes, at: int) -> int:
    """The closing quote of the string whose opening quote is at `at`, or the end of the data."""
    at += 1
    while True:
        quote, escape = data.find(b'"', at), data.find(b"\\", at)
        if quote < 0:
            return len(data)
        if not 0 <= escape < quote:
            return quote
        at = escape + 2


# -- the system ----------------------------------------------------------------------------------------------------


def connect_in(line: socket, folder: bytes) -> None:
    """Connect, also where the path is longer than an address may be: from inside the folder."""
    if len(folder) + 2 <= LONGEST_ADDRESS:
        line.connect(folder + b"/s")
        return
    back = posix.open(".", getattr(posix, "O_PATH", posix.O_RDONLY) | posix.O_CLOEXEC)
    try:
        posix.chdir(folder)
        try:
            line.connect(b"s")
        finally:
            go_back(back)
    finally:
        posix.close(back)


def go_back(folder: int) -> None:
    try:
        posix.fchdir(folder)
    except OSError:
        raise FailureError("there is no way back into the working directory") from None


def peer_of(line: socket) -> int:
    """The uid at the other end; -1 when nobody can tell."""
    try:
        if sys.platform == "linux":  # SO_PEERCRED: pid, uid, gid
            return int.from_bytes(line.getsockopt(SOL_SOCKET, 17, 12)[4:8], sys.byteorder)
        return int.from_bytes(line.getsockopt(0, 1, 76)[4:8], sys.byteorder)  # LOCAL_PEERCRED: version, uid
    except OSError:
        return -1


def out_of_the_way(line: socket) -> socket:
    """Descriptors 0 to 2 may be closed, and nothing of ours must be taken for them."""
    kept = []
    while line.fileno() <= 2:
        kept.append(line)
        line = socket(AF_UNIX, SOCK_STREAM)
    for low in kept:
        low.close()
    return line


def high(fd: int) -> int:
    """The same, where it is not taken for one of the standard streams, which may be closed."""
    kept = []
    while fd <= 2:
        kept.append(fd)
        fd = posix.dup(fd)
    for low in kept:
        posix.close(low)
    return fd


def scratch() -> int:
    """A file without a name."""
    return high(posix.memfd_create("billhook-hook") if hasattr(posix, "memfd_create") else temporary())


def temporary() -> int:
    path = f"/tmp/billhook-hook-{posix.getpid()}-{monotonic()}"
    fd = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600)
    posix.unlink(path)
    return fd


def beside() -> bytes:
    """The folder that the program is really in."""
    path = sys.argv[0].encode(sys.getfilesystemencoding(), "surrogateescape")
    for _ in range(40):
        try:
            target = posix.readlink(path)
        except OSError:
            break
        path = target if target.startswith(b"/") else path.rpartition(b"/")[0] + b"/" + target
    return path.rpartition(b"/")[0] or b"."


def leave_a_witness(pid: int) -> None:
    """It ends its hooks, which takes a moment after our answer; somebody has to see to it."""
    if posix.fork():
        return
    try:
        hush()
        posix.setsid()
        posix.closerange(0, 65536)
        until = monotonic() + BURIAL
        while monotonic() < until:
            posix.kill(-pid, 0)
            sleep(0.02)
        posix.kill(-pid, SIGKILL)
    finally:
        posix._exit(0)


_listened: "dict[int, bool]" = {}


def listen() -> None:
    def ended(number_: int, frame: object) -> None:
        raise Ended(number_)

    signal(SIGCHLD, SIG_DFL)  # or nobody could tell how a child ended
    signal(SIGXFSZ, SIG_IGN)  # `ulimit -f`: the write fails, and we answer
    for number_ in (*SIGNALS, SIGALRM):
        before = signal(number_, ended)
        _listened[number_] = before is not SIG_IGN or number_ == SIGALRM
        if not _listened[number_]:
            signal(number_, SIG_IGN)


def hush() -> None:
    """From here on nothing comes in any more."""
    for number_ in SIGNALS:
        try:
            setitimer(ITIMER_REAL, 0)
            signal(number_, SIG_IGN)
        except Ended:  # one that was on its way
            signal(number_, SIG_IGN)


def callers_environment() -> "list[bytes]":
    """As it came: Python adds to its own copy when the locale is C."""
    try:
        fd = posix.open("/proc/self/environ", posix.O_RDONLY)
        data = b"".join(iter(lambda: some_of(fd), b""))
        posix.close(fd)
        return data.split(b"\0")[:-1]
    except OSError:
        return [name + b"=" + value for name, value in posix.environ.items()]


def main() -> int:
    try:
        return answered()
    except BaseException:  # before anything was known of the call
        return 2


def answered() -> int:
    words = [word.encode(sys.getfilesystemencoding(), "surrogateescape") for word in sys.argv[1:]]
    call = Call(words, callers_environment())
    try:
        listen()
        setitimer(ITIMER_REAL, call.deadline_ms / 1000)
        return call.answer()
    except Ended as ended:
        why = f"ended by signal {ended.args[0]} before there was a verdict"
        if ended.args[0] == SIGALRM:
            why = f"no answer within {call.deadline_ms or int(ANSWER * 1000)} ms"
    except FailureError as failure:
        why = failure.args[0]
    except BaseException as error:
        why = f"a fault of the client's own: {type(error).__name__}"
    try:
        hush()
        return call.fail(why)
    except BaseException:  # no memory is left, for example: the code refuses
        return 0 if call.lets_pass else 2


if __name__ == "__main__":
    posix._exit(main())
