"""Secrets are taken out of texts: commands, code, logs, JSON in strings; ordinary texts stay as they are."""

import re

import pytest

from billhook.store.redaction import Redactor
from billhook.store.secrets import SHAPES

from .made_up import KEY, MARK, RANDOM, SECRET


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
    "two words": "Invalid API key: %s",
    "XML": "<user>bob</user><password>%s</password>",
    "aws configure": "aws configure set aws_secret_access_key %s",
    "Dockerfile": "FROM x\nENV API_TOKEN %s\n",
    "curl -b": "curl -b 'sid=%s' https://x.example",
    "Kubernetes": "env:\n  - name: API_KEY\n    value: %s\n",
    "Kubernetes, in quotes": '- name: DB_PASSWORD\n  value: "%s"\n- name: A\n  value: b',
    "Kubernetes, escaped": "- name: API_KEY\\n  value: %s\\n",
    "a pair in JSON": '[{"name": "API_KEY", "value": "%s"}]',
    "SSHPASS": "SSHPASS=%s sshpass -e ssh host",
    "REDISCLI_AUTH": "export REDISCLI_AUTH=%s",
    "pass": "pass=%s",
    "PASS": "USER=bob PASS=%s make",
    "pass in YAML": "user: bob\npass: %s\n",
    "--pass": "tool --pass %s run",
    "Ansible": "host1 ansible_become_pass=%s",
    "npm _auth": "//registry.example/:_auth=%s",
    "a form's list": "curl -d user[password][]=%s https://x.example",
    "a form's list, escaped": "password%%5B%%5D=%s&x=1",
    "on the next line": "deploy --token \\\n   %s --now",
    "a quote in quotes": "password='it'\\''s%s'",
    "backticks": "password=`%s`",
    "three quotes": 'token = """%s"""',
    "three single quotes": "token = " + 3 * "'" + "%s" + 3 * "'",
    "TypeScript": "const apiKey: string = '%s'",
    "TypeScript, or null": 'let token: string | null = "%s";',
    "Python with a type": 'API_KEY: Final = "%s"',
    "C": '#define API_KEY "%s"',
    "PHP": "define('DB_PASSWORD','%s');",
    "Java": 'props.setProperty("password", "%s")',
    "setdefault": "os.environ.setdefault('API_TOKEN', '%s')",
    "curl --oauth2-bearer": "curl --oauth2-bearer %s https://x.example",
    "htpasswd": "htpasswd -b .htpasswd bob %s",
    "htpasswd, flags in one": "htpasswd -nbB bob %s",
    "smbclient": "smbclient -U bob%%%s //host/share",
    "lftp": "lftp -u bob,%s ftp.example",
    "vault": "vault login -no-store %s",
    "gh secret": "gh secret set NAME --body %s",
    "gh secret, in quotes": 'gh secret set NAME -b"%s"',
    "openssl enc": "openssl enc -aes-256-cbc -k %s -in x",
    "kubectl": "kubectl create secret generic x --from-literal=foo=%s",
    "kubectl, in quotes": "kubectl create secret generic x --from-literal 'foo=%s'",
    "unzip": "unzip -P %s x.zip",
    "a variable in quotes": "docker run -e 'API_KEY=a b %s' x",
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
    "header": ["Authorization", f"Bearer {SECRET}"],
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
    made = {}
    for shape in SHAPES:
        for prefix in shape.prefixes:
            letters = [one for one in 4 * (RANDOM[:24] + RANDOM[50:80]) if re.fullmatch(f"[{shape.body}]", one)]
            body = "".join(letters)[: 43 if shape.name == "Notion, older" else shape.least + 12]
            if shape.name in {"JWT", "SendGrid"}:
                body = f"{body[:20]}.{body[4:40]}.{body[5:30]}"
            made[prefix] = prefix + (body[:16] if shape.name == "AWS key id" else body)
    return made


TOKENS = tokens()
AROUND = [
    "%s", "I used %s, and it works.", "I used %s.", "It was %s; then", '{"x": "%s"}', "{'x': '%s'}", "a\\n%s\\nb",
    "x=%s", 'x="%s"', "x: %s\n", "\x1b[32m%s\x1b[0m", "a%%20%s", "(%s)", "<%s>", "`%s`", "**%s**", "a,%s,b", "@%s",
    "https://x.example/%s/y", "https://x.example/a?b=%s&c=d", "https://x.example/a?b=%s#c", "https://%s@x.example/y",
    '{\\"x\\": \\"%s\\"}', "curl 'https://x.example/?k=%s'", "x:%s", "%s\r\n", "[%s](y)", "$(echo %s)", "%s|cat",
]  # fmt: skip


@pytest.mark.parametrize("prefix", TOKENS)
def test_tokens_are_known_by_their_shape(prefix: str, taking_out: Redactor) -> None:
    """With anything around it, in a string and in a value."""
    secret = TOKENS[prefix].removeprefix(prefix)
    for around in AROUND:
        text = around % TOKENS[prefix]
        for found in (taking_out.text(text), str(taking_out.value({"any": [{"thing": text}]}))):
            assert secret not in found and secret[-10:] not in found, text
        assert taking_out.text(taking_out.text(text)) == taking_out.text(text)


SIGNED = {
    "Azure": "https://x.blob.core.windows.net/c?sv=1&sig=%s%%3D",
    "Azure, first": "https://x.blob.core.windows.net/c/f.txt?sig=%s%%3D&se=2",
    "Azure in a connection string": "SharedAccessSignature=sv=1&sig=%s%%3D;EndpointSuffix=x",
    "Azure in HTML": "https://x.blob.core.windows.net/c?sv=1&amp;sig=%s%%3D",
    "AWS": "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=%s",
    "AWS, first": "https://b.s3.amazonaws.com/k?X-Amz-Signature=%s&X-Amz-Expires=60",
    "AWS credential": "https://b.s3.amazonaws.com/k?X-Amz-Credential=%s%%2F20260101%%2Fus-east-1&x=y",
    "Google": "https://storage.googleapis.com/b/o?X-Goog-SignedHeaders=host&X-Goog-Signature=%s",
}


@pytest.mark.parametrize("around", ["%s", 'curl "%s"', "curl '%s' -o x", '{"url": "%s"}', "see %s.", "<%s>", "URL=%s"])
@pytest.mark.parametrize("address", SIGNED.values(), ids=SIGNED.keys())
def test_signed_addresses(address: str, around: str, taking_out: Redactor) -> None:
    """The signature goes, which is as good as a password; what the address is of stays."""
    secret = RANDOM[:20] + RANDOM[50:70]
    text = around % (address % secret)
    for found in (taking_out.text(text), str(taking_out.value({"command": text}))):
        assert secret not in found and secret[-8:] not in found and address[:25] in found
    assert taking_out.text(taking_out.text(text)) == taking_out.text(text)


def test_other_shapes(taking_out: Redactor) -> None:
    """Tokens without a prefix, by the text around them."""
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
    """Complete blocks, also cut off, escaped and numbered; the text around them is kept."""
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
token.markup = markerChar
token.info = "entity"
{"password": password, "refresh_token": self.context.refresh_token}
connect(resumption_token=token, api_key=key)
if token == "(":
data["password"] = getpass.getpass("Password: ")
key=value
PASS: test_login1 (0.1s)
--- PASS: TestToken2 (0.00s)
pass: 12, fail: 3
pass=12 fail=0
pass=true
ffmpeg -i x -pass 1 -f null y
def test(): pass
sshpass: command not found
- name: HOME
if token: x = "abc"
getenv("API_TOKEN", "none")
translate("password", "Passwort")
password=`cat file`
`password`: `string`
kubectl create configmap x --from-literal=foo=bar1
vault login is required
vault login -method=oidc
htpasswd -c file bob
openssl req -keyout server.key1
gh secret list
smbclient -U bob //host/share
#define TOKEN_MAX 12
const token: string = getToken();
https://example.org/?sig=short&x=1
https://example.org/x?sort=design&sig=
the header X-Amz-Signature is computed last
""".strip().splitlines()


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_texts_stay(text: str, taking_out: Redactor) -> None:
    """No false positive, in a string or in a value."""
    assert taking_out.text(text) == text
    assert taking_out.value([{"command": text}]) == [{"command": text}]
    assert taking_out.count == 0
