"""`approvals:` in hooks.yaml: how questions reach people, and how long they wait. Only the user's own files have it."""

from collections.abc import Iterable, Iterator
from typing import Final

from billhook.approvals import KINDS, ApprovalSettings, Channel
from billhook.config.builtin_hooks import OptionError
from billhook.config.nodes import FieldNodes, Node
from billhook.config.read_hook import seconds_in
from billhook.config.sources import FileRead
from billhook.core.text import Finding, suggestion

_KEYS: Final = ("channels", "time", "link")
_OF_A_CHANNEL: Final = (*KINDS, "secret", "who")
_LONGEST: Final = 3600.0


def approvals_of(reads: Iterable[FileRead]) -> tuple[ApprovalSettings | None, list[Finding]]:
    """The settings of the most trusted file that has some; None without one. And the findings."""
    found: list[ApprovalSettings] = []
    findings: list[Finding] = []
    for read in reads:
        node, path = read.approvals, read.source.path
        if node is None:
            continue
        if read.source.tightens:
            message = f"a {read.source.layer} file can't set `approvals`"
            findings.append(Finding("BH215", message, path, node.line, node.column, "set it in your own hooks.yaml"))
            continue
        try:
            found.append(_settings(node))
        except OptionError as wrong:
            findings.append(Finding(wrong.code, str(wrong), path, wrong.node.line, wrong.node.column, wrong.hint))
            found.append(ApprovalSettings(channels=()))  # questions still wait: a mistake must not answer them
    return (found[0] if found else None), findings


def _settings(node: Node) -> ApprovalSettings:
    if node.value is False:
        return ApprovalSettings(channels=(), seconds=0.0)
    if node.value in (True, None):
        return ApprovalSettings()
    if not isinstance(node.value, FieldNodes):
        raise OptionError(f"`approvals` must be a mapping, not {node.kind}", "write `approvals: true`", node)
    given = dict(_known(node.value, _KEYS, "`approvals` has no key"))
    channels = tuple(map(_channel, _many(given["channels"]))) if "channels" in given else ApprovalSettings().channels
    seconds = seconds_in(given["time"]) if "time" in given else ApprovalSettings().seconds
    if not 0 < seconds <= _LONGEST:
        raise OptionError(
            f"`time` can't be `{given['time'].value}`", "for example `time: 5m`; at most 1h", given["time"]
        )
    return ApprovalSettings(channels, seconds, _address(given["link"]) if "link" in given else "")


def _known(fields: FieldNodes, known: Iterable[str], message: str) -> Iterator[tuple[str, Node]]:
    for key, value in fields:
        name = str(key.value)
        if name not in known:
            raise OptionError(f"{message} `{name}`", suggestion(name, known), key, "BH202")
        yield name, value


def _many(node: Node) -> tuple[Node, ...]:
    return node.value if isinstance(node.value, tuple) else (node,)


def _channel(node: Node) -> Channel:
    """`desktop`, `{slack: $ADDRESS}`, `{webhook: https://..., secret: $SECRET, who: Ann}`."""
    if node.value == "desktop":
        return Channel("desktop")
    if not isinstance(node.value, FieldNodes):
        raise OptionError("a channel must be `desktop`, or a mapping", "such as `slack: $SLACK_WEBHOOK`", node)
    given = dict(_known(node.value, _OF_A_CHANNEL, "a channel has no key"))
    kinds = [key for key in given if key in KINDS and key != "desktop"]
    if len(kinds) != 1:
        raise OptionError("a channel has one of webhook, ntfy and slack", "such as `slack: $SLACK_WEBHOOK`", node)
    secret, who = (_text(given[key], key) if key in given else "" for key in ("secret", "who"))
    if kinds == ["webhook"] and not secret:
        raise OptionError("a webhook needs a `secret`, which signs its requests", "such as `secret: $NAME`", node)
    return Channel(kinds[0], _address(given[kinds[0]]), secret, who)


def _text(node: Node, name: str) -> str:
    if not isinstance(node.value, str) or not node.value.strip():
        raise OptionError(f"`{name}` must be a string, not {node.kind}", "write a string", node)
    return node.value


def _address(node: Node) -> str:
    """An address, or one with variables, which is checked when it is used."""
    from billhook.runners.webhook import address_problem

    url = _text(node, "address")
    if "$" not in url and (problem := address_problem(url)):
        raise OptionError(f"the address can't be used: {problem}", "such as https://example.com/path", node)
    return url
