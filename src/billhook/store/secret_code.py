"""Where the value of a name stands that is not right behind it: in code, and in lists of variables.

const apiKey: string = 'x'    #define API_KEY "x"    setProperty("password", "x")    - name: API_KEY
                                                                                       value: x
"""

import re
from typing import Final

from billhook.later import pattern


def value_at(text: str, start: int, end: int) -> int | None:
    """Where the value begins of the name from `start` to `end`; None when it has none of these forms."""
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
