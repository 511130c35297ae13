"""Containers and virtual machines on this machine. An image or a container is made again; a volume is not."""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Final

from billhook.effects.effect import UNKNOWN, Effect, Kind, Weight
from billhook.effects.table import Call, Reader, Row

_D: Final = "docker|podman|nerdctl"
_DOCKER: Final = "-H --host --context --config --log-level"
_COMPOSE: Final = "--file --project-name -p --profile --env-file --project-directory --rmi -t --timeout"

_RUN: Final = "-v --volume --mount --device " + _DOCKER
_HOST: Final = "-v=/:* --volume=/:* --device=/dev/sd* --device=/dev/nvme* --device=/dev/vd* --privileged"
_SOCKET: Final = "-v=*/docker.sock:* --volume=*/docker.sock:* --mount=*/docker.sock*"
_ROOT: Final = "--mount=*source=/ --mount=*source=/,* --mount=*src=/ --mount=*src=/,*"


def _row(
    words: str,
    weight: Weight = "light",
    needs: str = "",
    heavy: str = "",
    values: str = _DOCKER,
    dry: str = "--dry-run",
    kind: Kind = "destroy-container",
) -> Row:
    return Row(words, kind, needs=needs, heavy=heavy, values=values, dry=dry, weight=weight)


ROWS: Final[tuple[Row, ...]] = (
    _row(f"{_D} rm|rmi|kill", dry="-v --volumes"),
    _row(f"{_D} container|image|network|pod|buildx|builder rm|remove|prune|kill", dry="-v --volumes"),
    _row(f"{_D} rm", "normal", needs="-v --volumes"),
    _row(f"{_D} container rm|remove", "normal", needs="-v --volumes"),
    # a container that gets the host's root folder, a disk or the socket can do what root can
    Row(f"{_D} run|create", "privilege", needs=f"{_HOST} {_SOCKET} {_ROOT}", values=_RUN, scope="system"),
    _row("podman machine rm|reset", "normal"),
    _row("docker service scale", "normal", needs="*=0"),
    _row(f"{_D} volume rm|remove|prune", "normal"),
    _row(f"{_D} system prune", "normal", needs="--volumes"),
    _row(f"{_D} system prune", dry="--volumes"),
    _row("podman system reset", "normal", heavy="-f --force"),
    _row("docker stack|service|node|secret|config rm", "normal"),
    _row("docker swarm leave", "normal", needs="-f --force"),
    _row("skopeo delete", "normal", kind="destroy-data"),
    _row("buildah|crictl rm|rmi|rmp"),
    _row("kind|minikube|k3d|k3s delete", kind="destroy-infra"),
    _row("k3d cluster delete", kind="destroy-infra"),
    _row("colima|limactl|multipass|orb delete", "normal", heavy="-p --purge"),
    _row("multipass purge", "normal"),
    _row("wsl", "normal", needs="--unregister"),
    _row("vagrant destroy", "normal"),
    _row("vagrant box remove|prune"),
    _row("virsh undefine", "normal", heavy="--remove-all-storage", values="-c --connect", kind="destroy-infra"),
    _row("virsh destroy|vol-delete|pool-delete|snapshot-delete", "normal", values="-c --connect", kind="destroy-infra"),
    _row("VBoxManage|vboxmanage unregistervm", "normal", needs="--delete --delete-all", kind="destroy-infra"),
    _row("VBoxManage|vboxmanage closemedium|snapshot", "normal", needs="--delete", kind="destroy-infra"),
    _row("qm|pct destroy", "normal", heavy="--purge --destroy-unreferenced-disks", kind="destroy-infra"),
    _row("lxc|incus delete|rm", "normal", heavy="-f --force", kind="destroy-infra"),
    _row("lxc|incus storage|volume delete", "normal", kind="destroy-infra"),
    _row("lxc|incus storage volume|bucket delete", "normal", kind="destroy-infra"),
    _row("prlctl delete|destroy", "normal", kind="destroy-infra"),
    _row("vmrun deleteVM|deleteSnapshot", "normal", values="-T -gu -gp", kind="destroy-infra"),
    _row("xe vm-destroy|vm-uninstall|vdi-destroy|sr-destroy", "normal", heavy="--force", kind="destroy-infra"),
    _row("lxc-destroy", "normal", heavy="-f --force -s", kind="destroy-infra"),
)  # fmt: skip


def _compose(call: Call) -> Iterator[Effect]:
    """`compose down` and `compose rm`: with `-v` the data of their volumes is gone."""
    call = call.with_values(_COMPOSE + (" -f" if not {"down", "rm"}.intersection(call.operands[:2]) else ""))
    operands = call.operands[call.operands[:1] == ["compose"] :]
    if call.has("--dry-run", "--help") or not {"down", "rm"}.intersection(operands[:2]):
        return
    volumes = call.has("-v", "--volumes")
    yield call.effect("destroy-container", " ".join(operands[1:]), weight="normal" if volumes else "light")


def _copy(call: Call) -> Iterator[Effect]:
    """`docker cp x:/a b`: b is written, or something in it."""
    source, target = (*call.operands[-2:], "", "")[:2]
    if ":" in source and ":" not in target:
        name = posixpath.basename(source.rstrip("/"))
        yield from call.on_path("write", target)
        yield from call.on_path("write", posixpath.join(target, name if name not in ("", ".") else UNKNOWN))


def _kubectl(call: Call) -> Iterator[Effect]:
    return _copy(call) if call.operands[:1] == ["cp"] else iter(())


def _docker(call: Call) -> Iterator[Effect]:
    call = call.with_values(_DOCKER)
    if call.operands[:1] == ["compose"]:
        yield from _compose(call)
    elif call.operands[:1] == ["cp"] or call.operands[:2] == ["container", "cp"]:
        yield from _copy(call)
    elif {"build", "bake"}.intersection(call.operands[:2]):
        for value in call.with_values(_DOCKER + " -o --output -t -f").options.values("-o", "--output"):
            fields = dict(field.partition("=")[::2] for field in value.split(","))
            yield from call.on_path("write", fields.get("dest", value), recursive=True)


READERS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(_D.split("|"), _docker),
    "kubectl": _kubectl,
    **dict.fromkeys(("docker-compose", "podman-compose"), _compose),
}
