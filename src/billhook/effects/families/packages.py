"""Package managers: what is published for others, taken back, or removed from this machine.

Installing is harmless here, and so is removing a dependency from a project: version control has its list.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from billhook.effects.effect import Effect, Scope
from billhook.effects.table import Call, Reader, Row

_NPM: Final = "--prefix -C --dir --cwd --filter -F -w --workspace --tag --access --otp --registry --userconfig"
_RUST: Final = "-p --package --manifest-path --token --registry --index --target --features -F --vers --version -Z"
_HUB: Final = "-R --repo -t --title -n --notes -F --notes-file --target --discussion-category"
_DOCKER: Final = "-H --host --context -c --config -l --log-level --platform"


def _row(words: str, values: str = "", dry: str = "--dry-run", needs: str = "", light: str = "") -> Row:
    return Row(words, "publish", dry=dry, needs=needs, light=light, values=values, scope="remote")


ROWS: Final[tuple[Row, ...]] = (
    _row("npm|pnpm|yarn|bun|lerna|jsr|deno|changeset|rush publish", _NPM, dry="--dry-run -n"),
    _row("yarn npm publish", _NPM),
    _row("npm|pnpm deprecate", _NPM),
    _row("npm|pnpm dist-tag|dist-tags add|rm|set", _NPM),
    _row("npm|pnpm owner|access|team add|rm|set|grant|revoke|public|destroy", _NPM),
    Row("npm|pnpm unpublish", "publish", dry="--dry-run", values=_NPM, scope="remote", weight="heavy"),
    _row("skopeo copy|sync"),
    _row("semantic-release|release-it|np", dry="--dry-run --preview --no-publish"),
    _row("twine upload", "-r --repository --repository-url -u --username -p --password -c --comment --config-file"),
    _row("uv|poetry|hatch|flit|pdm|rye publish", "--repository -r -u -p --index --token --directory -C"),
    _row("maturin publish|upload", "-r --repository -m --manifest-path"),
    _row("conda|anaconda|cloudsmith upload|push", "-u --user -l --label"),
    _row("cargo publish", _RUST, dry="--dry-run -n"),
    _row("cargo yank|owner", _RUST, dry="--dry-run --list -l"),
    _row("cargo release", _RUST, needs="-x --execute"),
    _row("gem push|yank|owner"),
    _row("dotnet nuget push|delete", "-s --source -k --api-key"),
    _row("nuget push|delete", "-Source -ApiKey"),
    _row("vsce|ovsx publish|unpublish", "-p --pat"),
    _row("dart|flutter pub publish", dry="-n --dry-run"),
    _row("mix hex.publish|hex.retire"),
    _row("pod trunk push|delete|deprecate"),
    _row("luarocks upload"),
    _row("cpan-upload"),
    _row("lein|clj deploy"),
    _row("stack|cabal upload", needs="", dry="--candidate --test-tarball"),
    _row("snapcraft upload|push|release"),
    _row("goreleaser release", dry="--snapshot --skip-publish --skip=publish", values="-f --config -p --parallelism"),
    _row("gh release create|upload", _HUB, light="--draft -d"),
    _row("glab release create|upload"),
    Row("gh|glab release delete|delete-asset", "destroy-data", values=_HUB, heavy="-y --yes", scope="remote"),
    _row("docker|podman|nerdctl|buildah push", _DOCKER, dry=""),
    _row("docker|podman image|manifest|compose push", _DOCKER, dry=""),
    _row("docker|podman build", _DOCKER, needs="--push", dry=""),
    _row("docker buildx build|bake", _DOCKER, needs="--push", dry=""),
    # what was in the environment is gone
    Row("venv|virtualenv", "delete", files=True, needs="--clear", recursive="always", values="-p --python --prompt"),
    Row("uv venv", "delete", files=True, needs="--clear -c", recursive="always", values="-p --python --prompt"),
    _row("helm|oras|crane|cosign push|cm-push", "-n --namespace --kube-context"),
)


def _maven(call: Call) -> Iterator[Effect]:
    goals = call.with_values("-f --file -pl -P -s --settings -T").operands
    published = [goal for goal in goals if goal in ("deploy", "release:perform") or goal.endswith(":deploy")]
    if published and not call.has("-DdryRun", "--help"):
        yield call.effect("publish", " ".join(published), scope="remote")


def _gradle(call: Call) -> Iterator[Effect]:
    """Gradle and sbt: a task of any project whose name begins with `publish`, unless it stays on this machine."""
    tasks = [word.rpartition(":")[2].rpartition("/")[2] for word in call.operands]
    published = [task for task in tasks if task.startswith(("publish", "uploadArchives")) and "Local" not in task]
    if published and not call.has("-m", "--dry-run", "--help"):
        yield call.effect("publish", " ".join(published), scope="remote")


# program: the words or options that remove, and the options of a dry run
_REMOVERS: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(
        ("apt", "apt-get", "aptitude"),
        ("remove purge autoremove autopurge", "-s --simulate --just-print --dry-run --recon --no-act"),
    ),
    **dict.fromkeys(("dnf", "yum", "microdnf"), ("remove erase autoremove", "--assumeno --downloadonly")),
    "zypper": ("remove rm", "--dry-run -D"),
    "apk": ("del", "-s --simulate"),
    "pacman": ("-R --remove", "-p --print"),
    "yay": ("-R --remove", "-p --print"),
    "dpkg": ("-r -P --remove --purge", "--dry-run --no-act --simulate"),
    "rpm": ("-e --erase", "--test"),
    "snap": ("remove", ""),
    "flatpak": ("uninstall remove", "--no-deploy"),
    "brew": ("uninstall remove rm", "-n --dry-run"),
    "port": ("uninstall", "-y"),
}
_SCOPES: Final[Mapping[str, Scope]] = {"brew": "outside", "flatpak": "outside", "snap": "outside", "port": "outside"}


def _remove(call: Call) -> Iterator[Effect]:
    """A package is many files: of the system, or of a manager that keeps its own beside it."""
    removing, dry = _REMOVERS[call.command.name]
    call = call.with_values("-o --option -c --config-file -t --target-release --root --installroot")
    options = [word for word in removing.split() if word.startswith("-")]
    if call.has("--help", *dry.split()):
        return
    if options:
        packages = call.operands if call.has(*options) else []
    else:
        packages = call.operands[1:] or ["…"] if call.operands[:1] and call.operands[0] in removing.split() else []
    if packages:
        scope = _SCOPES.get(call.command.name, "system")
        yield call.effect("delete", "package " + " ".join(packages), scope=scope, recursive=True)


READERS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(("mvn", "mvnw"), _maven),
    **dict.fromkeys(("gradle", "gradlew", "sbt"), _gradle),
    **dict.fromkeys(_REMOVERS, _remove),
}
