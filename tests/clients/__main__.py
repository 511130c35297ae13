"""`scripts/clients`: billhook in the real agents, offline."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from billhook.agents.base import CAPABILITIES
from clients import golden, installing, table, waiting
from clients.agents import AGENTS, find, version
from clients.case import Case
from clients.cases import BY_NAME
from clients.proving import KnownValue, prove
from clients.running import namespace


def main() -> int:
    """0: all as promised; 1: a promise was not kept; 2: nothing could be run."""
    asked = _arguments()
    hosts = asked.client or list(table.TITLES)
    if asked.install:
        for agent in {AGENTS[host].name: AGENTS[host] for host in hosts}.values():
            _say(*installing.install(agent, newest=asked.newest))
    if namespace() is None:
        _say("error: agents are run with loopback alone, and `unshare -n` is not allowed here")
        _say("\nhint: run it as root, or allow user namespaces")
        return 2
    _say(f"load average: {os.getloadavg()[0]:.1f}")
    if asked.record:
        for host in asked.client or golden.EVENTS:
            _say(*golden.record(host))
        return 0
    if asked.wait:
        _say(*waiting.measure(asked.calls))
        return 0
    return _prove(hosts, asked.case)


def _arguments() -> argparse.Namespace:
    about = "Runs the real coding agents offline, with billhook installed, and writes what was seen to docs/hosts.md."
    parser = argparse.ArgumentParser(prog="scripts/clients", description=about)
    parser.add_argument(
        "client", nargs="*", metavar="CLIENT", help=f"{', '.join(table.TITLES)}; all when none is named"
    )
    parser.add_argument("--install", action="store_true", help="get them from npm and PyPI into the cache folder first")
    parser.add_argument(
        "--newest", action="store_true", help="with --install: the newest, not the versions of the table"
    )
    parser.add_argument("--case", action="append", help="only this case (the table is left alone); may be repeated")
    parser.add_argument(
        "--record", action="store_true", help="record their payloads into tests/dialects/golden instead"
    )
    parser.add_argument("--wait", action="store_true", help="measure what a person waits for one tool call instead")
    parser.add_argument("--calls", type=int, default=100, help="how many tool calls --wait measures for each way")
    asked = parser.parse_args()
    for name, known in ((asked.client, table.TITLES), (asked.case or [], BY_NAME)):
        if unknown := [one for one in name if one not in known]:
            parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return asked


def _prove(hosts: Sequence[str], names: Sequence[str] | None) -> int:
    results: list[KnownValue] = []
    versions: dict[str, str] = {}
    missing = 0
    for host in hosts:
        agent = AGENTS[host]
        binary = find(agent)
        if binary is None:
            _say(f"{agent.title}: not here (scripts/clients --install gets it)")
            continue
        versions[host] = version(agent, binary)
        _say(f"{agent.title} {versions[host]}")
        cases = [BY_NAME[name] for name in names or BY_NAME if name not in agent.without]
        cases = [case for case in cases if case.needs in CAPABILITIES[agent.speaks]]
        proved = list(_proved(host, binary, cases))
        missing += len(cases) - len(proved)
        results += proved
        if not names:  # column by column, so that an interrupted run keeps its results
            table.write(proved, versions)
    if not results:
        return 2
    wrong = missing + sum(map(table.failed, results))
    _say(f"{len(results) + missing} cases, {wrong} different from the capability table")
    return 1 if wrong else 0


def _proved(host: str, binary: Path, cases: Sequence[Case]) -> Iterator[KnownValue]:
    for case in cases:
        try:
            seen = prove(host, case, binary)
        except RuntimeError as error:  # such as a failed installation: the other cases still run
            _say(f"  WRONG {case.name:18} {error}")
            continue
        kept = "WRONG" if table.failed(seen) else "ok   "
        _say(f"  {kept} {case.name:18} {table.cell(seen)}  {seen.ran.seconds:.0f} s")
        yield seen


def _say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)  # noqa: T201 - the words of a script


if __name__ == "__main__":
    sys.exit(main())
