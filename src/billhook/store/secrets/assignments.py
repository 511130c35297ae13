"""Finds the value of a name if it does not follow directly: in code, and in lists of variables.

const apiKey: string = 'x'    #define API_KEY "x"    setProperty("password", "x")    - name: API_KEY
                                                                                       value: x
"""

import functools
import re
from collections.abc import Iterator
from typing import Final

from billhook.core.lazy import pattern
from billhook.store.secrets import SecretNames, is_secret, looks_random, may_be_key, words, words_of


def value_at(text: str, start: int, end: int) -> int | None:
    """Where the value of the name from `start` to `end` begins; None if none of these forms matches."""
    after = text[end : end + 1]
    if after in (":", "?"):
        return _end_of(_TYPED, text, end)
    if after in ("'", '"', "\\", "\n", "\r"):
        before = text[max(0, start - 48) : start]
        if _CALLED.search(before):
            return _end_of(_NEXT_ARGUMENT, text, end)
        return _end_of(_PAIRED, text, end) if _NAMED.search(before) else None
    if after in (" ", "\t") and _DEFINED.search(text[max(0, start - 20) : start]):
        return _end_of(_QUOTE_FOLLOWS, text, end)
    return None


def _end_of(form: "re.Pattern[str]", text: str, at: int) -> int | None:
    found = form.match(text, at)
    return found.end() if found else None


_TYPE: Final = r"(?:str|string|String|bytes|SecretStr|Final|any|&str|&'static str|Optional\[str\]|Final\[str\])"
_TYPED: Final = pattern(
    rf"\??[ \t]{{0,4}}+:[ \t]{{0,4}}+{_TYPE}(?:[ ]?\|[ ]?(?:None|null|undefined))?"
    r"[ \t]{0,4}+=[ \t]{0,4}+(?=[rbfuRBFU]{0,2}[\"'])"
)
_CALLED: Final = pattern(
    r"(?:\bdefine|\bset[Pp]roperty|\bsetdefault|\b[sS]etenv|\bputenv|\bsetItem|\b(?:set|add)(?:Request)?Header"
    r"|\bSetEnvironmentVariable)\(\s{0,4}\\{0,3}[\"']$"
)
_NEXT_ARGUMENT: Final = pattern(r"\\{0,3}+[\"']\s{0,8}+,\s{0,16}+(?=\\{0,3}+[\"'])")
_NAMED: Final = pattern(r"(?:^|[\s{,\"'-])\\{0,3}(?:name|key)\\{0,3}[\"']?\s{0,4}[:=]\s{0,4}\\{0,3}[\"']?$")
_PAIRED: Final = pattern(
    r"(?:\\{0,3}+[\"'])?+(?:[ \t]{0,8}+(?:,\s{0,64}+|(?:\\n|\r?\n)[ \t]{0,64}+)|[ \t]{1,8}+)"
    r"\\{0,3}+[\"']?value\\{0,3}+[\"']?[ \t]{0,4}+[:=][ \t]{0,16}+"
)
_DEFINED: Final = pattern(r"#[ \t]{0,4}define[ \t]{1,4}$")
_QUOTE_FOLLOWS: Final = pattern(r"[ \t]{1,40}+(?=[\"'])")

# Named secrets:

Span = tuple[int, int]

_NAME: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_REACH: Final = 64  # how far a name is read to either side of its trigger word
_LONGEST_WORD: Final = 300  # Characters of a value that are compared with code. Code has no longer names.
_LONGEST_LIST: Final = 4096  # characters of a list of secrets in which each is redacted separately
_MOST_PARTS: Final = 100
_HARMLESS: Final = words(
    "none null nil undefined true false yes no on off required optional str string int integer bool boolean "
    "bytes number any object array float char void self include same-origin omit todo tbd n/a unset redacted "
    "hidden masked bearer basic digest"
)
"""Values that are not secrets: types, switches, placeholders."""
_NOT_A_VALUE: Final = words(
    "to for is and or with the a an in if from when option options flag as on of not must should can will instead "
    "argument but which that was has it via by"
)
"""`--token` in a sentence is followed by one of these."""
_BEFORE_A_VARIABLE: Final = ("env ", "-e ", "--env=", "--build-arg ")
"""`docker run -e "TOKEN=a b"`: the quotes enclose name and value."""
_BEFORE_A_SYNTAX_TOKEN: Final = ("unexpected ", "expected ", "invalid ", "illegal ", "undefined ", "unknown ")


def named(text: str, low: str, trigger: str, names: SecretNames) -> Iterator[Span]:
    """The values of secret names that contain this trigger. `low` is the text in lower case."""
    at = low.find(trigger)
    done = 0
    while at >= 0:
        start, end = _name_around(text, at, at + len(trigger), done)
        done = end
        name = text[start:end]
        if trigger == "key" and name.lower() in ("key", "keys"):
            name = _two_words(low, start) + name
        counts = name.strip("-.") in names
        is_key = trigger == "key" and may_be_key(text[start:end])
        is_pass = trigger == "pass" and name.lstrip("-") in ("pass", "PASS")
        for span in _value_of(text, low, start, end) if counts or is_key or is_pass else ():
            value = text[span[0] : span[1]]
            if counts:
                secret, read = not stays(name, value), True
            elif is_key:  # another name may be in a value that is not secret; long values are not read twice
                secret = looks_random(value)
                read = secret or len(value) >= _LONGEST_WORD
            else:
                secret = read = _is_password(name, text[end : span[0]].lstrip()[:1], value)
            if secret:
                yield span
            done = max(done, span[1]) if read else done
        at = low.find(trigger, done)


def _is_password(name: str, sign: str, value: str) -> bool:
    """The value of `pass` alone: a password, unless it looks like the result of a test."""
    if is_placeholder(value) or len(value) < 4 or not any(one.isalpha() for one in value):
        return False
    return sign == "=" or name[0] == "-" or (sign == ":" and name == "pass" and any(one.isdigit() for one in value))


def _two_words(low: str, start: int) -> str:
    """The word before `key`, as in `API key: x`."""
    left, space, _ = low[max(0, start - 16) : start].rpartition(" ")
    return left.rpartition(" ")[2] + "_" if space and low[start - 1] == " " else ""


def _name_around(text: str, at: int, end: int, floor: int) -> Span:
    left = text[max(floor, at - _REACH) : at]
    start = at - (len(left) - len(left.rstrip(_NAME)))
    right = text[end : end + _REACH]
    end += len(right) - len(right.lstrip(_NAME))
    before = text[start - 1 : start]
    if before == "\\" and text[start] in "nrtbf" and start < at:
        start += 1  # a JSON escape, not a letter of the name
    elif before == "%" and start + 2 <= at:
        start += 2
    return start, end


def _value_of(text: str, low: str, start: int, end: int) -> Iterator[Span]:
    header = _header_value(text, low, start, end)
    if header:
        yield header
        return
    if text[start - 1 : start] == "<" and (found := _ELEMENT.match(text, end)):
        yield found.span(1)
        return
    elsewhere = value_at(text, start, end)
    if elsewhere is not None:
        yield from _anything(text, elsewhere)
    elif found := _SEPARATOR.match(text, end):
        if low.startswith("token", start) and low[max(0, start - 12) : start].endswith(_BEFORE_A_SYNTAX_TOKEN):
            return
        yield from _after_separator(text, start, end, found)
    elif text[start] == "-":
        if found := _AFTER_OPTION.match(text, end):
            yield from _after_option(text, found.end(), text[start:end].strip("-"))
    else:
        yield from _after_words(text, low, start, end)


def _anything(text: str, at: int) -> Iterator[Span]:
    """A value after an unambiguous name: in quotes, or one word."""
    opened = _OPENING.match(text, at)
    if opened:
        yield from _quoted(text, opened, shell=False)
        return
    value = _WORD.match(text, at)
    if value and not is_placeholder(value[0]) and value[0][0] not in "*&!|>[{":
        yield at, _word_end(text, value.end())


def _header_value(text: str, low: str, start: int, end: int) -> Span | None:
    """The whole header: `Authorization: Bearer x`, `Cookie: a=b; c=d`."""
    if low.endswith("authorization", start, end):
        found = _AUTHORIZATION.match(text, end)
    elif low.endswith("cookie", start, end):
        found = _COOKIE.match(text, end)
    else:
        return None
    if not found or is_placeholder(found[1]):  # only its beginning is checked: there may be many on one line
        return None
    rest = _REST_OF_LINE.match(text, found.end())
    end = rest.end() if rest else found.end()
    return found.start(1), found.start(1) + len(text[found.start(1) : end].rstrip())


def _after_separator(text: str, start: int, end: int, found: "re.Match[str]") -> Iterator[Span]:
    at = found.end()
    name_quoted, sign, gap = bool(found[1]), found[2], bool(found[3])
    shell = sign == "=" and not gap and not name_quoted
    opened = _OPENING.match(text, at)
    if opened:
        yield from _quoted(text, opened, shell)
    elif shell and text[max(0, start - 14) : start - 1].endswith(_BEFORE_A_VARIABLE) and text[start - 1] in "\"'":
        yield at, closing(text, at, text[start - 1], 0)[0]
    elif text[at : at + 1] == "`" and (ticked := _IN_BACKTICKS.match(text, at)):
        yield ticked.span(1)
    elif text[at : at + 1] in ("[", "{") and (inside := list(_in_brackets(text, at))):
        yield from inside
    elif shell or text[at : at + 1] not in ("[", "{"):
        value = _WORD.match(text, at)
        if value and len(value[0]) >= _LONGEST_WORD:  # code has no such names
            yield at, _word_end(text, value.end())
        elif value and _is_value(text, start, end, value, shell, name_quoted):
            word = value[0] if shell and text[value.end() : value.end() + 1] in ("'", '"') else _trimmed(value[0])
            yield at, at + len(word)
            if len(word) == len(value[0]) and shell:
                yield from _shell_parts(text, value.end())


def _word_end(text: str, at: int) -> int:
    """Where a word ends that continues at `at`. Used for secrets only: the search continues after it."""
    found = _REST_OF_WORD.match(text, at)
    return found.end() if found else at


def _quoted(text: str, opened: "re.Match[str]", shell: bool) -> Iterator[Span]:
    start = opened.end()
    if not opened[1] and text.startswith(2 * opened[2], start):  # three quotes
        start, shell = start + 2, False
        found = text.find(3 * opened[2], start)
        stop = after = len(text) if found < 0 else found
    else:
        stop, after = closing(text, start, opened[2], len(opened[1]))
    if not is_placeholder(text[start:stop]):
        yield start, stop
    if shell and not opened[1]:
        yield from _shell_parts(text, after)


def _shell_parts(text: str, at: int) -> Iterator[Span]:
    """Adjacent parts belong to one word in a shell: `"ab"'cd'ef`."""
    for _ in range(_MOST_PARTS):
        if text.startswith("\\'", at) and text[at - 1] in "'\"":
            at += 2  # 'it'\''s': a quote between two quoted parts
        opened = _OPENING_PLAIN.match(text, at)
        if opened:
            stop, after = closing(text, opened.end(), opened[0], 0)
            if stop > opened.end():
                yield opened.end(), stop
            at = after
            continue
        word = _GLUED.match(text, at)
        if not word:
            return
        yield word.span()
        at = word.end()
    yield at, len(text)  # unusual text: not read to its end


def closing(text: str, at: int, quote: str, escapes: int) -> Span:
    """The end of the content of a quoted string, and of its closing quote. If it is not closed: the end of the line.
    `escapes` is the number of backslashes before the opening quote, in JSON inside of JSON."""
    found = _to_quote(quote, escapes).match(text, at)
    if found:
        return found.end() - 1 - min(len(found[1]), escapes), found.end()
    line = text.find("\n", at)
    return (len(text), len(text)) if line < 0 else (line, line)


@functools.cache
def _to_quote(quote: str, escapes: int) -> re.Pattern[str]:
    """Find the closing quote: inner quotes have a different number of backslashes, by the levels of nested JSON."""
    step = 2 * escapes + 2
    longer = rf"(?:\\{{{step}}})++(?!\\{{{escapes}}}{quote})\\{{0,{step - 1}}}{quote}"
    other = rf"{longer}|\\{{{escapes + 1},{step - 1}}}{quote}|\\++(?!{quote})"
    return re.compile(rf"(?:[^\\{quote}]++|{other})*+(\\*+){quote}")


def _in_brackets(text: str, at: int) -> Iterator[Span]:
    """The quoted strings of a flat list or object: all of them are secret."""
    found = _FLAT.match(text, at)
    position = at
    if found and found.end() - at > _LONGEST_LIST:
        yield at + 1, found.end() - 1
        return
    while found and position < found.end():
        opened = _OPENING_SOMEWHERE.search(text, position, found.end())
        if not opened:
            return
        stop, position = closing(text, opened.end(), opened[2], len(opened[1]))
        is_name = _COLON.match(text, position)
        if not is_name and not is_placeholder(text[opened.end() : stop]):
            yield opened.end(), stop


def _after_option(text: str, at: int, name: str) -> Iterator[Span]:
    """The word after `--token`."""
    opened = _OPENING.match(text, at)
    if opened:
        yield from _quoted(text, opened, shell=True)
        return
    value = _WORD.match(text, at)
    if not value or value[0][0] == "-" or is_placeholder(value[0]) or text[value.end() : value.end() + 1] == "(":
        return
    word = _trimmed(value[0])
    if not word or word.lower() in _NOT_A_VALUE or (word.isupper() and word.lower() in name.lower()):
        return
    if not word.startswith("id="):  # docker build --secret id=... names a file
        end = _word_end(text, value.end())
        yield at, end
        yield from _shell_parts(text, end)


def _after_words(text: str, low: str, start: int, end: int) -> Iterator[Span]:
    """`PASSWORD 'x'` in SQL, `login u password x` in .netrc, `setenv TOKEN x`, `the password is x1`."""
    is_pass = low.find("pass", start, end) >= 0
    quoted = _THEN_QUOTED.match(text, end) if is_pass else None
    if quoted:
        yield from _quoted(text, quoted, shell=False)
        return
    said = _IN_PROSE.match(text, end)
    if said and (is_pass or not said[1].isdigit()) and any(one.isdigit() for one in said[1]):
        yield said.start(1), said.start(1) + len(_trimmed(said[1]))
        return
    before = text[max(0, start - 100) : start]
    if _SETTING.search(before):
        value = _NEXT_WORD.match(text, end)
        if value and not is_placeholder(value[1]):
            yield value.span(1)


def _is_value(text: str, start: int, end: int, value: "re.Match[str]", shell: bool, name_quoted: bool) -> bool:
    """Whether a bare word is a value, and not code, a type or the next word of a sentence."""
    word = _trimmed(value[0])
    if not word or is_placeholder(word) or not any(one.isalnum() for one in word):
        return False
    if text[value.end() : value.end() + 1] == "(" or _INDEXED.match(word):
        return False
    if shell:
        behind = value.start() + len(word)
        return not _is_argument(text[start:end].lstrip("-"), word, text[behind : behind + 1])
    if name_quoted:  # JSON has bare numbers only, Python dictionaries contain names
        return not _PATH.fullmatch(word) and not _LETTERS.fullmatch(word)
    return _is_plain_value(text, value.end(), word)


def _is_argument(name: str, word: str, after: str) -> bool:
    """Whether it is code that passes a variable: `password=password`, `token=self.token`, `f(api_key=key)`."""
    if word == name or (_PATH.fullmatch(word) and word.rpartition(".")[2] == name):
        return True
    return after in (",", ")") and bool(_LETTERS.fullmatch(word)) and (is_secret(word) or word in name)


def _is_plain_value(text: str, after: int, word: str) -> bool:
    """For `password: x` and `password = x`, where code and prose look the same."""
    if _PATH.fullmatch(word) or word[0] in "*&!#@|>":
        return False
    if word.isdigit():
        return len(word) >= 4
    if not _LETTERS.fullmatch(word):
        return True
    if "_" in word or any(trigger in word.lower() for trigger in ("pass", "secret", "token", "key", "cookie")):
        return False
    return bool(_LINE_ENDS.match(text, after))


def stays(name: str, value: str) -> bool:
    """Whether the value of a secret name is not secret: a placeholder, or the path of a file or folder."""
    if is_placeholder(value):
        return True
    if len(value) > 255 or value[0] not in "/~.":
        return False
    return words_of(name)[-1:] == ("pwd",) or bool(_KEY_FILE.fullmatch(value))


def is_placeholder(value: str) -> bool:
    """Whether a value is only a placeholder: `$TOKEN`, `$(...)`, `<token>`, `{token}`, `***`, `None`, empty."""
    short = value.strip()
    if not short or (len(short) <= 2 and not any(one.isalnum() for one in short)):
        return True
    if len(short) <= 12 and short.lower() in _HARMLESS:
        return True
    if short[0] in "bBtT" and (scheme := _SCHEME.match(short)):
        short = short[scheme.end() :] or short
    if short[0] in "$<{%*.•#":
        return bool(_PLACEHOLDER.match(short))
    return len(short) <= 64 and bool(_EXAMPLE.fullmatch(short))


def _trimmed(word: str) -> str:
    return word.rstrip(",.;:)]}!?") if word[-1] in ",.;:)]}!?" else word


_SEPARATOR: Final = pattern(
    r"(\\{0,15}+[\"'`])?+(?:\]|\[\]|%5[bBdD]){0,4}+[ \t]{0,16}+"
    r"(:=|=>|={1,3}+|!={1,2}+|\+=|\?=|:(?![:/]|\?[\w .,-]{0,80}\})|%3[dD])"
    r"((?:[ \t]{1,64}+|(?:\\[nr]|\s){0,16}+(?=\\{0,15}+[\"']))?+)"
)
_AFTER_OPTION: Final = pattern(r"[ \t]{1,16}+(?:\\\r?\n[ \t]{0,64}+)?+|\\{0,15}+[\"'],\s{0,16}+(?=\\{0,15}+[\"'])")
_OPENING: Final = pattern(r"(?:[rbfuRBFU]{1,2}|\$)?(\\{0,15}+)([\"'])")
_OPENING_PLAIN: Final = pattern(r"[\"']")
_OPENING_SOMEWHERE: Final = pattern(r"(?<!\\)(\\{0,15}+)([\"'])")
_FLAT: Final = pattern(r"\[[^\[\]{}]*+\]|\{[^\[\]{}]*+\}")
_COLON: Final = pattern(r"\s{0,16}+:")
_LETTER: Final = r"[^\s\"'`;&|<>()\\,]|,(?=[^\s\"'])|\\\\(?![\"'\\nrt])|\\[^nrt\"'\n\\]"
_WORD: Final = pattern(rf"(?:{_LETTER}){{1,{_LONGEST_WORD}}}+")
_REST_OF_WORD: Final = pattern(rf"(?:{_LETTER})*+")
_IN_BACKTICKS: Final = pattern(r"`(?=[^`\s$]{0,300}?[0-9])([^`\s$]{4,300}+)`")
_GLUED: Final = pattern(r"(?:[^\s\"'`;&|<>()\\,:}\]]|\\[^nrt\"'\n\\])++")
_THEN_QUOTED: Final = pattern(r"[ \t]{1,16}+(\\{0,15}+)([\"'])")
_IN_PROSE: Final = pattern(r" (?:is|was)(?: now)?:? ([^\s\"'`;&|<>()\\,]{4,200})")
_SETTING: Final = pattern(
    r"(?:\bsetenv|\bsetx|\bENV|\bconfig(?:ure)?[ \t]set|\bset[ \t]{1,4}-{1,2}[A-Za-z]{1,10}"
    r"|\blogin[ \t]{1,4}\S{1,64})\s{1,4}$"
)
_ELEMENT: Final = pattern(r">([^<>\s]{1,1000}+)<")
_NEXT_WORD: Final = pattern(r"[ \t]{1,16}+[\"']?([^\s\"'`;&|<>()]++)")
_INDEXED: Final = pattern(r"[A-Za-z_][\w.]*+\[")
_PATH: Final = pattern(r"[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)++")
_LETTERS: Final = pattern(r"[A-Za-z_.-]++")
_LINE_ENDS: Final = pattern(r"[,.;)\]}\"'\\]{0,4}+[ \t]{0,16}+(?:$|[\r\n}#]|\\[nr])")
_PLACEHOLDER: Final = pattern(
    r"\$\{?\w*+\}?$|\$\(|\$\{\{[^}]*+\}\}$|\{\{[^}]*+\}\}$|\{[\w.]*+\}$|<[^>]*+>$|%[sdr]$|%\([^)]*+\)s$"
    r"|[*.•#]++$|\$env:\w++$|\$\{\w++:?-\}?$|\$\{\w++:?\?[^}]*+\}?$|%\w++%$"
)
_EXAMPLE: Final = pattern(
    r"(?:[a-z]++[-_ ])*?(?:your|placeholder|insert|replace)(?:[-_ ][a-z]++)*+|[a-z]{0,12}?[-_]?x{4,}+"
    r"|[a-z]{1,16}+(?:[-_]|[-_]?(?:\.{3}|…))",
    re.I,
)
"""Example secrets in documents: `your-key-here`, `sk-xxxxxxxx`, `ghp_...`."""
_KEY_FILE: Final = pattern(r"(?:~|\.{1,2})?+/[\w./ @-]*+(?<=\.pem|\.key|\.crt|\.pub|\.p12|\.pfx|\.der|\.txt)")
_SCHEMES: Final = (
    r"(?:bearer|basic|token|digest|negotiate|apikey|api-key|hawk|ntlm|oauth|dpop|key|aws4-hmac-sha256|bot|ssws|splunk"
    r"|geniekey|flyv1)[ \t]{1,16}+"
)
_SCHEME: Final = pattern(_SCHEMES, re.I)
_AUTHORIZATION: Final = pattern(rf"[ \t]{{0,4}}+[:=][ \t]{{0,16}}+{_SCHEMES}([^\s\"'\\][^\"'\r\n\\]{{0,400}}+)", re.I)
_COOKIE: Final = pattern(r":[ \t]{0,16}+([^\s\"'\\=;]{1,200}+=[^\"'\r\n\\]{0,400}+)")
_REST_OF_LINE: Final = pattern(r"[^\"'\r\n\\]*+")
