"""Infrastructure: what the command lines of clouds, clusters and hosts destroy.

Most of these programs are `program group... verb name`. One reader looks for the verb; rows say what has another form.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from billhook.effects.effect import Effect, Kind, Weight
from billhook.effects.families.network import is_here
from billhook.effects.table import Call, Reader, Row, word_set

_DESTROYS: Final = word_set(
    "delete destroy terminate remove purge rm uninstall undeploy teardown deprovision del delete-batch rb"
)
_READS: Final = word_set("""
    describe list ls get show plan diff view status logs help create update set add new init deploy up apply
    start run push pull cp sync mv config login auth whoami open completion version search comment edit merge close
    checkout review rerun watch clone invoke tail ssh exec
    """)
_FORCED: Final = ("-y", "--yes", "-f", "--force", "-q", "--quiet", "--auto-approve", "--no-prompts", "--confirm")
_DRY: Final = ("--dry-run", "--dryrun", "--help", "-h")
_AZURE: Final = "-n --name -g --resource-group --subscription -o --output -l --location --ids --query"
_HUB: Final = "-R --repo --hostname -X --method -H --header -f -F --field --raw-field --jq -t --input -b --body --title"
_GOOGLE: Final = "--project --zone --region --format --account --configuration --filter --location --cluster"

# programs of the form `group... verb name`, and their options that take a value
_CLOUDS: Final[Mapping[str, str]] = {
    "gcloud": _GOOGLE,
    "az": _AZURE,
    "oci": "--profile --region --compartment-id --config-file",
    "doctl": "-t --access-token -c --config -o --output --context",
    "hcloud": "--context --config",
    "linode-cli": "--as-user",
    "flyctl": "-a --app -c --config -t --access-token",
    "fly": "-a --app -c --config -t --access-token",
    "heroku": "-a --app -r --remote",
    "vercel": "-S --scope -t --token --cwd -A --local-config",
    "netlify": "-s --site --auth --filter",
    "railway": "-s --service -e --environment -p --project",
    "wrangler": "-c --config -e --env --namespace-id --binding --name",
    "firebase": "-P --project --token",
    "supabase": "--project-ref --workdir",
    **dict.fromkeys(word_set("ibmcloud openstack civo vultr-cli scw exo eksctl kops argocd flux istioctl velero"), ""),
    **dict.fromkeys(word_set("serverless sls sam cdk cdktf amplify eb pulumi render upcloud aliyun"), ""),
    "gh": _HUB,
    "glab": _HUB,
}
# groups whose deletes touch this machine's settings alone, or cost nothing
_TRIFLES: Final = word_set("config configurations auth alias extension label cache run-cache completion context search")
_RELEASES: Final = frozenset({"release"})  # packages.py


def _cloud(call: Call) -> Iterator[Effect]:
    """The first word that is a verb decides; a verb may be the last part of a word: `apps:destroy`."""
    call = call.with_values(_CLOUDS[call.command.name])
    operands = call.operands
    for place, word in enumerate(operands[:6]):
        verb = word.rpartition(":")[2]
        if word in _TRIFLES or word in _RELEASES or (verb in _READS and place > 0) or call.has(*_DRY):
            return
        if verb in _DESTROYS or verb.startswith(("delete-", "terminate-")):
            yield _destroyed(call, " ".join([*operands[:place], *operands[place + 1 :]]))
            return


def _destroyed(call: Call, target: str, kind: Kind = "destroy-infra") -> Effect:
    weight: Weight = "heavy" if call.has(*_FORCED) else "normal"
    return call.effect(kind, target, scope="remote", weight=weight)


def _api(call: Call) -> Iterator[Effect]:
    """`gh api -X DELETE path`."""
    call = call.with_values(_CLOUDS[call.command.name])
    if call.operands[:1] == ["api"] and "DELETE" in [word.upper() for word in call.options.values("-X", "--method")]:
        yield call.effect("destroy-infra", " ".join(call.operands[1:2]), scope="remote")


def _hub(call: Call) -> Iterator[Effect]:
    yield from _api(call)
    if call.operands[:1] != ["api"]:
        yield from _cloud(call)


_AWS: Final = "--profile --region --output --query --endpoint-url --color --ca-bundle"
_AWS_DESTROYS: Final = (
    "delete-",
    "terminate-",
    "remove-",
    "deregister-",
    "batch-delete-",
    "purge-",
    "schedule-key-deletion",
)
_AWS_TRIFLES: Final = ("remove-tags", "delete-tags", "delete-message", "remove-permission")
_DATA: Final = frozenset({"s3", "s3api", "dynamodb", "rds", "backup", "efs", "redshift", "docdb"})


def _aws(call: Call) -> Iterator[Effect]:
    """`aws service operation`: the operation's name tells."""
    call = call.with_values(_AWS)
    service, operation = (*call.operands, "", "")[:2]
    local = any(is_here(address) for address in call.options.values("--endpoint-url"))
    if local or call.has("--dry-run", "--dryrun") or "help" in call.operands:
        return
    if service == "s3":
        yield from _s3(call, operation, " ".join(call.operands[2:]))
    elif operation.startswith(_AWS_DESTROYS) and not operation.startswith(_AWS_TRIFLES):
        yield _destroyed(call, " ".join(call.operands), "destroy-data" if service in _DATA else "destroy-infra")


def _s3(call: Call, operation: str, target: str) -> Iterator[Effect]:
    many = {"rb": True, "sync": call.has("--delete"), "rm": call.has("--recursive")}.get(operation, False)
    if many:
        yield _destroyed(call, target, "destroy-data")
    elif operation == "rm":
        yield call.effect("destroy-data", target, scope="remote", weight="light")


def _storage(call: Call) -> Iterator[Effect]:
    """gsutil: one object is a trifle, a bucket or a tree is not."""
    operands = call.with_values("-h -o -i").operands
    verb = operands[0] if operands else ""
    many = call.has("-r", "-R", "-a") or any("*" in word for word in operands)
    if verb == "rb" or (verb == "rm" and many) or (verb == "rsync" and call.has("-d") and not call.has("-n")):
        yield _destroyed(call, " ".join(operands[1:]), "destroy-data")


_KUBE: Final = """
-n --namespace --context --cluster --kubeconfig -l --selector -f --filename -o --output --grace-period --timeout
-s --server --user --token --as --replicas --field-selector -k --kustomize -c --container
"""
_LOCAL_CLUSTERS: Final = ("kind-", "minikube", "k3d-", "docker-desktop", "rancher-desktop", "colima", "orbstack")


def _kubectl(call: Call) -> Iterator[Effect]:
    call = call.with_values(_KUBE)
    verb, *rest = call.operands or [""]
    dry = [value for option, value in call.options.options if option == "--dry-run"]
    if (dry and dry != ["none"]) or call.has("--help"):
        return
    values = call.options.values
    light = verb == "cordon" or (verb == "rollout" and rest[:1] == ["undo"])
    emptied = verb == "scale" and values("--replicas") == ["0"]
    replaced = (verb == "replace" and call.has("--force")) or (verb == "apply" and call.has("--prune"))
    if not (light or emptied or replaced or verb in ("delete", "drain")):
        return
    forced = verb == "delete" and (call.has("--force", "--all-namespaces", "-A") or values("--grace-period") == ["0"])
    local = any(context.startswith(_LOCAL_CLUSTERS) for context in values("--context"))
    weight: Weight = "light" if light or local else "heavy" if forced else "normal"
    yield call.effect("destroy-infra", " ".join([*rest, *values("-f", "--filename")]), scope="remote", weight=weight)


_TERRAFORM: Final = "-var -var-file -target -state -chdir -lock-timeout -parallelism"
_ASKS: Final = "-auto-approve --auto-approve -force --force --terragrunt-non-interactive --non-interactive"
_T: Final = "terraform|tofu|terragrunt"


def _row(words: str, needs: str = "", weight: Weight = "normal", heavy: str = _ASKS, values: str = _TERRAFORM) -> Row:
    return Row(
        words,
        "destroy-infra",
        needs=needs,
        heavy=heavy,
        dry="--dry-run -help",
        values=values,
        weight=weight,
        scope="remote",
    )


ROWS: Final[tuple[Row, ...]] = (
    _row("kubeadm|talosctl|rke2|k3s reset|uninstall", heavy="-f --force"),
    _row("borg delete|prune"),
    _row("restic forget", "--prune"),
    _row("restic prune"),
    _row(f"{_T} destroy"),
    _row("terragrunt destroy-all"),
    _row("terragrunt run-all|run destroy"),
    _row(f"{_T} apply", "-destroy --destroy"),
    _row(f"{_T} apply", "-auto-approve --auto-approve", heavy=""),
    _row("terragrunt run-all|run apply", heavy=""),
    _row(f"{_T} state rm|push"),
    _row(f"{_T} workspace delete"),
    _row(f"{_T} force-unlock"),
    _row(f"{_T} taint", weight="light"),
    _row("helm uninstall|delete|del|un", heavy="", values="-n --namespace --kube-context --kubeconfig --timeout"),
    _row("helm rollback", weight="light", heavy="", values="-n --namespace --kube-context --kubeconfig --timeout"),
    _row("nomad job|system|namespace stop|gc|delete", "-purge", heavy=""),
    _row("azd down", heavy="--force --purge"),
    _row("railway down", heavy="-y --yes"),
    _row("heroku pg:reset|pg:killall|redis:reset", heavy="--confirm -c", values="-a --app"),
    _row("pulumi state delete", heavy="--force -y --yes"),
    _row("firebase hosting:disable|database:remove", heavy="-f --force -y", values="-P --project"),
    _row("gh repo archive|rename", heavy="-y --yes"),
    _row("gh repo edit", "--visibility", heavy="", values="--description --homepage -d -h"),
)
READERS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(_CLOUDS, _cloud),
    **dict.fromkeys(("gh", "glab"), _hub),
    "aws": _aws,
    "gsutil": _storage,
    **dict.fromkeys(("kubectl", "oc", "k", "kubecolor"), _kubectl),
}
