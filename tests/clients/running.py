"""One run of a real agent, offline: its model follows our script, and only the loopback device is there.

`run` starts this file in a network namespace of its own; what it did comes back as one record.
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

from clients.agents import AGENTS, Place
from clients.script import Script
from clients.scripted_model import Request, serving


class Run(msgspec.Struct, frozen=True):
    """What to run: `environ` and `words` are added to what the agent needs anyway.

    `files` (relative to the root) are written and the commands `before` run when the agent's own settings are there;
    the commands `after` run when it has ended, whatever came of it.
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


class Ran(msgspec.Struct, frozen=True):
    """What came of it. `asked` is all that the model was shown, in order; `exit` is None when it had to be ended."""

    exit: int | None
    seconds: float
    stdout: str
    stderr: str
    asked: list[Request]
    unknown: list[str]

    def model_saw(self, words: str, *, after: int = 1) -> bool:
        """Whether the model was shown these words, in a request of the conversation after the first ones."""
        shown = [request for request in self.asked if request.main][after:]
        return any(words in _shown(request.body) for request in shown)

    @property
    def turns(self) -> int:
        """How often the model was asked to go on."""
        return sum(1 for request in self.asked if request.main)


def _shown(body: dict[str, Any]) -> str:
    """All text of a request. Agents that wrap JSON in JSON escape it twice."""
    return msgspec.json.encode(body).decode().replace('\\\\"', '"').replace('\\"', '"')


TESTS: Final = Path(__file__).resolve().parent.parent


@cache
def namespace() -> Sequence[str] | None:
    """The words that start a command with no network but loopback; None where the system does not allow it."""
    for words in (["unshare", "-n"], ["unshare", "-rn"]):
        if (
            shutil.which(words[0])
            and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
        ):
            return words
    return None


def run(what: Run) -> Ran:
    """Runs it, in a namespace of its own where there may be one, else with all proxies leading nowhere."""
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    words = [sys.executable, "-m", "clients.running"]
    if (apart := namespace()) is not None:
        words = [*apart, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *words]
    done = subprocess.run(words, input=msgspec.json.encode(what), capture_output=True, env=environ, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    return msgspec.json.decode(done.stdout, type=Ran)


def _run_here(what: Run) -> Ran:
    place = Place(Path(what.root))
    place.project.mkdir(parents=True, exist_ok=True)
    place.home.mkdir(parents=True, exist_ok=True)
    with serving(what.script) as model:
        start = AGENTS[what.agent].prepare(place, model.url, what.prompt)
        environ = {**plain_environment(place), **start.environ, **what.environ}
        _set_up(what, place, environ)
        begun = time.monotonic()
        try:
            exited, stdout, stderr = _until_end([what.binary, *start.words, *what.words], place, environ, what.seconds)
        finally:
            took = time.monotonic() - begun
            for words in what.after:
                subprocess.run(words, cwd=place.project, env=environ, capture_output=True, check=False)
    return Ran(exited, took, stdout, stderr, model.asked, model.unknown)


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
    """What every run starts with: nothing of whoever runs the suite but where programs are."""
    environ = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    programs = os.path.join(sys.prefix, "bin")  # where the `billhook-hook` of this suite is
    environ["PATH"] = os.pathsep.join([programs, environ.get("PATH", os.defpath)])
    environ |= {"HOME": str(place.home), "NO_COLOR": "1", "CI": "1"}
    if namespace() is None:
        nowhere = "http://127.0.0.1:9"
        environ |= {"HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1,localhost"}
    return environ


def _until_end(
    words: Sequence[str], place: Place, environ: Mapping[str, str], seconds: float
) -> tuple[int | None, str, str]:
    """Its exit code and what it printed; None when it was ended after its time, with all it had started."""
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
    """Reads a run, prints what came of it."""
    what = msgspec.json.decode(sys.stdin.buffer.read(), type=Run)
    sys.stdout.buffer.write(msgspec.json.encode(_run_here(what)))


if __name__ == "__main__":
    main()
