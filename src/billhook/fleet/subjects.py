"""Every subject and stream of an organisation, and who may use which."""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from billhook.core.errors import UsageError

Role = Literal["host", "reader", "approver", "admin"]
"""A reader reads everything; an approver also answers questions."""
POLICY: Final = "billhook_policy"
HOSTS: Final = "billhook_hosts"
AUDIT: Final = "billhook_audit"
LIMITS: Final = "billhook_limits"
"""The names of the streams. Each organisation has an account of its own, in which nothing else is."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_DAY: Final = 86_400 * 10**9


def checked_name(name: str, what: str) -> str:
    """A name that is one token of a subject. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"`{name}` can't be the name of {what}", hint="use a-z, 0-9 and `-`, at most 63 characters")
    return name


class FleetSubjects:
    """The subjects of one organisation."""

    def __init__(self, org: str) -> None:
        self.org = org
        self.base = f"billhook.{org}"
        self.audits = f"{self.base}.audit"  # of all hosts, without the host
        self.policy = f"{self.base}.policy.current"

    def host(self, host: str) -> str:
        """The last report of a host: its version, policy and lag."""
        return f"{self.base}.host.{host}"

    def audit(self, host: str) -> str:
        """The records of a host's event logs; each log has a subject below this one."""
        return f"{self.audits}.{host}"

    def limit(self, name: str) -> str:
        """The counter of a shared limit."""
        return f"{self.base}.limit.{name}"

    def approval(self, host: str, id: str) -> str:  # noqa: A002 (its name in the record)
        """A question of a host, and its answers."""
        return f"{self.base}.approval.{host}.{id}"

    def streams(self, replicas: int) -> Mapping[str, dict[str, Any]]:
        """The configuration of each stream."""
        common: dict[str, Any] = {"num_replicas": replicas, "allow_direct": True, "deny_purge": False}
        return {
            POLICY: {**common, "subjects": [f"{self.base}.policy.>"], "max_msgs_per_subject": 64, "deny_delete": True},
            HOSTS: {**common, "subjects": [f"{self.base}.host.>"], "max_msgs_per_subject": 1},
            AUDIT: {**common, "subjects": [f"{self.audits}.>"], "deny_delete": True, "deny_purge": True},
            LIMITS: {**common, "subjects": [f"{self.base}.limit.>"], "allow_msg_counter": True, "max_age": _DAY},
        }

    def permissions(self, role: Role, name: str) -> dict[str, list[str]]:
        """What a member may publish and subscribe to."""
        inbox = f"{inbox_prefix(name)}.>"
        if role == "admin":
            return {"publish": [">"], "subscribe": [">"]}
        if role in ("reader", "approver"):
            reads = ["STREAM.INFO.>", "STREAM.NAMES", "DIRECT.GET.>", "CONSUMER.CREATE.>", "CONSUMER.DELETE.>"]
            reads += ["CONSUMER.INFO.>", "CONSUMER.MSG.NEXT.>"]
            publish = [f"$JS.API.{one}" for one in reads]
            publish += [f"{self.approval('*', '*')}.answer"] if role == "approver" else []
            return {"publish": publish, "subscribe": [inbox, f"{self.base}.>"]}
        publish = [self.host(name), f"{self.audit(name)}.>", self.limit(">"), self.approval(name, ">")]
        publish += [f"$JS.API.DIRECT.GET.{POLICY}.{self.policy}", f"$JS.API.DIRECT.GET.{LIMITS}.{self.limit('>')}"]
        publish += [f"$JS.API.STREAM.INFO.{LIMITS}", f"$JS.API.DIRECT.GET.{AUDIT}.{self.audit(name)}.>"]
        own = f"{AUDIT}.{name}"  # the consumer with which a host reads its own records
        publish += [f"$JS.API.CONSUMER.CREATE.{own}.{self.audit(name)}.>", f"$JS.API.CONSUMER.MSG.NEXT.{own}"]
        publish += [f"$JS.API.CONSUMER.DELETE.{own}"]
        return {"publish": publish, "subscribe": [inbox, f"{self.base}.policy.>", self.approval(name, ">")]}


def inbox_prefix(name: str) -> str:
    """Where a member gets its replies: no other member can read them."""
    return f"_INBOX_{name}"
