"""Programs that send data to another machine, or give it a shell here. A download is harmless by itself."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from billhook.effects.effect import Effect
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import Call, Reader, Row, word_set

_HERE = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:[^/@]*@)?(?:localhost|127(?:\.\d+){3}|\[?::1\]?|0\.0\.0\.0)(?:[:/?]|$)"
)
_REMOTE = re.compile(r"[a-z0-9+]+://|[\w.@\0-]+:")  # `host:path`, `user@host:`, `s3://bucket`
_NETWORK = re.compile(r"(?:tcp|udp|sctp|dccp|vsock|openssl|ssl|proxy)[46]?(?:-|:|$)|socks", re.IGNORECASE)
_PROGRAM = re.compile(r"(?:exec|system|shell)(?::|$)", re.IGNORECASE)
_OPENED = re.compile(r"(?:file|open|gopen):\"?([^,\"]+)", re.IGNORECASE)
_PUT = re.compile(r"(?:^|[;\n])\s*m?put\s+(?:-\w+\s+)*([^\s;]+)")


CURL_VALUES: Final = """
-d --data --data-raw --data-binary --data-urlencode --data-ascii -F --form --form-string -T --upload-file --json -X
--request -H --header -u --user -o --output -A --user-agent -b --cookie -c --cookie-jar -e --referer -x --proxy -m
--max-time --connect-timeout -K --config -E --cert --key --cacert --capath -w --write-out -r --range --url --retry
--retry-delay --resolve --interface --unix-socket --output-dir -D --dump-header --limit-rate -Y -y -z -C -t -Q -U
--trace --stderr
"""
_CURL_DATA: Final = ("-d", "--data", "--data-binary", "--data-urlencode", "--data-ascii", "--json")
_CURL_FORM: Final = ("-F", "--form")
_CURL_FILE: Final = ("-T", "--upload-file")
_CURL_TEXT: Final = ("--data-raw", "--form-string")
WGET_VALUES: Final = """
-O -o -P -U -e -t -T -w -Q -a -i -A -R -D -I -X -l --post-file --body-file --post-data --body-data --method -B
--output-document --directory-prefix --output-file --append-output --input-file --user-agent --header --tries
--timeout
"""


# program and subcommand, the options that take a value, the options that name the files; the operands are files too
_SENDERS: Final[Mapping[str, str]] = {
    "gh gist create": "-d --desc -f --filename",
    "glab snippet create": "-t --title -d --description -f --filename",
    "az storage blob upload": "-f --file -s --source -n --name -c --container-name --account-name -d --destination",
    "az storage blob upload-batch": "-s --source -d --destination --account-name",
    "croc send": "--code -c",
    "wormhole send": "--code",
    "magic-wormhole send": "--code",
    "ffsend upload": "",
    **dict.fromkeys(("gist", "haste", "slackcat", "wgetpaste", "dpaste", "transfer"), "-d -t -c"),
    "telegram-send": "-f --file --config",
    "pastebinit": "-i -b -a -t",
    "s3cmd put": "",
    "b2 upload-file": "",
    "mutt": "-a -s -c -b",
    "mail": "-a -A -s -c -b",
    "mailx": "-a -A -s -c -b",
    "sendemail": "-a -f -t -u -m -s",
}


def _is_secret(call: Call, files: Iterable[str]) -> bool:
    """Whether a secret flows: by a substitution, on standard input, or as a file that is named."""
    command = call.command
    if {"secret", "environment"} & (command.origins | command.fed):
        return True
    paths = (path for word in (*files, *command.reads) for path in call.paths(word))
    return any(is_secret_file(path) or is_secret_file(f"{path}/file") for path in paths)  # a folder of secrets as well


def is_here(address: str) -> bool:
    """Whether an address is on this machine: a developer's own server."""
    return _HERE.match(address) is not None


def _upload(call: Call, target: str, files: Iterable[str] = ()) -> Iterator[Effect]:
    if not is_here(target):
        yield call.effect("upload", target, scope="remote", weight="heavy" if _is_secret(call, files) else "light")


def _curl(call: Call) -> Iterator[Effect]:
    call = call.with_values(CURL_VALUES)
    values = call.options.values
    named = [value.partition("@")[2] for value in values(*_CURL_DATA) if "@" in value[:1] or "=" not in value]
    named += [
        re.split("[;,]", value.partition("=")[2][1:])[0] for value in values(*_CURL_FORM) if re.search("=[@<]", value)
    ]
    named += values(*_CURL_FILE)
    sends = values(*_CURL_DATA, *_CURL_FORM, *_CURL_FILE, *_CURL_TEXT)
    if sends or "secret" in call.command.origins:
        yield from _upload(call, next(iter([*call.operands, *values("--url")]), ""), filter(None, named))


def _wget(call: Call) -> Iterator[Effect]:
    call = call.with_values(WGET_VALUES)
    files = call.options.values("--post-file", "--body-file")
    if files or call.has("--post-data", "--body-data") or "secret" in call.command.origins:
        yield from _upload(call, next(iter(call.operands), ""), files)


def _httpie(call: Call) -> Iterator[Effect]:
    """`http POST url field=value file@path field=@path`; without a method, data alone makes it a POST."""
    items = [word for word in call.operands if "=" in word.lstrip("=") or "@" in word]
    files = [word.rpartition("@")[2] for word in items if "@" in word and "://" not in word]
    data = [word for word in items if "://" not in word and "==" not in word]
    address = next((word for word in call.operands if word not in data and not word.isupper()), "")
    if data or call.command.fed or call.command.reads:
        yield from _upload(call, address, files)


def _ftp(call: Call) -> Iterator[Effect]:
    """sftp, ftp, lftp: the `put` commands of their standard input, of `-e` and of a batch file."""
    call = call.with_values("-b -e -u -p -P -i -F -o -c -J")
    texts = [call.command.stdin or "", *call.options.values("-e", "-c")]
    files = [*call.command.reads, *call.options.values("-b")]
    texts += [call.world.fs.read(path) or "" for word in files for path in call.paths(word)]
    sent = [name for text in texts for name in _PUT.findall(text)]
    sent += call.operands if any("://" in value for value in call.options.values("-u")) else []
    if sent:
        yield from _upload(call, next(iter(call.operands), ""), sent)


def _nc(call: Call) -> Iterator[Effect]:
    command = call.command
    call = call.with_values("-e -c -p -w -s -x -X -i -q --exec --sh-exec --lua-exec -I -O -m -T -V")
    if call.options.values("-e", "-c", "--exec", "--sh-exec", "--lua-exec"):
        yield call.effect("remote-shell", " ".join(call.operands), scope="remote")
    elif not call.has("-z") and (command.piped or command.reads or command.stdin or command.fed):
        yield from _upload(call, ":".join(call.operands[:2]))


def _socat(call: Call) -> Iterator[Effect]:
    addresses = call.operands
    network = [word for word in addresses if _NETWORK.match(word)]
    if not network:
        return
    if any(_PROGRAM.match(word) for word in addresses):
        yield call.effect("remote-shell", network[0], scope="remote")
    files = [found[1] for word in addresses if (found := _OPENED.match(word))]
    if files or "secret" in call.command.fed:
        yield from _upload(call, network[0].partition(":")[2], files)


def _ssh(call: Call) -> Iterator[Effect]:
    """The command on the other machine is read separately; here: its input, and a tunnel back to this machine."""
    call = call.with_values("-i -p -l -o -F -J -L -D -R -b -c -E -e -I -m -O -Q -S -W -w")
    if call.options.values("-R"):
        yield call.effect("remote-shell", next(iter(call.operands), ""), scope="remote", weight="light")
    if _is_secret(call, ()):
        yield from _upload(call, next(iter(call.operands), ""))


def _hub(call: Call) -> Iterator[Effect]:
    """A comment, an issue or a request that shows a secret to others; `gh secret set` is made for them."""
    call = call.with_values("-R --repo -F --body-file --notes-file -b --body -t --title")
    files = call.options.values("-F", "--body-file", "--notes-file")
    if call.operands[:1] not in (["secret"], ["auth"], ["gist"], ["variable"]) and _is_secret(call, files):
        yield from _upload(call, " ".join(call.operands[:2]), files)


def _carries_secret(call: Call) -> Iterator[Effect]:
    """Programs that send no data, except inside the name that they look up, or on standard input."""
    if (call.command.name != "openssl" or call.operands[:1] == ["s_client"]) and _is_secret(call, ()):
        yield from _upload(call, next(iter(call.operands), ""))


def _bucket(call: Call) -> Iterator[Effect]:
    """`aws s3 cp`, `gsutil cp`, `gcloud storage cp`, `rclone copy` from here to a bucket."""
    operands = [
        word for word in call.with_values("--profile --region -P --config").operands if word not in ("s3", "storage")
    ]
    if len(operands) < 3 or operands[0] not in ("cp", "mv", "sync", "rsync", "copy", "copyto", "move", "moveto", "put"):
        return
    source, target = operands[-2:]
    if _REMOTE.match(target) and not _REMOTE.match(source) and not call.has("--dry-run", "--dryrun", "-n"):
        yield from _upload(call, target, [source])


def _send(call: Call) -> Iterator[Effect]:
    """Programs of which each operand is a file to send."""
    for words, valued in _SENDERS.items():
        name, *subcommand = words.split()
        sending = call.with_values(valued)
        if name == call.command.name and sending.operands[: len(subcommand)] == subcommand:
            files = sending.operands[len(subcommand) :] + sending.options.values(
                "-f", "--file", "-s", "--source", "-a", "-A"
            )
            yield from _upload(call, words, files)


_RCLONE: Final = "--config --filter --include --exclude --transfers --bwlimit --max-age --min-age"
ROWS: Final[tuple[Row, ...]] = (
    Row("rclone sync|delete|deletefile|purge|rmdir|rmdirs|cleanup|dedupe", "destroy-data", "last", dry="-n --dry-run",
        values=_RCLONE, scope="remote"),
    Row("rclone move|moveto", "delete", "first", files=True, dry="-n --dry-run", values=_RCLONE, recursive="always"),
    Row("s3cmd del", "destroy-data", needs="--recursive -r --force -f", dry="-n --dry-run", scope="remote"),
    Row("s3cmd rb", "destroy-data", dry="-n --dry-run", scope="remote"),
    Row("s3cmd sync", "destroy-data", "last", needs="--delete-removed", dry="-n --dry-run", scope="remote"),
    Row("s5cmd rm", "destroy-data", needs="*[*]*", dry="--dry-run", scope="remote"),
    Row("mc rb|rm", "destroy-data", needs="--recursive -r --force", dry="--dry-run --fake", scope="remote"),
    Row("mc mirror", "destroy-data", "last", needs="--remove", dry="--dry-run --fake", scope="remote"),
    Row("azcopy remove|rm", "destroy-data", needs="--recursive", dry="--dry-run", scope="remote"),
    Row("azcopy sync", "destroy-data", "last", needs="--delete-destination=true", dry="--dry-run", scope="remote"),
    Row("b2 delete-bucket", "destroy-data", scope="remote"),
    Row("b2 bucket delete", "destroy-data", scope="remote"),
    Row("b2 rm", "destroy-data", needs="-r --recursive", dry="--dry-run", scope="remote"),
    # a terminal of this machine for others
    Row("tmate|upterm|sshx|ttyd|gotty", "remote-shell", "none", dry="-V", scope="remote"),
    Row("ngrok tcp 22", "remote-shell", scope="remote"),
    Row("chisel client", "remote-shell", "first", needs="R:*", scope="remote"),
    Row("deno|bun run", "run-remote", "first", needs="http://* https://*", scope="remote"),
)  # fmt: skip
READERS: Final[Mapping[str, Reader]] = {
    "curl": _curl,
    "wget": _wget,
    **dict.fromkeys(("http", "https", "xh", "xhs"), _httpie),
    **dict.fromkeys(("sftp", "ftp", "lftp"), _ftp),
    **dict.fromkeys(("nc", "ncat", "netcat", "nc.traditional", "nc.openbsd"), _nc),
    "socat": _socat,
    **dict.fromkeys(("ssh", "autossh"), _ssh),
    **dict.fromkeys(word_set("dig nslookup host drill ping telnet whois openssl sendmail"), _carries_secret),
    **dict.fromkeys(("aws", "gsutil", "gcloud", "rclone", "mc"), _bucket),
    **dict.fromkeys({words.split()[0] for words in _SENDERS}, _send),
    **dict.fromkeys(("gh", "glab"), lambda call: chain(_send(call), _hub(call))),
}
