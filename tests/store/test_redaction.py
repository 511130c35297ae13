"""Secrets are taken out by name and by shape; ordinary texts stay as they are, whoever wrote them.

The secrets here are made up, and put together at run time so that no scanner takes them for real ones.
"""

import hashlib
import os
import re
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billhook.store.redaction import Redactor, redactor
from billhook.store.secret_commands import FLAGS
from billhook.store.secret_hints import COMMANDS, FLAGS_RULE
from billhook.store.secret_names import (
    BEFORE_KEY,
    BEFORE_PASS,
    BEFORE_TOKEN_HARMLESS,
    BEFORE_TOKENS,
    ENDINGS,
    HARMLESS_FIRST,
    HARMLESS_LAST,
    WORDS,
    is_secret,
)
from billhook.store.secret_shapes import SHAPES

PAGE = (Path(__file__).parents[2] / "docs" / "redaction.md").read_text()
KEY = b"k" * 32
SECRET = "hunt3r" + "XyzQ"
RANDOM = hashlib.sha512(b"made up").hexdigest().upper()[:48] + hashlib.sha512(b"more").hexdigest()[:48]
MARK = re.compile(r"\[redacted (\d+) chars ([0-9a-f]{12})\]")


@pytest.fixture
def taking_out() -> Redactor:
    return Redactor(KEY)


NAMED = {
    "export": "export API_KEY=%s",
    "one call's environment": "PASSWORD=%s make deploy",
    "several": "A=1 GITHUB_TOKEN=%s B=2 cmd",
    "double quotes": 'export SECRET="%s"; ls',
    "single quotes": "export SECRET='%s' && ls",
    "glued parts": "PASSWORD=\"ab\"'%s'",
    "dollar quotes": "PASSWORD=$'%s'",
    "never closed": "export TOKEN='%s",
    "option": "deploy --token %s --now",
    "option with =": "deploy --password=%s --now",
    "option in quotes": "deploy --api-key '%s' --now",
    "option in a list": 'args: ["--api-key", "%s"]',
    "one dash": "java -Dspring.datasource.password=%s -jar x",
    "docker -e": "docker run -e DB_PASS=%s x",
    "fish": "set -gx API_KEY %s",
    "csh": "setenv AUTH_TOKEN %s",
    "PowerShell": '$env:API_KEY = "%s"',
    "mysql": "mysql -u root -p%s db",
    "mysqldump": "mysqldump -h x -p%s db",
    "curl": "curl -u bob:%s https://x.example",
    "curl in quotes": 'curl -u "bob:%s" https://x.example',
    "curl --user": "curl --user bob:%s https://x.example",
    "curl, several flags in one": "curl -sSu bob:%s https://x.example",
    "curl bearer": "curl -H 'Authorization: Bearer %s' https://x.example",
    "curl basic": 'curl -H "Authorization: Basic %s" https://x.example',
    "curl own header": "curl -H 'X-Api-Key: %s' https://x.example",
    "curl cookie": "curl -H 'Cookie: a=b; sid=%s' https://x.example",
    "curl header, no scheme": "curl -H 'Authorization: %s'",
    "httpie": "http -a bob:%s example.org",
    "sshpass": "sshpass -p %s ssh host",
    "redis": "redis-cli -a %s ping",
    "docker login": "docker login -u bob -p %s registry.example",
    "openssl": "openssl rsa -passin pass:%s -in x",
    "here-string": "docker login --password-stdin <<< %s",
    "here-string in quotes": 'sudo -S ls <<< "%s"',
    "echo": "echo %s | docker login -u bob --password-stdin",
    "printf": "printf '%%s' '%s' | gh auth login --with-token",
    "chpasswd": "echo 'bob:%s' | chpasswd",
    "here-document": "cat > .env <<EOF\nA=1\nAPI_KEY=%s\nEOF",
    "address": "git clone https://bob:%s@example.org/x.git",
    "address of a database": "postgres://bob:%s@db/x",
    "address with @ in it": "postgres://bob:p@%s@db/x",
    "address with / in it": "postgres://bob:%s/y@db/x",
    "query": "https://example.org/?access_token=%s&b=1",
    "netrc": "machine example.org login bob password %s",
    "npmrc": "//registry.example/:_authToken=%s",
    "docker's config": '{"auths": {"x": {"auth": "%s12=="}}}',
    "ini": "[default]\naws_secret_access_key = %s\n",
    "yaml": "db:\n  password: %s\n  user: bob",
    "connection string": "Server=x;Uid=root;Pwd=%s;",
    "Azure": "AccountName=x;AccountKey=%s;EndpointSuffix=y",
    "SQL": "ALTER USER bob WITH PASSWORD '%s';",
    "MySQL": "CREATE USER bob IDENTIFIED BY '%s';",
    "JSON": '{"a": 1, "password": "%s", "b": 2}',
    "JSON in JSON": '{\\"password\\": \\"%s\\", \\"b\\": 2}',
    "JSON in JSON in JSON": '{\\\\\\"password\\\\\\": \\\\\\"%s\\\\\\"}',
    "JSON cut off": '{"a": 1, "password": "%s',
    "JSON over lines": '{"client_secret":\n   "%s"}',
    "escaped lines": "A=1\\nTOKEN=%s\\nB=2",
    "list of secrets": "api_keys = ['%s', 'b']",
    "object of secrets": '"credentials": {"value": "%s"}',
    "Python": 'os.environ["API_KEY"] = "%s"',
    "Python's dict": "{'password': '%s'}",
    "Go": 'password := "%s"',
    "camel case": 'clientSecret: "%s"',
    "prose": "the password is %s.",
    "an error": "login failed for bob (password: %s)",
    "quoted in an error": 'wrong password "%s" for bob',
    "Set-Cookie": "Set-Cookie: sid=%s; Path=/",
    "GitLab's header": "PRIVATE-TOKEN: %s",
    "percent escapes": "q=a%%26token%%3D%s",
    "one word": "PGPASSWORD=%s psql",
}


@pytest.mark.parametrize("text", NAMED.values(), ids=NAMED.keys())
def test_what_has_a_name_is_taken_out_of_texts(text: str, taking_out: Redactor) -> None:
    """Nothing of the secret is left, the rest of the text is, and a second time changes nothing."""
    found = taking_out.text(text % SECRET)

    assert SECRET[:6] not in found and SECRET[-5:] not in found
    assert found[:4] == text[:4] and MARK.search(found)
    assert taking_out.text(found) == found
    encoded = taking_out.value({"tool_input": {"list": ["x", {"command": text % SECRET}]}})
    assert SECRET not in str(encoded)


ARGUMENTS = {
    "option": ["deploy", "--token", SECRET],
    "curl": ["curl", "-s", "-u", f"bob:{SECRET}", "https://x.example"],
    "curl first": ["/usr/bin/curl", "-u", f"bob:{SECRET}"],
    "mysql": ["mysql", f"-p{SECRET}"],
    "sshpass": ["sshpass", "-p", SECRET, "ssh"],
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_commands_that_are_lists(arguments: list[str], taking_out: Redactor) -> None:
    """A list of arguments is read like the command that it is."""
    found = taking_out.value({"args": arguments})

    assert SECRET not in str(found) and found["args"][0] == arguments[0] and len(found["args"]) == len(arguments)


@pytest.mark.parametrize("text", ['curl -u "bob:a b;%s" x', "docker login --password-stdin <<< 'a b;%s' x"])
def test_quotes_hold_a_secret_together(text: str, taking_out: Redactor) -> None:
    """Spaces and signs inside of quotes don't end it."""
    assert SECRET not in taking_out.text(text % SECRET)


def tokens() -> dict[str, str]:
    """One made-up token of each prefix in the table."""
    bodies = {
        "A-Z0-9": RANDOM[:48].upper(),
        "0-9a-f": RANDOM[48:] + RANDOM[48:],
        "0-9a-f-": RANDOM[48:],
    }
    made = {}
    for shape in SHAPES:
        for prefix in shape.prefixes:
            body = bodies.get(shape.body, RANDOM[:24] + RANDOM[50:80])
            if shape.name in {"JWT", "SendGrid"}:
                body = f"{body[:20]}.{body[4:40]}.{body[5:30]}"
            made[prefix] = prefix + (body[:16] if shape.name == "AWS key id" else body)
    return made


TOKENS = tokens()
AROUND = ["%s", "I used %s, and it works.", '{"x": "%s"}', "a\\n%s\\nb", "x=%s", "\x1b[32m%s\x1b[0m", "a%%20%s", "(%s)"]


@pytest.mark.parametrize("prefix", TOKENS)
def test_tokens_are_known_by_their_shape(prefix: str, taking_out: Redactor) -> None:
    """Whatever stands around it, in a text and in a value."""
    secret = TOKENS[prefix].removeprefix(prefix)
    for around in AROUND:
        text = around % TOKENS[prefix]
        for found in (taking_out.text(text), str(taking_out.value({"any": [{"thing": text}]}))):
            assert secret not in found and secret[-10:] not in found, text
        assert taking_out.text(taking_out.text(text)) == taking_out.text(text)


def test_other_shapes(taking_out: Redactor) -> None:
    """Tokens without a prefix of their own, by what stands around them."""
    telegram = "123456789" + ":AA" + RANDOM[:33]
    aws = "AKIA" + RANDOM[:16].upper() + "," + RANDOM[8:48]
    for secret, text in ((telegram, f"https://api.telegram.org/bot{telegram}/x"), (aws.split(",")[1], aws)):
        assert secret not in taking_out.text(text)


def block(kind: str, lines: int, end: str = "\n") -> str:
    body = end.join(RANDOM[:32] + RANDOM[-32:] for _ in range(lines))
    return f"-----BEGIN {kind}PRIVATE KEY-----{end}{body}{end}-----END {kind}PRIVATE KEY-----"


BLOCKS = {
    "RSA": block("RSA ", 5),
    "OpenSSH": block("OPENSSH ", 5),
    "plain": block("", 3),
    "escaped": block("EC ", 5, "\\n"),
    "escaped twice": block("EC ", 5, "\\\\n"),
    "with headers": block("RSA ", 3).replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,00\n\n", 1),
    "cut off": block("", 5)[:200],
    "cut off and escaped": block("", 5, "\\n")[:200],
    "cut off, with a note": block("", 5)[:200] + "... [truncated]",
    "numbered": "\n".join(f"   {n}\t{line}" for n, line in enumerate(block("RSA ", 4).splitlines(), 1)),
    "numbered and cut off": "\n".join(f"   {n}→{line}" for n, line in enumerate(block("", 4).splitlines()[:-1], 1)),
    "in a diff": "\n".join(f"+{line}" for line in block("DSA ", 4).splitlines()),
    "two": block("", 2) + "\nand\n" + block("RSA ", 2),
}


@pytest.mark.parametrize("text", BLOCKS.values(), ids=BLOCKS.keys())
def test_private_keys(text: str, taking_out: Redactor) -> None:
    """Whole blocks, also cut off, escaped and numbered; what stands around them is kept."""
    found = taking_out.text(f"before\n{text}\nafter the key")

    assert RANDOM[:16] not in found and RANDOM[-16:] not in found and RANDOM[:4] not in found
    assert found.startswith("before\n") and found.endswith("after the key")
    assert taking_out.text(found) == found


HARMLESS = r"""
commit 3f2a9c1d8e7b6a5f4c3d2e1f0a9b8c7d6e5f4a3b
550e8400-e29b-41d4-a716-446655440000
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
/usr/local/share/keys/token_store/password.py
max_tokens: 4096
{"max_tokens": 4096, "token_count": 12}
Token usage: total=12,345 input=11,000
tokenizer = AutoTokenizer.from_pretrained("gpt2")
author: Jane
authority=example.org
password_file=/run/secrets/db
--password-file /run/secrets/db
--token-file=./token.txt
docker login --password-stdin
login(user=user, password=password)
token = get_token()
token = self.token
password = args.password
token: str
password: Optional[str] = None
def f(token: str, key: bytes) -> None:
export TOKEN=$GITHUB_TOKEN
TOKEN="${TOKEN}"
TOKEN=$(gh auth token)
curl -H "Authorization: Bearer $TOKEN" https://x
curl -H 'Authorization: Bearer <token>' https://x
GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}
f"https://{user}:{password}@host"
https://$USER:$PASS@host/
git@github.com:org/repo.git
http://localhost:8080/@scope/pkg
https://example.org/path?page=2#frag
ssh://git@example.org:22/x.git
Unexpected token: foo
SyntaxError: Unexpected token } in JSON at position 3
SyntaxError: Unexpected token '<', "<!DOCTYPE" is not valid JSON
use --token to set the token
--password PASSWORD  the password
the password is required
wrong password for user bob
Note about the password: it must be long
git checkout task-sk-fix-the-tokenizer-thing-now
class="sk-container-id-1 sk-estimator"
PWD=/home/me
primary_key: 42
sort(key=len)
public_key: ssh-rsa AAAAB3Nza
mkdir -p /tmp/x && mysql --version
docker run -u 1000:1000 -p 8080:80 curlimages/curl
curl -u 1000:1000 x
mysql -p db
npm_config_registry=https://registry.example
pypi-publish
hf_hub_download(repo_id="x")
eyJ is how JSON begins in base64
-----BEGIN CERTIFICATE-----
if "-----BEGIN PRIVATE KEY-----" in text: return parse_the_key(text)
credentials: "include"
nextPageToken: "CAUQAA"
eos_token = "</s>"
private_key: /etc/ssl/private/server.key
ssh -i ~/.ssh/id_ed25519 host
secret_name=db-main
kubectl get secret db -o yaml
passengers: 12
bypass=true
first_pass = 3
if not password:
token == other_token
cat <<< "hello world"
echo hello | grep sudo
Bearer authentication is used here
tests passed: 12, skipped: 3
the token is 4096 bytes
secrets.token_hex(16)
const token = await response.json();
let secret: string;
"token": null
"required": ["password", "token"]
password=""
password=***
API_KEY=<your key>
passwd: password updated successfully
monkey=banana
key=value
""".strip().splitlines()


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_texts_stay(text: str, taking_out: Redactor) -> None:
    """No false alarm, in a text or in a value."""
    assert taking_out.text(text) == text
    assert taking_out.value([{"command": text}]) == [{"command": text}]
    assert taking_out.count == 0


def test_by_key_at_any_depth(taking_out: Redactor) -> None:
    """Names count however they are written; all that lies below one is taken out, and keys are kept."""
    names = ["password", "API_KEY", "apiKey", "client-secret", "x-auth-token", "Authorization", "PGPASSWORD",
             "cookies", "private_key", "sessionKey", "DB Password", "SecretString", "AWS_SECRET_ACCESS_KEY",
             "api_key_2"]  # fmt: skip
    value = {"a": [{name: {"x": [SECRET, {"y": SECRET}]}} for name in names]}

    found = taking_out.redacted(value)

    assert SECRET not in str(found.value) and found.texts == 2 * len(names)
    assert [list(one) for one in found.value["a"]] == [[name] for name in names]
    assert value["a"][0]["password"]["x"][0] == SECRET, "the value itself is not changed"
    assert taking_out.redacted(found.value).texts == 0


def test_numbers_and_booleans_under_secret_names(taking_out: Redactor) -> None:
    """A number may be a password and goes; true, false, null and what stands for a secret stay."""
    found = taking_out.value({"password": 123456, "token": 1.5, "secret": True, "api_key": None, "cookie": "",
                              "jwt": "$JWT", "max_tokens": 4096, "tokens": 7})  # fmt: skip

    assert MARK.fullmatch(found["password"]) and MARK.fullmatch(found["token"])
    assert list(found.values())[2:] == [True, None, "", "$JWT", 4096, 7]


def test_pairs_of_name_and_value(taking_out: Redactor) -> None:
    """Variables and headers are often lists of objects with a name and a value."""
    value = [{"name": "API_KEY", "value": SECRET}, {"key": "Cookie", "value": SECRET}, {"name": "HOME", "value": "/x"}]

    found = taking_out.value(value)

    assert SECRET not in str(found) and found[2] == value[2] and found[0]["name"] == "API_KEY"


def test_a_schema_is_no_secret(taking_out: Redactor) -> None:
    """What says how a password has to look holds none; one with a value does."""
    schema = {"properties": {"password": {"type": "string", "description": "at least 8"}}}

    assert taking_out.value(schema) == schema
    assert SECRET not in str(taking_out.value({"password": {"type": "string", "value": SECRET}}))


def test_secrets_in_keys(taking_out: Redactor) -> None:
    """A key is kept, but for a secret that stands in it."""
    found = taking_out.value({f"https://bob:{SECRET}@example.org": 1})

    assert SECRET not in str(found) and next(iter(found)).startswith("https://bob:[redacted")


def test_more_keys() -> None:
    """Names that the user adds count like ours, in any spelling, in values and in texts."""
    taking_out = Redactor(KEY, more_keys=["employee_number", "x"])

    found = taking_out.value({"employeeNumber": "4711", "a": "EMPLOYEE_NUMBER=4711", "employee": "4711", "x": "4711"})

    assert MARK.fullmatch(found["employeeNumber"]) and "4711" not in found["a"] and found["employee"] == "4711"
    assert MARK.fullmatch(found["x"])
    assert Redactor(KEY).value({"employeeNumber": "4711"}) == {"employeeNumber": "4711"}


def test_equal_stays_equal() -> None:
    """Length and digest of a secret are the same wherever it stood; another key gives another digest."""
    one, other = Redactor(KEY), Redactor(b"o" * 32)
    texts = [f"PASSWORD={SECRET}", f"--token {SECRET}", f'{{"secret": "{SECRET}"}}']
    marks = {MARK.search(one.text(text)).group() for text in texts}  # type: ignore[union-attr]
    by_key = one.value({"password": SECRET})["password"]

    assert marks == {by_key}
    assert MARK.fullmatch(by_key).group(1) == str(len(SECRET))  # type: ignore[union-attr]
    assert other.text(texts[0]) not in one.text(texts[0])
    assert one.text("PASSWORD=b") != one.text("PASSWORD=c")


def test_without_a_secret_it_is_the_value_itself(taking_out: Redactor) -> None:
    """No copy is made of what has nothing to hide."""
    value = {"command": "ls", "author": ["x"]}

    assert taking_out.value(value) is value


class Strange:
    def __str__(self) -> str:
        raise RuntimeError(SECRET)


class Record(msgspec.Struct):
    password: str
    other: tuple[str, ...]


@pytest.mark.parametrize(
    "value",
    [None, 1, float("nan"), 10**5000, b"token=x", {1: 2, None: "token=x1"}, {"token": {1, 2}}, Strange(), [Strange()],
     "\ud800 password=\udc00x", {"\ud800": "password"}, object(), Path("/x"), {"a": Strange, "password": 10**5000}],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_nothing_raises(value: Any, taking_out: Redactor) -> None:
    """Whatever the value is, JSON or not."""
    taking_out.value(value)
    taking_out.value({"token": value})


def test_records_are_looked_into(taking_out: Redactor) -> None:
    """What the log would write as an object is redacted as one."""
    assert SECRET not in str(taking_out.value([Record(SECRET, (f"token={SECRET}",))]))


def test_depth(taking_out: Redactor) -> None:
    """10,000 levels of lists and objects, with the secret at the bottom."""
    value: Any = {"password": SECRET, "x": f"TOKEN={SECRET}"}
    for level in range(10_000):
        value = [value] if level % 2 else {"a": value}

    found = taking_out.redacted(value)

    assert found.texts == 2
    inner = found.value
    while inner and "password" not in inner:
        inner = inner[0] if isinstance(inner, list) else inner["a"]
    assert SECRET not in str(inner)


PIECES = [
    "password", "token", "API_KEY", "=", ": ", " ", '"', "'", "\\", "\\n", "\n", "--", "-", "{", "}", "[", "]",
    ",", "$", "(", ")", "<", ">", "<<<", "|", ";", "&", "curl -u ", "bob:", "x1", "hunter", "://", "@", "/",
    "mysql -p", "Authorization: Bearer ", "Cookie: ", "sk-", "ghp_", RANDOM[:40], "eyJ", ".",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "[redacted 3 chars 0123456789ab]",
    "[redacted ", "echo ", "sudo -S", "é", "\ud800", "İ", "%", "3D", "is ", "auth", "AKIA", ":AA", "login ",
]  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_twice_is_once(text: str) -> None:
    """What was redacted stays as it is, however odd the text; no error, and a secret under a name is gone."""
    taking_out = Redactor(KEY)
    found = taking_out.text(text)

    assert taking_out.text(found) == found
    assert taking_out.redacted({"a": found}).texts == 0


LEAVES = st.none() | st.booleans() | st.floats() | st.text() | st.sampled_from(["token=x", SECRET])
KEYS = st.text() | st.sampled_from(["secret", "a"])


@settings(max_examples=200, deadline=None)
@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=12))
def test_any_json(value: Any) -> None:
    """Any JSON comes through, in the same form, and stays as it is the second time."""
    taking_out = Redactor(KEY)
    found = taking_out.value(value)

    assert type(found) is type(value) and (not isinstance(value, dict | list) or len(found) == len(value))
    assert str(taking_out.value(found)) == str(found)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_any_password_in_json(secret: str) -> None:
    """Whatever characters a password has: quoted as JSON, once or twice, nothing of it is left."""
    by_key = Redactor(KEY).value({"password": secret})["password"]
    text = msgspec.json.encode({"a": 1, "password": secret}).decode()
    nested = msgspec.json.encode({"inner": text, "tail": "kept"}).decode()

    assert msgspec.json.decode(Redactor(KEY).text(text))["a"] == 1
    outer = msgspec.json.decode(Redactor(KEY).text(nested))
    assert outer["tail"] == "kept"
    for found in (msgspec.json.decode(Redactor(KEY).text(text)), msgspec.json.decode(outer["inner"])):
        assert found["password"] == secret == by_key or MARK.fullmatch(found["password"])


WORST = [
    "password", "password=", "password='", 'password="$(', 'password=\\"', "token: ", "--token ", "a", "\\",
    '"', "sk-a.", "eyJ-", "eyJa.", "-----BEGIN PRIVATE KEY-----", "://a:", "://a:b/", "curl -u a:", "mysql -p",
    "<<<'", "sudo <<< '", "echo a | sudo -S ", 'auth":"', "123456789:AA", "Bearer ", "Cookie: a=", "api_key={",
    "api_key=[", "password is ", "AKIAAAAAAAAAAAAAAAAA ", "[redacted ",
    "password=[redacted 1 chars 000000000000]", "İ", "curl -aaaaaaaau",
]  # fmt: skip


def calls_for(text: str) -> int:
    """How many calls, of our functions and of Python's own, it takes to redact a text."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1

    taking_out = Redactor(KEY)
    taking_out.text(text[:100])
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        taking_out.text(text)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("piece", WORST)
def test_work_grows_with_the_text_and_no_faster(piece: str) -> None:
    """Four times the text takes four times the calls, and none of them hangs."""
    small, large = (calls_for(piece * (size // len(piece))) for size in (1 << 13, 1 << 15))
    assert large <= 4.5 * small + 200

    started = time.monotonic()
    Redactor(KEY).text(piece * ((1 << 18) // len(piece)))
    assert time.monotonic() - started < 30


@pytest.mark.slow
@pytest.mark.parametrize("piece", [*WORST, *PIECES])
def test_hostile_megabytes(piece: str) -> None:
    """Opened quotes before, other text behind, names of programs in front: a quadratic search would take hours."""
    many = piece * ((1 << 20) // len(piece))
    for text in (many, many[: 1 << 19] + "x" * (1 << 19), 'password="' + many, "curl mysql sudo echo password " + many):
        started = time.monotonic()
        Redactor(KEY).text(text)
        assert time.monotonic() - started < 30


def test_the_key_is_made_once(tmp_path: Path) -> None:
    """32 bytes for the owner alone, made when the first secret is found, and used from then on."""
    root = tmp_path / "root"
    first = redactor(root)
    first.text("nothing")
    assert not root.exists()
    marked = first.text(f"PASSWORD={SECRET}")

    file = root / "billhook" / "redaction.key"
    assert len(file.read_bytes()) == 32 and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(file.parent) == ["redaction.key"]
    assert redactor(root).text(f"PASSWORD={SECRET}") == marked and first.problem is None


def test_all_who_come_at_once_agree_on_one_key(tmp_path: Path) -> None:
    """Processes and threads that start together get the same digest."""
    code = (
        "import sys; from pathlib import Path; from billhook.store.redaction import redactor\n"
        "print('ready', flush=True); sys.stdin.readline(); print(redactor(Path(sys.argv[1])).text('PASSWORD=abc'))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "root")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, **pipes) for _ in range(8)]
    for process in started:
        assert process.stdout.readline() == "ready\n"  # type: ignore[union-attr]
    for process in started:
        process.stdin.write("\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    printed = {process.communicate()[0] for process in started}
    threads = [threading.Thread(target=lambda: printed.add(redactor(tmp_path / "root").text("PASSWORD=abc") + "\n"))
               for _ in range(8)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(printed) == 1 and "[redacted 3 chars" in printed.pop()
    assert os.listdir(tmp_path / "root" / "billhook") == ["redaction.key"]


def damaged(file: Path) -> None:
    file.write_bytes(b"short")


def linked(file: Path) -> None:
    (file.parent / "real").write_bytes(b"k" * 32)
    file.symlink_to("real")


def too_long(file: Path) -> None:
    file.write_bytes(b"k" * 33)


def empty(file: Path) -> None:
    file.touch()


def fifo(file: Path) -> None:
    os.mkfifo(file)


def shared(file: Path) -> None:
    file.write_bytes(b"k" * 32)
    file.chmod(0o666)


def folder(file: Path) -> None:
    file.mkdir()


@pytest.mark.parametrize("spoil", [damaged, too_long, empty, linked, fifo, shared, folder])
def test_without_the_key_secrets_are_taken_out_all_the_same(spoil: Any, tmp_path: Path) -> None:
    """A key of this process stands in, equal stays equal within it, and `problem` names the file and the remedy."""
    file = tmp_path / "billhook" / "redaction.key"
    file.parent.mkdir(mode=0o700)
    spoil(file)
    one, other = redactor(tmp_path), redactor(tmp_path)

    assert SECRET not in one.text(f"PASSWORD={SECRET}")
    assert one.text(f"PASSWORD={SECRET}") == other.text(f"PASSWORD={SECRET}")
    assert one.problem is not None and "redaction.key" in one.problem.place and one.problem.hint


def test_a_home_that_is_none(tmp_path: Path) -> None:
    """Where no folder can be made, the same holds."""
    (tmp_path / "root").write_text("a file")
    one = redactor(tmp_path / "root")

    assert SECRET not in one.text(f"PASSWORD={SECRET}") and one.problem is not None


def test_importing_it_compiles_nothing() -> None:
    """Expressions are compiled when a text needs them: the import is felt at every tool call."""
    code = (
        "import re, sys, hashlib, msgspec, billhook.store.files; real = re.compile; made = []\n"
        "re.compile = lambda *a, **k: made.append(a) or real(*a, **k)\n"
        "from billhook.store.redaction import Redactor\n"
        "Redactor(b'k').value({'command': 'ls -l /tmp', 'cwd': '/home/me'})\n"
        "print(made, sorted({'yaml', 'asyncio', 'subprocess', 'logging', 'hmac'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (printed.stdout, printed.stderr) == ("[] []\n", "")


NAMES = {
    "words that make a secret": WORDS,
    "endings": frozenset(ENDINGS),
    "before key": BEFORE_KEY,
    "before pass": BEFORE_PASS,
    "before tokens": BEFORE_TOKENS,
    "harmless last": HARMLESS_LAST,
    "harmless first": HARMLESS_FIRST,
    "harmless before token": BEFORE_TOKEN_HARMLESS,
}


@pytest.mark.parametrize("words", NAMES.values(), ids=NAMES.keys())
def test_the_page_lists_the_names(words: frozenset[str]) -> None:
    """docs/redaction.md has each list as the code has it, sorted, in one line of code."""
    assert f"`{' '.join(sorted(words))}`" in PAGE.replace("\n", " ")


def test_the_page_lists_the_shapes() -> None:
    """Each kind of token, its prefixes and how much has to follow them is a row of the page; no other row is."""
    rows = [f"| {s.name} | {', '.join(f'`{p.strip()}`' for p in s.prefixes)} | {s.least} |" for s in SHAPES]

    assert [line for line in PAGE.splitlines() if line.startswith("| ") and line.endswith(" |")][-len(rows) :] == rows


@pytest.mark.parametrize("shown", [one.shown for one in (*FLAGS, *COMMANDS) if one.shown])
def test_the_page_shows_what_has_no_name(shown: str) -> None:
    """Each form of a command that is known is shown."""
    assert f"`{shown}`" in PAGE


def test_the_programs_are_looked_for() -> None:
    """A flag of a program is only found in texts that name one; the two tables have the same programs."""
    assert {program for flag in FLAGS for program in flag.programs} == set(FLAGS_RULE.hints)


def test_the_page_s_examples(taking_out: Redactor) -> None:
    """What the page says of names is so."""
    for line in ("secret", "not secret"):
        listed = re.search(rf"^- {line}: (.*)$", PAGE, re.M)
        assert listed
        for name in re.findall(r"`([^`]+)`", listed[1]):
            assert is_secret(name) == (line == "secret"), name
