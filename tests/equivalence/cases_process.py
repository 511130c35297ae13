"""The process around a script: environment, folder, signals, groups, threads, children, other programs."""

from equivalence.harness import ADDRESSES, FRAME, Case

MULTIPROCESSING = """
    import multiprocessing, os, sys
    CONFIGURED = "at import"
    class Task:
        def __init__(self, number):
            self.number = number
        def __call__(self):
            return self.number * self.number
    def work(task):
        return task(), CONFIGURED, __name__, os.path.basename(__file__), sys.argv
    def put(queue, text):
        print("in the child", text, flush=True)
        queue.put(text)
    if __name__ == "__main__":
        CONFIGURED = "in main"
        context = multiprocessing.get_context(sys.argv[1])
        os.chdir("/")
        with context.Pool(2) as pool:
            print(pool.map(work, [Task(number) for number in range(4)]))
        queue = context.SimpleQueue()
        child = context.Process(target=put, args=(queue, "text"), name="child")
        child.start()
        print(queue.get())
        child.join()
        print(child.exitcode, multiprocessing.current_process(), multiprocessing.parent_process())
        failed = context.Process(target=sys.exit, args=(3,))
        failed.start()
        failed.join()
        print(failed.exitcode, len(multiprocessing.active_children()))
"""
CASES = [
    Case(
        name="environment",
        script="""
            import os
            marker = os.environ.pop("BILLHOOK_CHILD")
            print(len(marker) > 10, list(os.environ.items()), os.environb[b"TOKEN"], os.getenv("MISSING"))
        """,
        env={
            "TOKEN": "s p a c e",
            "EMPTY": "",
            "LINES": "a\nb",
            "ODD": "\udcff\udcfe",
            "CLAUDE_PROJECT_DIR": "{folder}",
        },
    ),
    Case(
        name="environment-of-children",
        script="""
            import os, subprocess
            os.environ["ADDED"] = "yes"
            del os.environ["TOKEN"]
            os.environ.pop("BILLHOOK_CHILD")
            os.system("env | sort")
            print(subprocess.run(["env"], stdout=subprocess.PIPE, text=True).stdout)
            print(os.popen("echo $ADDED").read(), flush=True)
            os.execvp("env", ["env"])
        """,
        env={"TOKEN": "secret", "OTHER": "x"},
    ),
    Case(
        name="environment-of-the-c-library",
        script="""
            import ctypes
            library = ctypes.CDLL(None)
            library.getenv.restype = ctypes.c_char_p
            print(library.getenv(b"TOKEN"), library.getenv(b"LANG"), library.getenv(b"MISSING"))
        """,
        env={"TOKEN": "value"},
    ),
    Case(
        name="working-directory",
        script="""
            import os, pathlib
            print(os.getcwd(), pathlib.Path().absolute(), os.listdir(), os.environ.get("PWD"), os.path.abspath("x"))
            print(os.path.realpath("."), os.readlink("/proc/self/cwd"), __file__)
        """,
        cwd="deep/below",
        path="../../script.py",
    ),
    Case(
        name="working-directory-linked",
        script="import os; print(os.getcwd(), os.listdir()); open('new', 'w').close()",
        files={"real/here": ""},
        links={"link": "real"},
        cwd="link",
        path="../script.py",
    ),
    Case(
        name="umask",
        script="""
            import os
            open("made", "w").close()
            os.mkdir("folder")
            print(oct(os.umask(0)))
        """,
        umask=0o027,
    ),
    Case(name="umask-open", script="import os; open('made', 'w').close(); print(oct(os.umask(0)))", umask=0),
    Case(
        name="groups",
        script="""
            import os
            me, session = os.getpid(), os.getsid(0)
            print(os.getpgrp() == me, os.getpgid(0) == me, session == me)  # its number is of no use to a script
            print(os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups(), os.getresuid())
            print(os.nice(0), sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0))
            try:
                os.open("/dev/tty", os.O_RDWR)
            except OSError as error:
                print(error)
            for function in (os.setsid, os.setpgrp):
                try:
                    print(function())
                except PermissionError as error:
                    print(error)
        """,
    ),
    Case(
        name="status",
        script="""
            # What the kernel reports, except for sizes, counters and process numbers.
            kept = ("Name", "Umask", "State", "Uid", "Gid", "FDSize", "Groups", "Threads", "SigPnd", "ShdPnd", "SigBlk",
                    "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
                    "CoreDumping", "Cpus_allowed", "THP_enabled")
            for line in open("/proc/self/status"):
                if line.split(":")[0] in kept and not line.startswith("FDSize"):
                    print(line, end="")
            for name in ("comm", "oom_score_adj", "cgroup", "limits", "coredump_filter", "timerslack_ns"):
                try:
                    print(name, open(f"/proc/self/{name}").read())
                except OSError as error:
                    print(error)
            import os
            print(os.readlink("/proc/self/exe"), os.readlink("/proc/self/root"))
        """,
    ),
    Case(
        name="process-options",
        script="""
            import ctypes
            library = ctypes.CDLL(None)
            value = ctypes.c_int(-1)
            library.prctl(2, ctypes.byref(value))  # the signal at the parent's death
            print(value.value)
            library.prctl(37, ctypes.byref(value))  # whether it adopts orphans
            print(value.value, library.prctl(3), library.prctl(39), library.prctl(30))
        """,
    ),
    Case(
        name="limits",
        script="""
            import resource
            for name in sorted(name for name in dir(resource) if name.startswith("RLIMIT_")):
                print(name, resource.getrlimit(getattr(resource, name)))
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            print(used.ru_utime, used.ru_stime, used.ru_maxrss)
        """,
    ),
    Case(
        name="signals",
        script="""
            import signal
            for number in sorted(signal.valid_signals()):
                print(number, signal.getsignal(number))
            print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.sigpending(), signal.set_wakeup_fd(-1))
            print(signal.alarm(0), signal.getitimer(signal.ITIMER_REAL), signal.default_int_handler)
        """,
    ),
    Case(
        name="signal-handlers",
        script="""
            import os, signal, sys
            def handle(number, frame):
                print("got", signal.Signals(number).name, frame.f_code.co_name)
            for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGCHLD", "SIGINT"):
                signal.signal(getattr(signal, name), handle)
                os.kill(os.getpid(), getattr(signal, name))
            signal.signal(signal.SIGALRM, lambda *_: sys.exit(5))
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            signal.pause()
        """,
    ),
    Case(
        name="signal-blocked",
        script="""
            import os, signal
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            os.kill(os.getpid(), signal.SIGTERM)
            print(signal.sigpending(), signal.sigwait([signal.SIGTERM]))
        """,
    ),
    *[
        Case(
            name=f"killed-by-{name}",
            script=f"""
                import os, resource, signal, sys, time
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                print("buffered")
                print("flushed", file=sys.stderr)
                os.kill(os.getpid(), signal.SIG{name})
                time.sleep(30)
            """,
        )
        for name in ("TERM", "KILL", "INT", "HUP", "SEGV", "USR1", "PIPE", "XFSZ", "ABRT", "ALRM")
        if name not in ("PIPE", "XFSZ")  # Python ignores them: the script would sleep
    ],
    Case(
        name="signal-pipe-is-ignored",
        script="import signal; signal.raise_signal(signal.SIGPIPE); signal.raise_signal(signal.SIGXFSZ); print('on')",
    ),
    Case(
        name="killed-in-a-group",
        script="""
            import os, signal, subprocess, sys
            child = subprocess.Popen(["sleep", "30"])
            print("started", flush=True)
            os.killpg(0, signal.SIGTERM)
            child.wait()
        """,
    ),
    Case(
        name="abort",
        script="import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); print('lost'); os.abort()",
    ),
    Case(
        name="abort-with-fault-handler",
        script="""
            import faulthandler, os, resource
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            faulthandler.enable()
            def deep():
                os.abort()
            deep()
        """,
        unlike=FRAME,
        normalise={**ADDRESSES, r"(?s)\n\nExtension modules:.*": "\n"},
    ),
    Case(
        name="no-children",
        script="""
            import os
            try:
                print(os.waitpid(-1, os.WNOHANG))
            except ChildProcessError as error:
                print(error)
            print(open(f"/proc/self/task/{os.getpid()}/children").read())
        """,
    ),
    Case(
        name="fork",
        script="""
            import os, sys, atexit
            atexit.register(print, "atexit runs twice")
            print("buffered before the fork")
            child = os.fork()
            if not child:
                print("child")
                sys.exit(7)
            print("parent", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    ),
    Case(
        name="fork-error-in-child",
        script="""
            import os, sys
            child = os.fork()
            if not child:
                raise ValueError("in the child")
            print(os.waitpid(child, 0)[1])
        """,
    ),
    Case(
        name="fork-hooks",
        script="""
            import os
            os.register_at_fork(before=lambda: print("before"), after_in_parent=lambda: print("after"))
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
        """,
    ),
    Case(
        name="exec",
        script="""
            import os, sys
            print("lost in the buffer")
            print("flushed", flush=True)
            os.execv("/bin/sh", ["sh", "-c", "cat; echo $0 $TOKEN; ls /proc/self/fd | wc -l; exit 9"])
        """,
        stdin=b"left in the pipe",
        env={"TOKEN": "t"},
    ),
    Case(
        name="exec-itself",
        script="""
            import os, sys
            print(sys.argv, sys.orig_argv, flush=True)
            if len(sys.argv) < 3:
                os.execv(sys.executable, [*sys.orig_argv, "again"])
        """,
        arguments=("first",),
    ),
    Case(
        name="subprocesses",
        script="""
            import subprocess, sys
            print(subprocess.run(["cat"], input="through cat", capture_output=True, text=True))
            print(subprocess.check_output("echo shell; exit 0", shell=True))
            print(subprocess.run("exit 3", shell=True).returncode, subprocess.getoutput("echo got"))
            subprocess.run([sys.executable, "-c", "import sys; print(sys.stdin.read(), sys.flags)"], check=True)
            try:
                subprocess.run(["sleep", "30"], timeout=0.01)
            except subprocess.TimeoutExpired as error:
                print(error.cmd)
            try:
                subprocess.run(["/nonexistent/program"])
            except FileNotFoundError as error:
                print(error)
            subprocess.check_call(["false"])
        """,
        stdin=b"inherited",
    ),
    Case(
        name="subprocess-descriptors",
        script="""
            import subprocess
            keep = open(__file__)
            print(subprocess.run("ls /proc/self/fd", shell=True, capture_output=True, text=True).stdout)
            print(subprocess.run("ls /proc/self/fd", shell=True, stdout=-1, text=True, close_fds=False).stdout)
            print(subprocess.run("grep -E 'Sig(Blk|Ign)' /proc/self/status", shell=True, capture_output=True).stdout)
        """,
    ),
    Case(
        name="subprocess-left-running",
        script="""
            import subprocess
            child = subprocess.Popen(["sleep", "0.01"])
            print("not waited for")
        """,
        flags=("-W", "default"),
        normalise={r"subprocess \d+": "subprocess PID"},
        unlike="the warning at exit has a source line, because `linecache` is loaded",
    ),
    Case(
        name="threads",
        script="""
            import threading, time
            turns = [threading.Event() for _ in range(4)]
            def work(number):
                turns[number].wait()
                print(number, threading.current_thread().name, threading.current_thread().daemon)
                turns[number + 1].set()
            for number in range(3):
                threading.Thread(target=work, args=(number,)).start()
            threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
            print("main ends")
            turns[0].set()
        """,
    ),
    Case(
        name="thread-fails",
        script="""
            import sys, threading
            def fail():
                raise ValueError("in a thread")
            def leave():
                sys.exit(4)
            for target in (fail, leave):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()
            print("main ends")
        """,
    ),
    Case(
        name="thread-outlives-main",
        script="""
            import atexit, sys, threading, time
            atexit.register(print, "atexit")
            def work():
                threading.main_thread().join()
                print("after main", threading.main_thread().is_alive())
            threading.Thread(target=work).start()
            raise KeyError("main fails")
        """,
    ),
    Case(
        name="thread-local",
        script="""
            import threading
            from concurrent.futures import ThreadPoolExecutor
            local = threading.local()
            with ThreadPoolExecutor(2, thread_name_prefix="pool") as pool:
                print(sorted(pool.map(lambda n: n * n, range(5))), hasattr(local, "value"))
            pool = ThreadPoolExecutor(1)
            pool.submit(print, "not shut down")
            print(threading.Thread().name, threading.Timer(1, print).name)
        """,
    ),
    Case(
        name="timer",
        script="import threading; threading.Timer(0.5, print, ['late']).start(); print('soon')",
    ),
    Case(name="multiprocessing-fork", script=MULTIPROCESSING, arguments=("fork",)),
    Case(name="multiprocessing-spawn", script=MULTIPROCESSING, arguments=("spawn",)),
    Case(name="multiprocessing-forkserver", script=MULTIPROCESSING, arguments=("forkserver",)),
    Case(
        name="multiprocessing-spawn-elsewhere",
        slow=True,
        script=MULTIPROCESSING,
        arguments=("spawn",),
        cwd="deep/below",
        path="../../script.py",
    ),
    Case(
        name="multiprocessing-without-guard",
        slow=True,
        script="""
            import multiprocessing
            multiprocessing.set_start_method("spawn")
            def work(): ...
            multiprocessing.Process(target=work).start()
        """,
        normalise={r"\d{3,}": "N"},
    ),
    Case(
        name="multiprocessing-settings",
        script="""
            import multiprocessing, multiprocessing.process, os
            print(multiprocessing.get_start_method(), multiprocessing.get_all_start_methods())
            print(multiprocessing.process.ORIGINAL_DIR, multiprocessing.spawn.get_executable())
            print(multiprocessing.current_process().name, len(multiprocessing.current_process().authkey))
        """,
        cwd="elsewhere",
        path="../script.py",
    ),
    Case(
        name="process-pool",
        script="""
            from concurrent.futures import ProcessPoolExecutor
            def double(number):
                return number * 2
            def fail():
                raise LookupError("in a worker")
            if __name__ == "__main__":
                with ProcessPoolExecutor(1) as pool:
                    print(list(pool.map(double, range(3))))
                    print(repr(pool.submit(fail).exception()))
        """,
    ),
    Case(
        name="shared-memory",
        script="""
            from multiprocessing import shared_memory
            block = shared_memory.SharedMemory(create=True, size=10)
            block.buf[0] = 7
            print(block.buf[0])
            block.close()
            block.unlink()
        """,
    ),
    Case(
        name="asyncio",
        script="""
            import asyncio
            async def child():
                process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
                print((await process.communicate(b"through cat"))[0], process.returncode)
            async def main():
                print(await asyncio.gather(asyncio.sleep(0, "a"), asyncio.to_thread(str, 1)))
                await child()
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(30)
            print(asyncio.get_event_loop_policy().__class__.__name__)
            asyncio.run(main())
        """,
    ),
    Case(
        name="asyncio-signals",
        script="""
            import asyncio, os, signal
            async def main():
                loop = asyncio.get_running_loop()
                done = loop.create_future()
                loop.add_signal_handler(signal.SIGTERM, done.set_result, "terminated")
                os.kill(os.getpid(), signal.SIGTERM)
                print(await done)
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(30)
            asyncio.run(main())
        """,
    ),
    Case(
        name="asyncio-never-awaited",
        script="""
            import asyncio
            async def forgotten(): ...
            async def main():
                forgotten()
                asyncio.create_task(asyncio.sleep(30), name="left")
                raise RuntimeError("leaves a task")
            asyncio.run(main())
        """,
    ),
    Case(
        name="asyncio-debug",
        script="""
            import asyncio
            async def forgotten(): ...
            async def main():
                forgotten()
            asyncio.run(main(), debug=True)
        """,
        unlike=FRAME,
    ),
    Case(
        name="sockets",
        script="""
            import socket
            one, two = socket.socketpair()
            one.sendall(b"hello")
            print(two.recv(5), socket.getdefaulttimeout(), one.fileno(), two.fileno())
            server = socket.create_server(("127.0.0.1", 0))
            with socket.create_connection(server.getsockname()) as client:
                peer, _ = server.accept()
                peer.sendall(b"over TCP")
                print(client.recv(20))
        """,
    ),
    Case(
        name="temporary-files",
        script="""
            import os, tempfile
            print(tempfile.gettempdir(), tempfile.tempdir, tempfile.gettempprefix())
            with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
                print(os.path.dirname(file.name), oct(os.stat(file.name).st_mode))
            with tempfile.TemporaryDirectory() as folder:
                print(os.listdir(folder), oct(os.stat(folder).st_mode))
            kept = tempfile.TemporaryDirectory()
            number, name = tempfile.mkstemp()
            print(number, os.get_inheritable(number))
        """,
        env={"TMPDIR": "{folder}/temporary"},
        files={"temporary/here": ""},
        normalise={r"tmp\w{8}": "tmpNAME"},
    ),
    Case(
        name="time-zone",
        script="""
            import datetime, time
            print(time.tzname, time.timezone, time.localtime(1_700_000_000).tm_hour)
            print(datetime.datetime.fromtimestamp(1_700_000_000).astimezone())
        """,
        env={"TZ": "XYZ-5:30"},
    ),
    Case(
        name="time-zone-changed",
        script="""
            import os, time
            print(time.tzname)
            os.environ["TZ"] = "ABC+3"
            time.tzset()
            print(time.tzname, time.localtime(0).tm_hour)
        """,
    ),
    Case(
        name="home",
        script="import os, pathlib, site; print(os.path.expanduser('~'), pathlib.Path.home(), site.getuserbase())",
        env={"HOME": "{folder}"},
    ),
    Case(
        name="terminal",
        script="""
            import os, shutil, getpass
            print(shutil.get_terminal_size(), os.isatty(0), getpass.getuser())
            os.get_terminal_size()
        """,
        env={"COLUMNS": "77", "LINES": "11", "USER": "someone", "LOGNAME": "someone"},
    ),
    Case(
        name="locks",
        script="""
            import fcntl
            with open("lock", "w") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.write("locked")
        """,
    ),
    Case(
        name="database",
        script="""
            import sqlite3
            base = sqlite3.connect("log.db")
            base.execute("create table log (text)")
            base.execute("insert into log values ('one')")
            base.commit()
            print(base.execute("select * from log").fetchall())
            base.execute("insert into log values ('never committed')")
        """,
        normalise={r"(?s)SQLite format 3.*": "DATABASE"},
    ),
    Case(
        name="logging",
        script="""
            import logging, sys
            logging.warning("before any setting")
            log = logging.getLogger("hook")
            log.debug("hidden")
            handler = logging.FileHandler("hook.log")
            handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(filename)s:%(lineno)d %(funcName)s "
                                                   "%(processName)s %(threadName)s %(pathname)s %(message)s"))
            log.addHandler(handler)
            def check():
                log.error("failed: %s", "reason")
                try:
                    1 / 0
                except ZeroDivisionError:
                    log.exception("with a traceback")
            check()
        """,
    ),
    Case(
        name="logging-stack",
        script="""
            import logging
            logging.error("with the stack", stack_info=True)
            logging.error("bad format %d", "text")
        """,
        unlike=FRAME,
    ),
    Case(
        name="logging-at-exit",
        script="""
            import atexit
            atexit.register(print, "registered before logging was imported")
            import logging
            class Handler(logging.Handler):
                def emit(self, record):
                    print("emit", record.getMessage())
                def close(self):
                    print("closed")
                    super().close()
            logging.basicConfig(handlers=[Handler()])
            atexit.register(logging.error, "at exit")
        """,
        unlike="`logging` registers with `atexit` when it is imported, and that was before the script began",
    ),
    Case(
        name="logging-queue",
        script="""
            import logging, logging.handlers, queue
            messages = queue.Queue()
            listener = logging.handlers.QueueListener(messages, logging.StreamHandler())
            listener.start()
            logging.getLogger().addHandler(logging.handlers.QueueHandler(messages))
            logging.error("through a queue")
            listener.stop()
        """,
    ),
    Case(
        name="standard-modules",
        script="""
            # One use of each module that hooks import most.
            import base64, collections, csv, datetime, difflib, enum, fnmatch, functools, getpass, glob, gzip, hashlib
            import io, itertools, json, os, pathlib, platform, re, shlex, shutil, statistics, string, sys, textwrap
            import urllib.parse, urllib.request, uuid, xml.etree.ElementTree as tree, zipfile, configparser
            print(shlex.split("git commit -m 'a b'"), re.findall(r"rm\\s+-\\w*r", "rm -rf /"))
            print(fnmatch.fnmatch(".env", ".*"), hashlib.sha256(b"x").hexdigest())
            print(json.dumps({"b": 1, "a": [None, 1.5, "é"]}, indent=1, sort_keys=True))
            print(pathlib.Path(__file__).resolve().parent, glob.glob("*.py"), base64.b64encode(b"x"))
            print(urllib.parse.urlparse("https://u@h:1/p?q#f"), datetime.date(2026, 1, 2).isoformat())
            print("".join(difflib.unified_diff(["a\\n"], ["b\\n"])), textwrap.wrap("one two three", 7))
            print(platform.system(), platform.python_version(), tree.fromstring("<a b='1'/>").attrib)
            print(statistics.mean([1, 2]), collections.Counter("aab"), string.Template("$x").substitute(x=1))
        """,
    ),
]
