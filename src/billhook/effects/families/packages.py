"""Package managers: what is published, yanked, or removed from this machine.

Installing is harmless here, and so is removing a dependency from a project: version control has its list.
"""

from collections.abc import Mapping
from typing import Final

from billhook.effects.effect import Scope
from billhook.effects.table import Reader, Row

_NPM: Final = "--prefix -C --dir --cwd --filter -F -w --workspace --tag --access --otp --registry --userconfig"
_RUST: Final = "-p --package --manifest-path --token --registry --index --target --features -F --vers --version -Z"
_HUB: Final = "-R --repo -t --title -n --notes -F --notes-file --target --discussion-category"
_DOCKER: Final = "-H --host --context -c --config -l --log-level --platform"
_REMOVING: Final = "-o --option -c --config-file -t --target-release --root --installroot"
_MAVEN: Final = "deploy *:deploy *:deploy-file *:perform *:release"
_GRADLE: Final = "publish* *:publish* */publish* +publish* uploadArchives *Publish closeAndRelease*"

_OWN: Final = "*://localhost* *://127.0.0.1*"


def _row(words: str, values: str = "", dry: str = "--dry-run", needs: str = "", light: str = "") -> Row:
    return Row(words, "publish", dry=dry, needs=needs, light=light, values=values, scope="remote")


def _taken_back(words: str, heavy: str = "-y --yes -f --force") -> Row:
    return Row(words, "destroy-data", dry="--dry-run", heavy=heavy, values=_HUB, scope="remote")


def _removed(words: str, dry: str = "", needs: str = "", scope: Scope = "system") -> Row:
    """A package is many files: of the system, or of a manager that keeps its own beside it."""
    return Row(words, "delete", noun="package", needs=needs, dry=dry, recursive="always", values=_REMOVING, scope=scope)


_UNPUBLISH: Final = "|".join("unpublish"[:length] for length in range(3, 10))  # npm accepts the beginning of a verb

ROWS: Final[tuple[Row, ...]] = (
    _row("npm|pnpm|yarn|bun|lerna|jsr|deno|changeset|rush publish", _NPM, dry="--dry-run -n"),
    _row("yarn npm publish", _NPM),
    _row("yarn npm tag add|remove", _NPM),
    _row("yarn workspaces foreach npm publish", _NPM),
    _row("npm|pnpm deprecate", _NPM),
    _row("npm|pnpm dist-tag|dist-tags add|rm|set", _NPM),
    _row("npm|pnpm|yarn owner|access|team|org add|rm|remove|set|grant|revoke|public|restricted|destroy", _NPM),
    _row("npm|pnpm token create|revoke|delete", _NPM),
    _row("npm pub|publ|publi|publis", _NPM, dry="--dry-run -n"),
    Row(f"npm|pnpm {_UNPUBLISH}", "publish", dry="--dry-run", values=_NPM, scope="remote", weight="heavy"),
    _row("semantic-release|release-it|np", dry="--dry-run --preview --no-publish"),
    _row("twine upload", "-r --repository --repository-url -u --username -p --password -c --comment --config-file"),
    _row("uv|poetry|hatch|flit|pdm|rye publish", "--repository -r -u -p --index --token --directory -C"),
    _row("python|python3|py setup.py", needs="upload register"),
    _row("maturin publish|upload", "-r --repository -m --manifest-path"),
    _row("conda|anaconda|cloudsmith upload|push", "-u --user -l --label"),
    _taken_back("anaconda remove"),
    _taken_back("jf|jfrog rt del|delete|repo-delete|rdel", "--quiet"),
    _row("cargo publish", _RUST, dry="--dry-run -n"),
    _row("cargo yank|owner", _RUST, dry="--dry-run --list -l"),
    _row("cargo +* publish|yank|owner", _RUST, dry="--dry-run -n --list -l"),
    _row("cargo release", _RUST, needs="-x --execute"),
    _row("cargo workspaces|ws publish", _RUST),
    _row("gem push|yank"),
    _row("gem owner", needs="-a --add -r --remove"),
    _row("rake release", dry="-n --dry-run -T -P"),
    _row("mvn|mvnw", "-f --file -pl -P -s --settings -T", "-DdryRun*", _MAVEN),
    _row("gradle|gradlew|sbt", "--tests --group", "-m --dry-run *Local*", _GRADLE),
    _row("dotnet nuget push|delete", "-s --source -k --api-key"),
    _row("nuget push|delete", "-Source -ApiKey"),
    _row("vsce|ovsx publish|unpublish", "-p --pat"),
    _row("dart|flutter pub publish", dry="-n --dry-run"),
    _row("mix hex.publish|hex.retire"),
    _row("mix hex.owner add|remove|transfer"),
    _row("pod trunk push|delete|deprecate|add-owner|remove-owner"),
    _row("pod repo push"),
    _row("elm|nimble|opam|spago|wally|wapm|wasm-pack publish"),
    _row("luarocks|conan upload"),
    _row("cpan-upload"),
    _row("lein|clj deploy"),
    _row("stack|cabal upload", needs="", dry="--candidate --test-tarball"),
    _row("swift package-registry publish"),
    _row("ansible-galaxy collection|role publish|import"),
    _row("snapcraft upload|push|release"),
    _row("fastlane release|deploy|beta|deliver|supply|pilot|upload_to_testflight|upload_to_app_store"),
    _row("fastlane ios|android|mac release|deploy|beta"),
    _row("eas submit|update"),
    _row("expo|ko publish"),
    _row("xcrun altool", needs="--upload-app --upload-package"),
    _row("huggingface-cli|hf upload|upload-large-folder"),
    _taken_back("huggingface-cli|hf repo delete"),
    _row("goreleaser release", dry="--snapshot --skip-publish --skip=publish", values="-f --config -p --parallelism"),
    _row("gh release create|upload", _HUB, light="--draft -d"),
    _row("gh release edit", _HUB, needs="--draft=false"),
    _row("glab release create|upload"),
    _taken_back("gh|glab release delete|delete-asset", "-y --yes"),
    _row("docker|podman|nerdctl|buildah push", _DOCKER, dry=""),
    _row("docker|podman image|manifest|compose push", _DOCKER, dry=""),
    _row("docker|podman build", _DOCKER, needs="--push", dry=""),
    _row("docker buildx build|bake", _DOCKER, needs="--push", dry=""),
    _row("docker buildx imagetools create", _DOCKER),
    _row("helm|oras|crane|cosign push|cm-push", "-n --namespace --kube-context"),
    _row("crane copy|cp|tag|append|mutate"),
    _taken_back("crane delete"),
    _row("skopeo copy * docker://*"),
    _row("skopeo sync", "-s --src -d --dest", needs="-d=docker --dest=docker"),
    # what was in the environment is gone
    Row("venv|virtualenv", "delete", files=True, needs="--clear", recursive="always", values="-p --python --prompt"),
    Row("uv venv", "delete", files=True, needs="--clear -c", recursive="always", values="-p --python --prompt"),
    # packages of the system, and programs that the user installed for every project
    _removed(
        "apt|apt-get|aptitude remove|purge|autoremove|autopurge",
        "-s --simulate --just-print --dry-run --recon --no-act",
    ),
    _removed("dnf|yum|microdnf remove|erase|autoremove|groupremove", "--assumeno --downloadonly"),
    _removed("dnf|yum group|module remove", "--assumeno --downloadonly"),
    _removed("zypper remove|rm", "--dry-run -D"),
    _removed("apk del", "-s --simulate"),
    _removed("pacman|yay", "-p --print", needs="-R --remove"),
    _removed("dpkg", "--dry-run --no-act --simulate", needs="-r -P --remove --purge"),
    _removed("rpm", "--test", needs="-e --erase"),
    _removed("snap remove", scope="outside"),
    _removed("flatpak uninstall|remove", "--no-deploy", scope="outside"),
    _removed("brew uninstall|remove|rm", "-n --dry-run", scope="outside"),
    _removed("port uninstall", "-y", scope="outside"),
    _removed("npm|pnpm|bun uninstall|remove|rm|un|r", "--dry-run", "-g --global --location=global", "outside"),
    _removed("yarn global remove", scope="outside"),
    _removed("pip|pip3 uninstall pip|setuptools", scope="outside"),
    _removed("gem uninstall", needs="-I --ignore-dependencies", scope="outside"),
    _removed("pipx uninstall-all", scope="outside"),
    _removed("rustup self uninstall", scope="outside"),
    _removed("emerge", "-p --pretend", "-C --unmerge -c --depclean"),
    _removed("nix-env", "--dry-run", "-e --uninstall", "outside"),
    Row("nix-collect-garbage", "drop-recovery", "none", needs="-d --delete-old", dry="--dry-run", scope="outside"),
    Row("guix gc", "drop-recovery", "none", needs="-d --delete-generations", scope="outside"),
    _removed("composer global remove", scope="outside"),
    _removed("conda|mamba|micromamba env remove", "-d --dry-run", scope="outside"),
    _removed("conda|mamba|micromamba remove|uninstall", "-d --dry-run", "--all", "outside"),
    # where every later package comes from: anyone on the way may replace what is not encrypted
    Row("npm|pnpm|yarn config set registry http://*", "persist", dry=_OWN, scope="home"),
    Row("npm|pnpm config set registry=http://*", "persist", dry=_OWN, scope="home"),
    Row("npm|pnpm config set script-shell|shell|editor|node-options|git *", "persist", scope="home"),
    Row("pip|pip3 config set *index-url http://*", "persist", dry=_OWN, scope="home"),
)
READERS: Final[Mapping[str, Reader]] = {}
