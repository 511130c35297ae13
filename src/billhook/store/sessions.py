"""Sessions and their names, such as `jolly-squid`: short, easy to pronounce, friendly in every combination."""

import time
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from billhook.core.errors import UsageError
from billhook.core.lazy import pattern
from billhook.core.strictjson import preview
from billhook.store.state import FileState, Value, listed

ADJECTIVES: Final = tuple(
    """
    able agile airy amber ample apt arctic artful autumn balmy bold brave breezy bright brisk bubbly busy calm candid
    careful cheery chipper civil clear clever coastal copper cosy crisp curious dapper daring deft dreamy eager early
    earnest easy fair fancy fearless fleet fluffy fond frank free fresh frosty gallant gentle gifted gilded glad golden
    grand hale handy happy hardy hearty helpful honest humble ideal ivory jaunty jolly jovial keen kind lively loyal
    lucid lucky lunar mellow merry mighty mild misty modest mossy neat nifty nimble noble olive patient peppy placid
    plucky polite proud quick quiet rapid rosy rustic sage sandy serene sharp silver sleek smart snowy solar spry
    steady sunny swift tidy tranquil trusty upbeat velvet vivid warm willing windy wise witty woolly zesty
    """.split()  # noqa: SIM905 - a list of a hundred strings is harder to read
)
ANIMALS: Final = tuple(
    """
    alpaca antelope badger bat bear beaver bee bison boar bobcat buffalo camel caribou cat cheetah chipmunk cobra
    condor corgi cougar coyote crab crane cricket crow deer dingo dolphin dormouse dove dragonfly duck eagle egret elk
    emu falcon ferret finch firefly flamingo fox frog gazelle gecko gibbon giraffe goat goose gopher hamster hare hawk
    hedgehog heron horse ibex ibis iguana jackdaw jaguar jay kestrel kingfisher kiwi koala lark lemur leopard lion
    lizard llama lobster lynx magpie manatee marmot marten meerkat mole moose moth mouse newt nightingale octopus orca
    oriole osprey otter owl ox panda panther parrot pelican penguin pheasant pigeon pika plover pony puffin puma quail
    rabbit raccoon raven reindeer robin salmon seal sheep shrew skylark sparrow squid squirrel starling stoat stork
    swallow swan tapir tern tiger toad toucan trout turtle vole walrus weasel whale wolf wombat wren yak zebra
    """.split()  # noqa: SIM905
)


# The names of sessions:

MOST_SESSIONS: Final = 500  # how many recent sessions of a project are remembered by name
_LONGEST: Final = 1 << 19  # characters of session ids in that list: ids may be of any length
VERBS: Final = frozenset({"list", "search", "show", "save", "files", "stats", "rename", "verify", "export"})
"""The sub-commands of `billhook events`, which also accepts a session's name in their place."""
_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_PREVIEWED: Final = 64  # characters of an invalid name that are shown in a message

NameSource = Literal["generated", "existing", "user"]


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A session's name, and since when it has it."""

    session_id: str
    name: str
    source: NameSource  # `generated`, `user` (chosen by the user), `existing` (kept from the session that was cleared)
    project: str
    at: str  # When it got this name. UTC, ISO 8601 with microseconds and `Z`.


class RecentSession(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    name: str
    at: str  # when it was last started


class Sessions:
    """The sessions in a state. Keeps nothing in memory. Every method raises StoreError if the state does."""

    def __init__(self, state: FileState) -> None:
        self.state = state

    def get(self, session_id: str) -> SessionRecord | None:
        """The session, if it has a name. Reads one small file."""
        return self.state.value("sessions", session_id, recorded)

    def named(self, session_id: str, project: str, *, recover: bool = False) -> tuple[SessionRecord, bool]:
        """The session, with a name, and whether the name is new. For the start of a session. A new name differs from
        the project's recent ones. With `recover` (after `/clear`, which continues under a new id) a session without a
        name takes over the name of the project's newest one. Afterwards it is the newest."""
        found, newest = self.get(session_id), self.recent(project)[:1]
        if found is not None and [(one.session_id, one.name) for one in newest] == [(session_id, found.name)]:
            return found, False

        def choose(recent: list[RecentSession]) -> tuple[SessionRecord, bool]:
            keeps = recover and recent != []
            name = recent[-1].name if keeps else _unused({one.name for one in recent})
            offered = _session(session_id, name, "existing" if keeps else "generated", project)
            session = self._settle(offered)
            return session, session == offered and not keeps

        return self._enter(session_id, project, choose, last=True)

    def rename(self, session_id: str, name: str, project: str) -> SessionRecord:
        """Set the name that the user chose. Raises UsageError if it is not allowed: also if it is the id of another
        session, which could not be found by its id any more."""
        _check(name)
        is_other = name != session_id and self.get(name) is not None

        def choose(recent: list[RecentSession]) -> tuple[SessionRecord, bool]:
            if is_other or (name != session_id and any(one.session_id == name for one in recent)):
                raise is_an_id(name)
            for one in recent:
                if one.name == name and one.session_id != session_id:
                    hint = f"choose another name, or rename that one first: billhook events rename {name} NAME"
                    raise UsageError(f"another session has the name `{name}`: {preview(one.session_id)}", hint=hint)
            session = _session(session_id, name, "user", project)
            self.state.update("sessions", session_id, lambda _: msgspec.to_builtins(session))
            return session, True

        return self._enter(session_id, project, choose, last=False)[0]

    def recent(self, project: str) -> list[RecentSession]:
        """The recent sessions of a project, newest first."""
        return _recent(self.state.read("names", project))[::-1]

    def ids_of(self, name: str, project: str) -> list[str]:
        """The ids of the sessions of this name, newest first: several after a `/clear`."""
        return [one.session_id for one in self.recent(project) if one.name == name]

    def _settle(self, offered: SessionRecord) -> SessionRecord:
        """Record the session, unless it already has a name: the session as it is recorded."""
        key = offered.session_id

        def change(record: Value | None) -> Value | None:
            return None if recorded(record, key) else msgspec.to_builtins(offered)

        return recorded(self.state.update("sessions", key, change), key) or offered

    def _enter(
        self,
        session_id: str,
        project: str,
        choose: Callable[[list[RecentSession]], tuple[SessionRecord, bool]],
        *,
        last: bool,
    ) -> tuple[SessionRecord, bool]:
        """Add a session to its project's list, with the name that `choose` returns under the lock of the list. `last`:
        add it as the newest; otherwise its position does not change, and it is not added."""
        chosen: list[tuple[SessionRecord, bool]] = []

        def change(listed: Value | None) -> Value:
            recent = _recent(listed)
            chosen.append(choose(recent))
            return _listed(_with(recent, session_id, chosen[-1][0].name, last))

        self.state.update("names", project, change)
        return chosen[-1]


def _session(session_id: str, name: str, source: NameSource, project: str) -> SessionRecord:
    return SessionRecord(session_id=session_id, name=name, source=source, project=project, at=_now())


def recorded(record: Value | None, session_id: str) -> SessionRecord | None:
    """The session of a record; None for an invalid record, for example after an edit."""
    try:
        session = msgspec.convert(record, SessionRecord)
    except msgspec.ValidationError:
        return None
    return session if session.session_id == session_id and _NAME.fullmatch(session.name) else None


def _recent(record: Value | None) -> list[RecentSession]:
    return [one for one in listed(record, "sessions", RecentSession) if _NAME.fullmatch(one.name)]


def _with(recent: list[RecentSession], session_id: str, name: str, last: bool) -> list[RecentSession]:
    here = [one for one in recent if one.session_id == session_id]
    if here and not last:
        renamed = msgspec.structs.replace(here[-1], name=name)
        return [renamed if one.session_id == session_id else one for one in recent]
    others = [one for one in recent if one.session_id != session_id]
    return [*others, RecentSession(session_id=session_id, name=name, at=_now())]


def _listed(recent: list[RecentSession]) -> Value:
    """The list as it is saved: as many of the newest as there is room for."""
    kept: list[RecentSession] = []
    room = _LONGEST
    for one in reversed(recent[-MOST_SESSIONS:]):
        room -= len(one.session_id)
        if room < 0 and kept:
            break
        kept.append(one)
    return {"sessions": [msgspec.to_builtins(one) for one in reversed(kept)]}


def _unused(taken: set[str]) -> str:
    """A random unused name: a few hundred of many thousand are in use."""
    import random

    while (name := f"{random.choice(ADJECTIVES)}-{random.choice(ANIMALS)}") in taken:
        pass
    return name


def _check(name: str) -> None:
    if not _NAME.fullmatch(name):
        hint = "use at most 64 characters of a-z A-Z 0-9 . _ - and begin with a letter or a digit"
        raise UsageError(f"invalid session name `{_shown(name)}`", hint=hint)
    if name in VERBS:
        hint = f"choose another name: `billhook events {name}` is a command"
        raise UsageError(f"`{name}` can't be used as a session name", hint=hint)


def is_an_id(name: str) -> UsageError:
    """The error for a name that is another session's id."""
    return UsageError(f"`{_shown(name)}` is the id of another session", hint="choose another name")


def _shown(name: str) -> str:
    """A name as it was typed, unless it contains control characters."""
    if not name.isprintable():
        return preview(name)
    return name if len(name) <= _PREVIEWED else f"{name[:_PREVIEWED]}..."


def _now() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds // 1000:06d}Z"
