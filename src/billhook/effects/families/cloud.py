"""Infrastructure: what the command lines of clouds, clusters and hosts destroy.

Most of these programs are `program group... verb name`. One reader looks for the verb; rows cover other forms.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from billhook.effects.effect import Effect, Kind, Weight
from billhook.effects.families.network import is_here
from billhook.effects.table import Call, Reader, Row, word_set

_DESTROYS: Final = word_set("""
    delete destroy terminate remove purge rm uninstall undeploy teardown deprovision del unset delete-batch rb detach
    power-off poweroff decommission
    """)
_READS: Final = word_set("""
    describe list ls get show plan diff view status logs help create update set add new init deploy up apply
    start run push pull cp sync mv config login auth whoami open completion version search comment edit merge close
    checkout review rerun watch clone invoke tail ssh exec read
    """)
_BEGINS = re.compile(r"(?:delete|terminate|destroy)[-_]|(?:delete|terminate|destroy)[A-Z]", re.IGNORECASE)
_FORCED: Final = (
    "-y", "--yes", "-f", "--force", "-q", "--quiet", "--auto-approve", "--no-prompts", "--confirm",
    "--force-delete-without-recovery",
)  # fmt: skip
_DRY: Final = ("--dry-run", "--dryrun", "--preview-only", "--help", "-h")
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
    **dict.fromkeys(word_set("serverless sls sam cdk cdktf amplify eb render upcloud aliyun zappa"), ""),
    **dict.fromkeys(word_set("chalice pscale neonctl atlas turso rbd gluster op bw rpk barman rabbitmqadmin"), ""),
    **dict.fromkeys(word_set("pulsar-admin kafkactl doppler ldcli flarectl pulumi sst cloudflared knife rancher"), ""),
    **dict.fromkeys(word_set("waypoint puppet airflow"), ""),
    **dict.fromkeys(
        word_set("cf juju nova cinder copilot upstash confluent databricks circleci aiven tccli kopia infisical"), ""
    ),
    # CI, monitoring, DNS, search, queues, feature flags, identity, content and payment
    **dict.fromkeys(word_set("tkn argo drone bk spin travis buildkite-agent jenkins-jobs temporal tctl akamai"), ""),
    **dict.fromkeys(word_set("sentry-cli newrelic pup dog datadog-ci gcx pdnsutil meilisearch-cli curator_cli"), ""),
    **dict.fromkeys(word_set("unleash flagsmith configcat auth0 okta clerk contentful sanity shopify mailgun"), ""),
    **dict.fromkeys(word_set("appwrite nhost eas ngrok twilio upctl ovhai yc xata edgedb gel convex solr pvesh"), ""),
    **dict.fromkeys(word_set("prefect dagster mlflow chamber lpass gopass yb-admin couchbase-cli skaffold"), ""),
    "gh": _HUB,
    "glab": _HUB,
}
# groups whose deletes touch this machine's settings alone, or cost nothing
_TRIFLES: Final = word_set(
    "config configurations auth alias extension label cache run-cache completion context search help api"
)
_RELEASES: Final = frozenset({"release"})  # packages.py


def _cloud(call: Call) -> Iterator[Effect]:
    """The first word that is a verb decides; a verb may be the last part of a word: `apps:destroy`."""
    call = call.with_words(
        call.before_dashes, _CLOUDS[call.command.name]
    )  # the command after `op run --` is not part of its words
    operands = call.operands
    for place, word in enumerate(operands[:6]):
        verb = word.rpartition(":")[2]
        if word in _TRIFLES or word in _RELEASES or (verb in _READS and place > 0) or call.has(*_DRY):
            return
        if verb in _DESTROYS or _BEGINS.match(verb) or verb.endswith("-delete"):
            yield _destroyed(call, " ".join([*operands[:place], *operands[place + 1 :]]))
            return


def _destroyed(call: Call, target: str, kind: Kind = "destroy-infra") -> Effect:
    weight: Weight = "heavy" if call.has(*_FORCED) else "normal"
    return call.effect(kind, target, scope="remote", weight=weight)


_AWS: Final = "--profile --region --output --query --endpoint-url --color --ca-bundle"
_AWS_DESTROYS: Final = tuple(
    word_set("""
    delete- terminate- remove- deregister- batch-delete- purge- schedule-key-deletion release-address close-account
    stop-logging leave-organization disable-key unsubscribe detach-
    """)
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


_KUBE: Final = """
-n --namespace --context --cluster --kubeconfig -l --selector -o --output --grace-period --timeout
-s --server --user --token --as --replicas --field-selector -c --container
"""
_K: Final = "kubectl|oc|k|kubecolor"
_KUBE_DRY: Final = "--dry-run=client --dry-run=server --dry-run=true --dry-run="
_KUBE_FORCED: Final = "--force --all-namespaces -A --grace-period=0"
_LOCAL_CLUSTERS: Final = """
--context=kind-* --context=minikube* --context=k3d-* --context=docker-desktop --context=rancher-desktop
--context=colima* --context=orbstack
"""


def _kube(words: str, needs: str = "", heavy: str = "", weight: Weight = "normal") -> Row:
    return Row(
        words, "destroy-infra", needs=needs, dry=_KUBE_DRY, heavy=heavy, light=_LOCAL_CLUSTERS, values=_KUBE,
        weight=weight, scope="remote",
    )  # fmt: skip


_TERRAFORM: Final = "-var -var-file -target -state -chdir -lock-timeout -parallelism -replace"
_ASKS: Final = "-auto-approve --auto-approve -force --force --terragrunt-non-interactive --non-interactive"
_T: Final = "terraform|tofu|terragrunt"
_DELETES: Final = "-X=DELETE -X=delete --method=DELETE --method=delete"
_RESTIC: Final = """
-r --repo -p --password-file --repository-file -o --option -l --keep-last -H --keep-hourly -d --keep-daily
-w --keep-weekly -m --keep-monthly -y --keep-yearly --keep-within --keep-tag --tag --host --path -g --group-by
"""
_PULUMI: Final = "-s --stack -C --cwd -c --config -t --target -x --exclude -m --message -p --parallel"
_BORG: Final = "-r --repo --remote-path --umask --lock-wait -a --match-archives -P --prefix -d --keep-daily -w -m -y"
_AWS_VALUES: Final = f"""
{_AWS} --acl --cidr --ip-permissions --policy-arn --public-access-block-configuration --desired-count --min-size
--desired-capacity
"""
_AWS_OPENS: Final = """
--acl=public-* --cidr=0.0.0.0/0 --cidr=::/0 --ip-permissions=*0.0.0.0/0* --policy-arn=*Admin* --no-deletion-protection
--no-disable-api-termination --public-access-block-configuration=*alse*
"""
_GRANTS: Final = """
--member=allUsers --member=allAuthenticatedUsers --role=roles/owner --role=roles/editor --source-ranges=0.0.0.0/0
"""
_ANSIBLE: Final = "-i --inventory -m --module-name -a --args -u --user -l --limit -e --extra-vars"


def _row(
    words: str,
    needs: str = "",
    weight: Weight = "normal",
    heavy: str = _ASKS,
    values: str = _TERRAFORM,
    dry: str = "--dry-run -help",
    kind: Kind = "destroy-infra",
) -> Row:
    return Row(words, kind, needs=needs, heavy=heavy, dry=dry, values=values, weight=weight, scope="remote")


ROWS: Final[tuple[Row, ...]] = (
    _row("kubeadm|talosctl|rke2|k3s|k0s|microk8s|rke reset|uninstall|remove", heavy="-f --force"),
    _row("borg delete|prune|compact|recreate|repo-delete|rdelete", heavy="--force", values=_BORG, dry="-n --dry-run"),
    _row("restic forget", "--prune --unsafe-allow-remove-all", values=_RESTIC),
    _row("restic forget *", values=_RESTIC, dry="-n --dry-run --prune"),
    _row("restic prune", values=_RESTIC),
    _row("restic unlock", "--remove-all", values=_RESTIC),
    _row("tarsnap", "-d --nuke", heavy="--nuke", values="-f --keyfile --cachedir"),
    _row("duplicity remove-older-than|remove-all-but-n-full|remove-all-inc-of-but-n-full", "--force", heavy=""),
    _row("gsutil rb", kind="destroy-data", values="-h -o -i", heavy=""),
    _row("gsutil rm", "-r -R -a *[*]*", kind="destroy-data", values="-h -o -i", heavy=""),
    _row("gsutil iam ch allUsers:*|allAuthenticatedUsers:*", kind="permissions", heavy=""),
    _row("gsutil rsync", "-d", kind="destroy-data", values="-h -o -i", heavy="", dry="-n"),
    _row(f"{_T} destroy"),
    _row("terragrunt destroy-all"),
    _row("terragrunt run-all|run destroy"),
    _row(f"{_T} apply", "-destroy --destroy"),
    _row(f"{_T} apply", "-auto-approve --auto-approve", heavy=""),
    _row("terragrunt run-all|run apply", heavy=""),
    _row(f"{_T} state rm|push"),
    _row(f"{_T} workspace delete"),
    _row(f"{_T} force-unlock"),
    _row(f"{_T} taint"),
    _row(f"{_T} apply", "-replace=*"),
    _kube(f"{_K} delete", heavy=_KUBE_FORCED),
    _kube(f"{_K} drain|cordon"),
    _kube("oc adm drain|cordon|prune"),
    _kube(f"{_K} scale", "--replicas=0"),
    _kube(f"{_K} replace", "--force"),
    _kube(f"{_K} taint", "*:NoExecute"),
    _row(
        f"{_K} create clusterrolebinding",
        "--clusterrole=cluster-admin",
        kind="permissions",
        values=f"{_KUBE} --clusterrole",
    ),
    _kube(f"{_K} apply", "--prune"),
    _kube(f"{_K} patch", "*finalizers*null*"),
    _kube(f"{_K} rollout undo", weight="light"),
    _row("helm uninstall|delete|del|un", heavy="", values="-n --namespace --kube-context --kubeconfig --timeout"),
    _row("helm rollback", heavy="", values="-n --namespace --kube-context --kubeconfig --timeout"),
    _row("nomad stop", heavy=""),
    _row("nomad job stop", heavy=""),
    _row("nomad namespace|volume|quota delete", heavy=""),
    _row("nomad node drain", "-enable", heavy=""),
    _row("consul acl token|policy|role delete"),
    _row("consul services deregister"),
    _row("consul leave|force-leave"),
    _row("vault operator seal"),
    _row("vault lease revoke", "-prefix -force"),
    _row("vault auth|audit disable"),
    _row("vault policy|namespace delete"),
    _row("vault token revoke"),
    _row("ceph osd purge|destroy", heavy="--yes-i-really-mean-it"),
    _row("ceph osd pool delete|rm", heavy="--yes-i-really-really-mean-it"),
    _row("ipmitool power off|cycle|reset", values="-H -U -P -I"),
    _row("ipmitool chassis power off|cycle|reset", values="-H -U -P -I"),
    _row(
        "ansible",
        "-a=*state=absent* --args=*state=absent* -m=reboot -a=reboot* -a=shutdown*",
        values=_ANSIBLE,
        dry="-C --check",
    ),
    _row(
        "ansible-playbook",
        "*teardown* *destroy* *uninstall* -e=*state=absent* --extra-vars=*state=absent*",
        values=f"{_ANSIBLE} -t --tags --skip-tags",
        dry="-C --check --syntax-check --list-tasks --list-hosts --list-tags",
    ),
    _row("packer build", "-force --force", heavy="", values="-var -var-file -only -except"),
    _row("rndc delzone"),
    _row("dnscontrol push"),
    _row("octodns-sync", "--doit", heavy="--force", values="--config-file"),
    _row("tailscale logout|down"),
    _row("proxmox-backup-client snapshot|group forget", values="--repository --ns"),
    _row("duplicacy prune", "-a -all -keep -exclusive", heavy="-exclusive", values="-keep -storage -r -t -id"),
    _row("rdiff-backup", "--remove-older-than", heavy="--force", values="--remove-older-than"),
    _row("cockroach node decommission|drain"),
    _row("neonctl branches reset", heavy=""),
    _row("stripe subscriptions cancel", "--live", heavy="-c --confirm"),
    _row("tilt down", "--delete-namespaces", heavy=""),
    _row("argocd app sync", "--prune", heavy="--force"),
    _row("esxcli vm process kill", kind="kill", values="-t --type -w --world-id"),
    _row("maas * machine|machines release|delete", heavy="force=true erase=true"),
    _row("azd down", heavy="--force --purge"),
    _row("railway down", heavy="-y --yes"),
    _row("aws route53 change-resource-record-sets", "--change-batch=*DELETE*", values=f"{_AWS} --change-batch"),
    _row("gcloud storage rsync", "--delete-unmatched-destination-objects", kind="destroy-data", values=_GOOGLE),
    _row("aws ecs|autoscaling update-*", "--desired-count=0 --min-size=0 --desired-capacity=0", values=_AWS_VALUES),
    _row("aws * stop-instances|stop-db-instance|stop-db-cluster", kind="kill", values=_AWS),
    _row("gcloud compute instances stop|suspend", kind="kill", values=_GOOGLE),
    _row("az vm|vmss|webapp|aks|functionapp stop|deallocate", kind="kill", values=_AZURE),
    _row("aws * authorize-*|attach-*|put-*|modify-*", _AWS_OPENS, kind="permissions", values=_AWS_VALUES),
    _row("aws s3api put-bucket-policy", kind="permissions", values=_AWS),
    _row("aws s3api put-bucket-lifecycle*", kind="destroy-data", values=_AWS),
    _row("aws s3api put-bucket-versioning", "*Suspended*", values=f"{_AWS} --versioning-configuration"),
    _row("aws secretsmanager put-secret-value|update-secret", values=f"{_AWS} --secret-id", kind="destroy-data"),
    _row("aws rds|ec2 reboot-*", kind="kill", values=_AWS),
    _row("aws cloudwatch|events disable-*", heavy="", values=_AWS),
    _row("gsutil lifecycle|versioning set", heavy=""),
    _row("gcloud pubsub subscriptions seek", kind="destroy-data", values=_GOOGLE),
    _row(
        "az network nsg rule create|update",
        "--source-address-prefixes=[*] --source-address-prefix=[*]",
        kind="permissions",
        values=f"{_AZURE} --source-address-prefixes --source-address-prefix",
    ),
    _row("gcloud * add-iam-policy-binding", _GRANTS, kind="permissions", values=f"{_GOOGLE} --member --role"),
    _row("gcloud * remove-iam-policy-binding", kind="permissions", values=f"{_GOOGLE} --member --role"),
    _row(
        "gcloud compute firewall-rules create|update", _GRANTS, kind="permissions", values=f"{_GOOGLE} --source-ranges"
    ),
    _row("gcloud iam service-accounts keys create", kind="persist", values=f"{_GOOGLE} --iam-account"),
    _row("gcloud services disable", heavy="-q --quiet --force", values=_GOOGLE),
    _row("az deployment group|sub|mg create", "--mode=Complete", heavy="", values=f"{_AZURE} --mode -f"),
    _row("fly|flyctl scale count", "0 *=0", heavy="-y --yes", values="-a --app"),
    _row("vercel alias rm|remove", heavy="-y --yes"),
    _row("heroku maintenance:on", heavy="", values="-a --app"),
    _row("fly|flyctl ips release", heavy="", values="-a --app"),
    _row("fly|flyctl machine|machines|m stop", kind="kill", values="-a --app"),
    _row("netlify api delete*", heavy="", values="-d --data"),
    _row("heroku ps:scale", "*=0", heavy="", values="-a --app"),
    _row("heroku pg:reset|pg:drop|pg:killall|redis:reset|repo:reset", heavy="--confirm -c", values="-a --app"),
    _row("pulumi down|dn", heavy="-y --yes -f", values=_PULUMI, dry="--preview-only"),
    _row("pulumi state delete", heavy="--force -y --yes"),
    _row("pulumi cancel", heavy="-y --yes", values=_PULUMI),
    _row("pulumi up|update", "-y --yes -f --skip-preview", heavy="", values=_PULUMI),
    _row("helmfile destroy|delete", heavy="", values="-f --file -e --environment -n --namespace -l --selector"),
    _row("fastly * delete", heavy="-y --auto-yes", values="-s --service-id --service-name -t --token --name"),
    _row("fastly purge", "--all", heavy="", values="-s --service-id --service-name -t --token"),
    _row("juju kill-controller|remove-application|remove-machine|remove-storage", heavy="--force --no-prompt"),
    _row("govc *.destroy", heavy=""),
    _row("govc datastore.rm", heavy=""),
    _row("stripe * delete", "--live", heavy="-c --confirm"),  # without it, it is the test mode
    _row("stripe refunds create", "--live", heavy="-c --confirm"),
    _row("algolia index|indices|objects delete|clear", heavy="-y --confirm"),
    _row("circleci context|runner delete|remove-secret", heavy="-f --force"),
    _row("jenkins-cli|jenkins-cli.jar delete-*", heavy="", values="-s -auth"),
    _row("java *jenkins-cli.jar delete-*", heavy="", values="-s -auth"),
    _row("splunk clean eventdata|userdata|all|kvstore", heavy="-f"),
    _row("splunk remove index", heavy=""),
    _row("deck reset", heavy="-f --force"),
    _row("deck gateway reset", heavy="-f --force"),
    _row("gitlab-runner unregister", heavy=""),
    _row("k3s-uninstall.sh|k3s-agent-uninstall.sh|rke2-uninstall.sh|rke2-agent-uninstall.sh", heavy=""),
    _row("hub delete", heavy="-y --yes"),
    _row("svn delete|del|remove|rm", "*://*", heavy="", values="-m --message -F --username --password"),
    _row("firebase hosting:disable|database:remove", heavy="-f --force -y", values="-P --project"),
    _row("gh|glab api", _DELETES, heavy="", values=_HUB),
    _row("gh api graphql", "*mutation*delete*", heavy="", values=_HUB),
    _row("gh pr merge", "--admin", heavy="", values=_HUB),
    _row("gh repo archive|rename", heavy="-y --yes"),
    _row("gh workflow disable", heavy="", values=_HUB),
    _row("gh ssh-key add", heavy="", kind="persist", values="-t --title --type"),
    _row("gh repo edit", "--visibility", heavy="", values="--description --homepage -d -h"),
)


def _terraform(call: Call) -> Iterator[Effect]:
    """`TF_CLI_ARGS=-destroy terraform apply`: options that a variable adds."""
    given = [value for name, _, value in (word.partition("=") for word in call.assignments) if "TF_CLI_ARGS" in name]
    applies = call.operands[:1] == ["apply"]
    if applies and "-destroy" in " ".join(given):
        yield _destroyed(call, "TF_CLI_ARGS")
    elif applies and ("destroys" in call.command.origins or (call.command.stdin or "").lower().startswith("y")):
        yield _destroyed(call, "the plan's changes")


READERS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(_CLOUDS, _cloud),
    **dict.fromkeys(_T.split("|"), _terraform),
    "aws": _aws,
}
