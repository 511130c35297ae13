"""Answers that come too late or change nothing: BH501 to BH503, and BH510 as far as events decide it.

(BH510 for keys that have no effect wherever they stand is found when the file is read.)
"""

from collections.abc import Iterator

from billhook.agents import AGENTS
from billhook.config.declared import Declared, Say
from billhook.config.findings import Finding
from billhook.config.lint.found import edit, finding, kinds, listed
from billhook.config.sources import agent_of
from billhook.events import Block


def lint_timing(hook: Declared) -> Iterator[Finding]:
    """What is wrong with `timeout`, `background`, `gate` and plain answers."""
    yield from _milliseconds(hook)
    yield from _too_late(hook)
    yield from _nothing_to_block(hook)
    yield from _nothing_to_refuse(hook)


def _milliseconds(hook: Declared) -> Iterator[Finding]:
    seconds = hook.timeout
    if seconds is None:
        return
    agent = agent_of(hook.file)
    units = AGENTS[agent].unit_per_second if agent in AGENTS else 1
    if units > 1:
        written = seconds * units
        if written < _SHORTEST:
            message = f"`timeout` is in milliseconds here: the hook is ended after {written:g} ms"
            yield finding(hook, "BH501", "timeout", message, edit(hook, "timeout", round(written * 1000)))
    # 1500 and 30000 look like milliseconds; 1800, 3600 and 7200 are whole minutes that may be meant
    elif seconds >= 1000 and (seconds % 500 == 0 or (seconds > 10_000 and seconds % 3600 != 0)):
        spoken = f"{seconds / 3600:.1f} hours" if seconds >= 7200 else f"{seconds / 60:.0f} minutes"
        message = f"`timeout` is in seconds: {seconds:g} is {spoken}"
        mended = int(seconds / 1000) if seconds % 1000 == 0 else seconds / 1000
        yield finding(hook, "BH501", "timeout", message, edit(hook, "timeout", mended))


_SHORTEST = 200  # milliseconds in which a command can hardly start; people who write less mean seconds


def _too_late(hook: Declared) -> Iterator[Finding]:
    if not hook.background:
        return
    field = "background" if "background" in hook.places else "rewake"
    spelt = {"rewake": "asyncRewake: true" if hook.shape == "yaml" else '"asyncRewake": true'}
    waiting = [kind.__name__ for kind in kinds(hook) if kind.gates] if hook.events else ["PreToolUse"]
    if hook.gate:
        effect = (
            f"{listed(waiting)} waits for its answer, so it counts as failed" if waiting else "it can't block anything"
        )
        hint = f"remove `{spelt.get(field, edit(hook, 'background', True))}`, or let it fail open"
        yield finding(hook, "BH502", field, f"a gate in the background answers too late: {effect}", hint)
    if "rewake" in hook.places and hook.shape == "yaml":
        message = "`asyncRewake` can't wake an agent through billhook: the answer waits for the session's next event"
        hint = "write `background: true`, or keep the hook in the agent's own settings"
        yield finding(hook, "BH510", "rewake", message, hint)


def _nothing_to_block(hook: Declared) -> Iterator[Finding]:
    events = kinds(hook)
    if not hook.gate or not events or len(events) < len(hook.events) or hook.background:
        return
    if "on_failure" not in hook.places:  # a plain `deny` is strict without saying so
        return
    if any(kind.can_block and kind.block is not Block.KEEP_GOING for kind in events):
        return
    spelt = _strictness(hook)
    names = listed(list(hook.events))
    if any(kind.block is Block.KEEP_GOING for kind in events):
        message = f"`{spelt}` has no effect on {names}: a failure never keeps an agent going"
        yield finding(hook, "BH510", "on_failure", message, f"remove `{spelt}`")
    elif not _says_no(hook):
        message = f"nothing can be blocked on {names}: `{spelt}` only marks the result as an error"
        yield finding(hook, "BH503", "on_failure", message, f"remove `{spelt}`, or use an event that can be blocked")


def _nothing_to_refuse(hook: Declared) -> Iterator[Finding]:
    events = kinds(hook)
    if not _says_no(hook) or not events or len(events) < len(hook.events) or any(kind.can_block for kind in events):
        return
    effects = {_EFFECTS[kind.block] for kind in events}
    effect = effects.pop() if len(effects) == 1 else "at most its text is shown"
    message = f"nothing can be blocked on {listed(list(hook.events))}: {effect}"
    told = any(kind.block is Block.MODEL or kind.__name__ == "SessionStart" for kind in events)
    hint = "use an event that can be blocked, as PreToolUse" + (", or `inject` to tell the model" if told else "")
    yield finding(hook, "BH503", "action", message, hint)


def _says_no(hook: Declared) -> bool:
    return isinstance(hook.action, Say) and hook.action.decision in ("deny", "ask")


_EFFECTS = {
    Block.MODEL: "the text only goes to the model",
    Block.USER: "the text is only shown to the user",
    Block.IGNORED: "nothing comes of it",
}


def _strictness(hook: Declared) -> str:
    if "gate" in hook.places:
        return edit(hook, "gate", True)
    word = "block" if hook.shape != "yaml" and hook.on_failure == "deny" else hook.on_failure
    return edit(hook, "on_failure", word)
