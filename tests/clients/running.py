"""One run of a real agent, offline: its model follows a script, and the only network is loopback.

`run` starts this file in a separate network namespace, and returns the result as one record.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from clients.agents import AGENTS, Place, with_own_node
from clients.script import Script
from clients.scripted_model import Request, serving


class Run(msgspec.Struct, frozen=True):
    """What to run: `environ` and `words` are added to the agent's usual variables and arguments.

    `files` (relative to the root) are written, and the commands `before` run, after the agent's settings were written;
    the commands `after` always run at the end.
    """

    agent: str
    binary: str
    root: str
    script: Script
    prompt: str = "please do it"
    environ: Mapping[str, str] = {}
    words: Sequence[str] = ()
    files: Mapping[str, str] = {}
    before: Sequence[Sequence[str]] = ()
    after: Sequence[Sequence[str]] = ()
    seconds: float = 120


class CanaryRun(msgspec.Struct, frozen=True):
    """The result. `asked`: all requests to the model, in order; `exit`: None if the agent had to be killed."""

    exit: int | None
    seconds: float
    stdout: str
    stderr: str
    asked: list[Request]
    unknown: list[str]

    def model_saw(self, words: str, *, after: int = 1) -> bool:
        """Whether a later request to the model contains these words."""
        shown = [request for request in self.asked if request.main][after:]
        return any(words in _shown(request.body) for request in shown)

    @property
    def turns(self) -> int:
        """How often the model was called to continue."""
        return sum(1 for request in self.asked if request.main)


def _shown(body: dict[str, Any]) -> str:
    """All text of a request. Agents that put JSON inside JSON escape it twice."""
    return msgspec.json.encode(body).decode().replace('\\\\"', '"').replace('\\"', '"')


TESTS: Final = Path(__file__).resolve().parent.parent


@cache
def namespace() -> Sequence[str] | None:
    """The prefix that runs a command with loopback only, and ends all that it started; None if that is not allowed."""
    for flags in ("-n", "-rn"):
        words = ["unshare", flags, "--pid", "--fork", "--kill-child", "--mount-proc"]
        if (
            shutil.which(words[0])
            and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
        ):
            return words
    return None


def run(what: Run) -> CanaryRun:
    """Runs it in a network namespace if possible, else with proxies that lead nowhere."""
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    words = [sys.executable, "-m", "clients.running"]
    if (apart := namespace()) is not None:
        words = [*apart, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *words]
    done = subprocess.run(words, input=msgspec.json.encode(what), capture_output=True, env=environ, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    return msgspec.json.decode(done.stdout, type=CanaryRun)


def _run_here(what: Run) -> CanaryRun:
    place = Place(Path(what.root))
    place.project.mkdir(parents=True, exist_ok=True)
    place.home.mkdir(parents=True, exist_ok=True)
    with serving(what.script) as model:
        start = AGENTS[what.agent].prepare(place, model.url, what.prompt)
        environ = {**plain_environment(place), **start.environ, **what.environ}
        if AGENTS[what.agent].node:  # otherwise programs beside it would hide those of the case
            environ["PATH"] = with_own_node(what.binary, environ["PATH"])
        _set_up(what, place, environ)
        begun = time.monotonic()
        try:
            exited, stdout, stderr = _until_end([what.binary, *start.words, *what.words], place, environ, what.seconds)
        finally:
            took = time.monotonic() - begun
            for words in what.after:
                subprocess.run(words, cwd=place.project, env=environ, capture_output=True, check=False)
    return CanaryRun(exited, took, stdout, stderr, model.asked, model.unknown)


def _set_up(what: Run, place: Place, environ: Mapping[str, str]) -> None:
    for name, text in what.files.items():
        path = place.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for words in what.before:
        done = subprocess.run(words, cwd=place.project, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")


def plain_environment(place: Place) -> dict[str, str]:
    """The environment of every run: only PATH is taken from the user who runs the suite."""
    environ = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    programs = os.path.join(sys.prefix, "bin")  # the folder of this suite's `billhook-hook`
    environ["PATH"] = os.pathsep.join([programs, environ.get("PATH", os.defpath)])
    environ |= {"HOME": str(place.home), "NO_COLOR": "1", "CI": "1"}
    if namespace() is None:
        nowhere = "http://127.0.0.1:9"
        environ |= {"HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1,localhost"}
    return environ


def _until_end(
    words: Sequence[str], place: Place, environ: Mapping[str, str], seconds: float
) -> tuple[int | None, str, str]:
    """Its exit code and output; None if it was killed at its timeout, with all its processes."""
    process = subprocess.Popen(
        words,
        cwd=place.project,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=seconds)
        return process.returncode, stdout, stderr
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        return None, stdout, stderr


def main() -> None:
    """Reads a run, and prints its result."""
    what = msgspec.json.decode(sys.stdin.buffer.read(), type=Run)
    sys.stdout.buffer.write(msgspec.json.encode(_run_here(what)))


if __name__ == "__main__":
    main()
