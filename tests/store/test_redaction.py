"""Secrets are taken out of any value, under the user's own key, in linear time, and without ever raising."""

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook.store.redaction import MOST_CHARACTERS, Redactor, redactor

from .made_up import KEY, MARK, RANDOM, SECRET


@pytest.fixture
def taking_out() -> Redactor:
    return Redactor(KEY)


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
    """A number may be a password and is redacted; true, false, null and placeholders are not."""
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
    """A schema of a password contains none; an object with a value does."""
    schema = {"properties": {"password": {"type": "string", "description": "at least 8"}}}

    assert taking_out.value(schema) == schema
    assert SECRET not in str(taking_out.value({"password": {"type": "string", "value": SECRET}}))


def test_secrets_in_keys(taking_out: Redactor) -> None:
    """A key is kept, except for a secret inside it."""
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
    "MIIEpAIBAAKCAQEA", "-----END PRIVATE KEY-----\n", "kind: Secret\n", "data:\n", "  x: ", "STRIPE_KEY=",
    "?session_id=", "SK" + 32 * "a", "-us1", "1|", ":5432:", "LS0tLS1CRUdJTi", "kty", '"d":"', "your-key-here", "xxxx",
    "[redacted ", "echo ", "sudo -S", "é", "\ud800", "İ", "%", "3D", "is ", "auth", "AKIA", ":AA", "login ",
]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_twice_is_once(text: str) -> None:
    """What was redacted stays as it is, however odd the text; no error, and a secret under a name is gone."""
    taking_out = Redactor(KEY)
    found = taking_out.text(text)

    assert taking_out.text(found) == found
    assert taking_out.redacted({"a": found}).texts == 0


LEAVES = st.none() | st.booleans() | st.floats() | st.text(max_size=9) | st.sampled_from(["token=x", SECRET])
KEYS = st.text(max_size=9) | st.sampled_from(["secret", "a"])


@settings(max_examples=200, deadline=None)
@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=8))
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
    "password=[redacted 1 chars 000000000000]", "İ", "curl -aaaaaaaau", "authorization: bearer $(", "cookie:x",
    "password=x", "password=\\'", "api_key=['$a',", "password=x" + 4 * "'", "curl -au", "curl ", "identified by ",
    "MII", "MIIEpAIBA", "-----END PRIVATE KEY-----", "a\n-----END PRIVATE KEY-----", "kind: Secret ",
    "data:\n  a: b\n", "kind: Secret\ndata:\n  a: b\n", '"kind":"Secret","data":{', "X_KEY=a1", "?sid=",
    "?key=a", "-us1a",
    "a-us1", "1|", "1/1", "pat", "SK", "AC", "MTAw", "MTAwa.", ":5432:", ":5432:a:", 'kty"d":"', "Private-Lines: 1\n",
    "a+ASt", ".atlasv1.", "a.", "LS0tLS1CRUdJTi", "$6$", "EAA", "::add-mask::", "your-", "password=your-",
    "password=x", "sl.",
]  # fmt: skip


def calls_for(text: Any) -> int:
    """How many calls, of our functions and of Python's own, it takes to redact a value."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1

    taking_out = Redactor(KEY)
    taking_out.text("password=x1 curl -u a:b")
    taking_out.text("x " * (1 << 15))  # loads what long texts are searched with
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        taking_out.value(text)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("end", ["", "(", "\n("], ids=["", "code", "code on the next line"])
@pytest.mark.parametrize("piece", WORST)
def test_work_grows_with_the_text_and_no_faster(piece: str, end: str) -> None:
    """Four times the text takes four times the calls, and none of them hangs."""
    small, large = (calls_for(piece * (size // len(piece)) + end) for size in (1 << 13, 1 << 15))
    assert large <= 4.5 * small + 200

    started = time.monotonic()
    Redactor(KEY).text(piece * ((1 << 18) // len(piece)))
    assert time.monotonic() - started < 30


MANY: dict[str, Callable[[int], Any]] = {
    "secrets in one text": lambda n: f"password={SECRET} x" * (n // 22),
    "names without a value": lambda n: "password " * (n // 9),
    "nothing to find": lambda n: "hello, " * (n // 7),
    "one word": lambda n: "token=x1 " + "a" * n,
    "texts": lambda n: [f"password={SECRET} x"] * (n // 22),
    "lists": lambda n: [[f"password={SECRET} x"] for _ in range(n // 22)],
    "objects": lambda n: [{"password": SECRET} for _ in range(n // 22)],
    "arguments": lambda n: [["curl", "-u", f"bob:{SECRET}"] for _ in range(n // 22)],
    "numbers": lambda n: [f"password={SECRET}", *range(n // 4)],
    "keys": lambda n: {f"password={SECRET}{number:09}": number for number in range(n // 32)},
}


@pytest.mark.parametrize("make", MANY.values(), ids=MANY.keys())
def test_one_event_is_so_much_work_and_no_more(make: Callable[[int], Any]) -> None:
    """Twice as much takes no more calls; what is beyond is taken out whole, and a second time changes nothing."""
    once, twice = make(5_000_000), make(10_000_000)
    assert calls_for({"input": twice}) <= calls_for({"input": once}) * 1.2 + 1000 < 3_000_000

    found = Redactor(KEY).redacted({"input": once, "tool": "Write", "about": ["short"]})
    assert SECRET not in str(found.value) and "too long to search]" in str(found.value)
    assert (found.value["tool"], found.value["about"]) == ("Write", ["short"])
    assert Redactor(KEY).redacted(found.value).texts == 0


def test_what_is_cut_leaves_no_half_of_a_secret(taking_out: Redactor) -> None:
    """A token, a value or a key at the cut is in the redacted part, or is found before it."""
    room = MOST_CHARACTERS - MOST_CHARACTERS // 8
    for secret in ("AIza" + RANDOM[:35], f"password='{RANDOM}'", f"-----BEGIN PRIVATE KEY-----\n{RANDOM}"):
        for part in (33, len(secret) - 5):
            text = "x " * ((room - part) // 2) + secret + "y" * MOST_CHARACTERS
            assert RANDOM[:8] not in taking_out.text(text)[-4000:]


def test_ordinary_texts_of_a_megabyte_are_kept(taking_out: Redactor) -> None:
    """The limit is for extreme texts: a build log, a long file, a thousand rows with secrets are within it."""
    code = "def visit(self, key, token):\n    return self.tokens[key] if token else None\n" * 3000
    rows = [{"user": f"bob{number}", "password": SECRET, "note": f"token={SECRET}"} for number in range(1500)]

    assert taking_out.text(code) == code
    found = taking_out.redacted({"rows": rows, "log": "https://example.org/x compiled in 1 s\n" * 12_000})
    assert "too long" not in str(found.value) and found.texts == 3000


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
    """A key of this process is used, with equal digests for equal secrets, and `problem` has the file and a fix."""
    file = tmp_path / "billhook" / "redaction.key"
    file.parent.mkdir(mode=0o700)
    spoil(file)
    one, other = redactor(tmp_path), redactor(tmp_path)

    assert SECRET not in one.text(f"PASSWORD={SECRET}")
    assert one.text(f"PASSWORD={SECRET}") == other.text(f"PASSWORD={SECRET}")
    assert one.problem is not None and "redaction.key" in one.problem.place and one.problem.hint


def test_an_invalid_home(tmp_path: Path) -> None:
    """Where no folder can be made, the same holds."""
    (tmp_path / "root").write_text("a file")
    one = redactor(tmp_path / "root")

    assert SECRET not in one.text(f"PASSWORD={SECRET}") and one.problem is not None


def test_importing_it_compiles_nothing() -> None:
    """Expressions are compiled when they are needed: the import slows down every tool call."""
    code = (
        "import re, sys, hashlib, msgspec, billhook.store.files; real = re.compile; made = []\n"
        "re.compile = lambda *a, **k: made.append(a) or real(*a, **k)\n"
        "from billhook.store.redaction import Redactor\n"
        "Redactor(b'k').value({'command': 'ls -l /tmp', 'cwd': '/home/me'})\n"
        "print(made, sorted({'yaml', 'asyncio', 'subprocess', 'logging', 'hmac'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (printed.stdout, printed.stderr) == ("[] []\n", "")
