"""Which files hold secrets, by their paths alone: the one list that all tables use."""

import posixpath
import re
from typing import Final

from billhook.effects.table import word_set

_HARMLESS_ENV: Final = word_set("example sample template tmpl tpl dist default defaults schema vault md")
"""Parts of a name that mark a pattern to copy from: `.env.example`; `.env.vault` is encrypted."""

_NAMES: Final = word_set(
    """
    .netrc _netrc .pgpass .git-credentials .pypirc .my.cnf .s3cfg .boto .dockercfg .htpasswd .vault-token
    secrets.yml secrets.yaml secrets.json secrets.toml secrets.env production.env prod.env
    credentials.json application_default_credentials.json .credentials.json terraform.tfstate
    logins.json key4.db cookies.sqlite master.key .dev.vars kubeconfig
    """
)
"""Names that are secret in any folder."""

_TAILS: Final = tuple(
    word_set("""
    .aws/credentials .kube/config .docker/config.json .config/gh/hosts.yml .config/hub .cargo/credentials
    .cargo/credentials.toml .gem/credentials .config/rclone/rclone.conf .terraform.d/credentials.tfrc.json
    .config/configstore/firebase-tools.json .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties
    sops/age/keys.txt .config/pypoetry/auth.toml .config/glab-cli/config.yml containers/auth.json
    billhook/fleet/enrolment.json
    """)
)
"""The last segments of paths that are secret below any folder, so that a container's or a backup's home counts too."""

_FOLDERS: Final = word_set(".gnupg .azure .password-store Keychains keyrings")
"""Folders in which every file is secret."""

_ENDINGS: Final = tuple(
    word_set(".key .p12 .pfx .jks .keystore .kdbx .ppk .tfstate .tfstate.backup .keychain-db .creds")
)
_OPEN_SSH: Final = frozenset({"config", "known_hosts", "known_hosts.old", "authorized_keys", "environment"})
_BROWSERS: Final = ("chrome", "chromium", "brave", "edge", "firefox", "mozilla", "safari", "opera")
_BROWSER_FILES: Final = frozenset({"Cookies", "Login Data", "Cookies.binarycookies", "Web Data"})
_KEY = re.compile(r"id_(?:rsa|dsa|ecdsa|ed25519|$)")  # the last: `id_*`
_ACCOUNT = re.compile(r"(?:service[-_]?account|client[-_]?secret)[^/]*\.json")
_CERTIFICATE = re.compile(r"cert|chain|public|pubkey|bundle|^(?:root[-_]?)?ca(?:[-_.]|$)")
_PROCESS = re.compile(r"/proc/[^/]+(?:/task/[^/]+)?/environ")
_USER = re.compile(r"(?:~|/root|/var/root|/home/[^/]+|/Users/[^/]+)")


def is_secret_file(path: str, home: str = "") -> bool:
    """Whether a path names a file that holds a secret. `home`: where a home is in no usual place.

    Signs of a pattern count as if they matched nothing, so that `.env*` and `~/.ssh/id_*` are secret too."""
    path = path.translate(_NO_SIGNS).replace("\\", "/")
    folder, name = posixpath.split(path)
    if name.endswith(".pub"):
        return False
    return (
        name in _NAMES
        or name.endswith(_ENDINGS)
        or _is_env(name)
        or _is_key(name)
        or _ACCOUNT.fullmatch(name) is not None
        or _by_folder(path, folder.split("/"), name)
        or (name == ".npmrc" and (folder == home or _USER.fullmatch(folder) is not None))
    )


_NO_SIGNS: Final = {ord(sign): None for sign in "*?[]"}


def _is_env(name: str) -> bool:
    parts = name.split(".")
    return parts[:2] == ["", "env"] and _HARMLESS_ENV.isdisjoint(parts)


def _is_key(name: str) -> bool:
    """A private key by its name; a certificate that ends in `.pem` as well is public."""
    if name.endswith(".pem"):
        return "key" in name.replace("pubkey", "") or _CERTIFICATE.search(name[:-4]) is None
    return _KEY.match(name) is not None


def _by_folder(path: str, folders: list[str], name: str) -> bool:
    if path.endswith(_TAILS) and any(("/" + path).endswith("/" + tail) for tail in _TAILS):
        return True
    if name in ("auth.json", "oauth_creds.json") and folders[-1:] and folders[-1].startswith("."):
        return True  # where programs keep their sign-in, such as `~/.composer/auth.json`
    if folders[-3:] == [".aws", "sso", "cache"]:
        return True
    if ".ssh" in folders:
        return name not in _OPEN_SSH
    if "gcloud" in folders and ("credential" in path or "access_tokens" in name):
        return True
    if name in _BROWSER_FILES:
        return any(browser in path.lower() for browser in _BROWSERS)
    if path.startswith(("/run/secrets/", "/var/run/secrets/")):
        return True
    if folders[:2] == ["", "etc"]:
        return _of_system(path, name)
    return not _FOLDERS.isdisjoint(folders) or _PROCESS.fullmatch(path) is not None


def _of_system(path: str, name: str) -> bool:
    if path.startswith("/etc/kubernetes/"):
        return name.endswith((".conf", ".key"))
    if path.startswith("/etc/ssh/"):
        return name.startswith("ssh_host_") and name.endswith("_key")
    return name in ("shadow", "shadow-", "gshadow", "gshadow-", "krb5.keytab") or path.startswith("/etc/ssl/private/")
