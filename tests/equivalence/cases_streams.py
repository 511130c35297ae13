"""Standard streams: encodings, buffering, order, reading in pieces, and what is flushed at the end."""

from equivalence.harness import ADDRESSES, Case

ATTRIBUTES = """
    import io, locale, os, sys
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        print(stream, stream.encoding, stream.errors, stream.newlines, stream.line_buffering, stream.write_through,
              stream.name, stream.mode, stream.fileno(), stream.isatty(), stream.closed, stream.readable())
        print(type(stream), type(stream.buffer), stream.buffer.name, getattr(stream.buffer, "raw", ""),
              getattr(stream.buffer, "mode", ""), os.get_inheritable(stream.fileno()))
    print(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)
    print(locale.getpreferredencoding(False), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())
    print(locale.setlocale(locale.LC_CTYPE), open(__file__).encoding, os.device_encoding(0), sys.flags.utf8_mode)
    print({name: value for name, value in os.environ.items() if name.startswith(("LC_", "LANG"))})
    try:
        print("é€ \\udcff", flush=True)
    except UnicodeEncodeError as error:
        print(ascii(str(error)))
    try:
        print(ascii(sys.stdin.read()))
    except UnicodeDecodeError as error:
        print(error)
    print(ascii(os.environ["ODD"]), os.environb[b"ODD"], ascii(sys.argv))
    print("é", file=sys.stderr)
    raise ValueError("é€ in an error")
"""
LOCALES: dict[str, dict[str, str]] = {
    "utf8": {},
    "c": {"LANG": "C"},
    "posix": {"LANG": "", "LC_ALL": "POSIX"},
    "unknown": {"LANG": "", "LC_ALL": "xx_YY.ISO-8859-1"},
    "ctype-only": {"LANG": "C", "LC_CTYPE": "C.UTF-8"},
    "no-coercion": {"LANG": "C", "PYTHONCOERCECLOCALE": "0"},
    "no-coercion-no-utf8": {"LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "coercion-warns": {"LANG": "C", "PYTHONCOERCECLOCALE": "warn"},
    "utf8-mode": {"LANG": "C", "PYTHONUTF8": "1"},
    "latin1": {"PYTHONIOENCODING": "latin-1"},
    "ascii-replace": {"PYTHONIOENCODING": "ascii:replace"},
    "errors-only": {"PYTHONIOENCODING": ":surrogateescape"},
    "utf16": {"PYTHONIOENCODING": "utf-16-le:backslashreplace"},
    "unbuffered": {"PYTHONUNBUFFERED": "1"},
}
ENCODINGS = [
    Case(
        name=f"encoding-{name}",
        script=ATTRIBUTES,
        stdin="é€ ".encode() + b"\xff\n",
        arguments=("é", "\udcff"),
        env={**settings, "ODD": "é\udcff"},
        refused=name == "coercion-warns",
        slow=name in ("ctype-only", "errors-only", "no-coercion", "utf16"),
    )
    for name, settings in LOCALES.items()
]
ORDER = """
    import os, sys
    os.dup2(1, 2)
    print("one")
    print("two", file=sys.stderr)
    sys.stdout.write("three ")
    os.write(1, b"four\\n")
    sys.stderr.write("five ")
    sys.stdout.flush()
    sys.stdout.buffer.write(b"six\\n")
    print("seven")
    raise RuntimeError("eight")
"""
CASES = [
    *ENCODINGS,
    Case(name="order", script=ORDER),
    Case(name="order-unbuffered", script=ORDER, env={"PYTHONUNBUFFERED": "yes"}),
    Case(name="order-flag-u", script=ORDER, flags=("-u",)),
    Case(
        name="order-at-exit",
        script="""
            import atexit, os, sys, threading
            os.dup2(1, 2)
            atexit.register(print, "atexit 1")
            atexit.register(lambda: sys.stderr.write("atexit 2\\n"))
            class Late:
                def __del__(self):
                    print("deleted", file=sys.stderr)
            late = Late()
            threading.Thread(target=lambda: print("thread")).start()
            print("main")
            sys.exit("reason")
        """,
    ),
    Case(name="no-newline", script="import sys; print('out', end=''); sys.stderr.write('err')"),
    Case(
        name="many-small-writes",
        script="""
            import sys
            for number in range(3000):
                print(number, end=" ")
                if number % 500 == 0:
                    print(number, file=sys.stderr)
        """,
    ),
    Case(
        name="large-output",
        script="""
            import sys
            sys.stdout.write("x" * 300_000 + "\\n")
            sys.stderr.write("y" * 60_000 + "\\n")
            sys.stdout.buffer.write(bytes(range(256)) * 100)
        """,
    ),
    Case(
        name="output-beyond-the-cap",
        script="import sys; sys.stdout.write('x' * 1_500_000); sys.stderr.write('y' * 100_000)",
    ),
    Case(
        name="global-file-never-closed",
        script="""
            log = open("log.txt", "w")
            log.write("flushed by the interpreter\\n" * 3)
            data = open("data.bin", "wb")
            data.write(b"\\x00\\x01")
            class Keeper:
                def __init__(self):
                    self.file = open("kept.txt", "w")
                    self.file.write("kept by an object")
            keeper = Keeper()
        """,
    ),
    Case(
        name="file-in-a-cycle",
        script="""
            class Node: pass
            node = Node()
            node.self = node
            node.file = open("cycle.txt", "w")
            node.file.write("in a cycle")
            del node
            print("end")
        """,
    ),
    Case(
        name="deleted-at-exit",
        script="""
            import sys
            class Noisy:
                def __init__(self, name):
                    self.name = name
                def __del__(self):
                    print("del", self.name, sys.is_finalizing() if sys else "no sys", __name__)
            first = Noisy("first")
            _second = Noisy("second")
            holder = [Noisy("in a list"), {"key": Noisy("in a dict")}]
            def function(default=Noisy("a default")): ...
            sys.kept = Noisy("in sys")
            print("end")
        """,
    ),
    Case(
        name="deletion-fails",
        script="""
            class Broken:
                def __del__(self):
                    raise ValueError("in a finaliser")
            Broken()
            print("between")
            late = Broken()
        """,
        normalise=ADDRESSES,
    ),
    Case(
        name="input",
        script="""
            name = input("name? ")
            print("hello", name)
            print(input())
            input("one more? ")
        """,
        stdin=b"Ada\nlast line",
    ),
    Case(
        name="input-and-read",
        script="""
            import sys
            print(repr(input()), repr(sys.stdin.readline()), repr(sys.stdin.read(3)), repr(sys.stdin.read()))
            print(repr(sys.stdin.read()), sys.stdin.closed)
        """,
        stdin=b"one\ntwo\r\nthree\rfour",
    ),
    Case(
        name="stdin-lines",
        script="""
            import sys
            for number, line in enumerate(sys.stdin):
                print(number, repr(line), len(line))
        """,
        stdin=b"a\r\nb\n\nc\rd\n\x0ce\x1cf\n" + b"long " * 5000,
    ),
    Case(
        name="stdin-in-pieces",
        script="""
            import hashlib, os, sys
            total, digest = 0, hashlib.sha256()
            while piece := os.read(0, 1000):
                total += len(piece)
                digest.update(piece)
            print(total, digest.hexdigest())
        """,
        stdin=bytes(range(256)) * 2000,
    ),
    Case(
        name="stdin-buffered-pieces",
        script="""
            import sys
            print(sys.stdin.buffer.read(5), sys.stdin.buffer.peek(3)[:3], sys.stdin.buffer.readline())
            rest = sys.stdin.buffer.read()
            print(len(rest), rest[-4:])
        """,
        stdin=b"12345678\nrest" + b"z" * 200_000 + b"end\n",
    ),
    Case(name="stdin-unread", script="print('not read')", stdin=b"x" * 300_000),
    Case(name="stdin-empty", script="import sys; print(repr(sys.stdin.read()), repr(sys.stdin.readline()))"),
    Case(
        name="stdin-as-file",
        script="""
            import sys
            with open(0, closefd=False) as file:
                print(file.readline())
            print(open("/dev/stdin").read())
            with open("/dev/stdout", "w") as out:
                out.write("through /dev/stdout\\n")
            print("last")
        """,
        stdin=b"one\ntwo\n",
    ),
    Case(
        name="stdin-json",
        script="import json, sys\nevent = json.load(sys.stdin)\nprint(event['tool'])",
        stdin=b'{"tool": "Bash", "input": {"command": "ls"}}',
    ),
    Case(
        name="stdin-bad-json",
        script="import json, sys\nevent = json.load(sys.stdin)\nprint(event['tool'])",
        stdin=b'{"tool": }',
    ),
    Case(
        name="stdin-fileinput",
        script="""
            import fileinput
            for line in fileinput.input():
                print(fileinput.filename(), fileinput.lineno(), line, end="")
        """,
        stdin=b"one\ntwo\n",
    ),
    Case(
        name="stdin-select",
        script="""
            import select, sys
            print(bool(select.select([sys.stdin], [], [], 5)[0]), sys.stdin.readline())
        """,
        stdin=b"ready\n",
    ),
    Case(
        name="closed-stdin",
        script="""
            import os, sys
            sys.stdin.close()
            print(sys.stdin.closed)
            number = os.open("/dev/null", os.O_RDONLY)
            print(number)
        """,
        stdin=b"ignored",
    ),
    Case(name="closed-stdout", script="import sys; print('first'); sys.stdout.close(); print('second')"),
    Case(name="closed-stdout-descriptor", script="import os; print('lost'); os.close(1)"),
    Case(name="closed-stderr-descriptor", script="import os; os.close(2); raise ValueError('not shown')"),
    Case(
        name="closed-descriptors",
        script="import os; os.closerange(0, 20); open('log', 'w').write('x'); print('to the file?')",
    ),
    Case(
        name="broken-pipe-at-exit",
        script="""
            import os
            read, write = os.pipe()
            os.close(read)
            os.dup2(write, 1)
            print("no reader")
        """,
    ),
    Case(
        name="broken-pipe",
        script="""
            import os, sys
            read, write = os.pipe()
            os.close(read)
            os.dup2(write, 1)
            print("x" * 100_000)
        """,
    ),
    Case(
        name="broken-pipe-default-action",
        script="""
            import os, signal
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            read, write = os.pipe()
            os.close(read)
            os.dup2(write, 1)
            print("x" * 100_000)
        """,
    ),
    Case(
        name="full-device",
        script="import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('does not fit')",
    ),
    Case(
        name="full-device-stderr",
        script="import os, sys; os.dup2(os.open('/dev/full', os.O_WRONLY), 2); sys.stderr.write('lost'); print('kept')",
    ),
    Case(
        name="reconfigured",
        script="""
            import sys
            sys.stdout.reconfigure(encoding="latin-1", errors="replace", newline="\\r\\n", line_buffering=True)
            print("é €")
            sys.stdin.reconfigure(encoding="latin-1")
            print(ascii(sys.stdin.read()))
        """,
        stdin="é".encode("latin-1"),
    ),
    Case(
        name="replaced-streams",
        script="""
            import io, sys
            sys.stdout = io.StringIO()
            print("captured")
            text = sys.stdout.getvalue()
            sys.stdout = sys.__stdout__
            print("got", text)
            sys.stderr = sys.stdout
            raise KeyError("on stdout")
        """,
    ),
    Case(name="no-stdout", script="import sys; sys.stdout = None; print('nowhere'); sys.stderr = None; 1 / 0"),
    Case(
        name="detached",
        script="""
            import io, sys
            raw = sys.stdout.detach()
            sys.stdout = io.TextIOWrapper(raw, "utf-8", write_through=True)
            print("wrapped again")
            sys.stdin = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig")
            print(ascii(sys.stdin.read()))
        """,
        stdin=b"\xef\xbb\xbfmarked",
    ),
    Case(
        name="redirected",
        script="""
            import contextlib, io, sys
            with contextlib.redirect_stdout(sys.stderr), contextlib.redirect_stderr(io.StringIO()) as hidden:
                print("to stderr")
                print("hidden", file=sys.stderr)
            print(repr(hidden.getvalue()))
        """,
    ),
    Case(
        name="lone-surrogate",
        script="print('before')\nprint('\\udc80')",
    ),
    Case(
        name="descriptor-flags",
        script="""
            import fcntl, os, stat
            for number in range(3):
                mode = os.fstat(number).st_mode
                print(number, oct(fcntl.fcntl(number, fcntl.F_GETFL)), fcntl.fcntl(number, fcntl.F_GETFD),
                      stat.S_ISFIFO(mode), os.get_blocking(number))
            print([name for name in sorted(os.listdir("/proc/self/fd"), key=int)])
            print(len({os.fstat(number).st_ino for number in range(3)}))
        """,
    ),
    Case(
        name="next-descriptors",
        script="import os; print(os.dup(0), os.pipe(), open(__file__).fileno())",
    ),
]
