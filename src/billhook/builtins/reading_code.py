"""Whether a piece of Python only reads: `json.load(open("x"))` names a file, but changes none."""

import re
from typing import Final

_LONGEST: Final = 20_000
_ACTS = re.compile(
    r"write|unlink|remove|rename|replace\s*\([^(),]*\)|rmtree|rmdir|mkdir|touch|truncate|symlink|link\s*\(|chmod|chown|shutil"
    r"|subprocess|system|popen|spawn|exec|eval|compile|import_|getattr|globals|__|ctypes|pty|fcntl|mmap|fileinput|inplace"
    r"|extract|tarfile|zipfile|sqlite|shelve|dbm|socket|requests|urllib|asyncio|multiprocessing|runpy|importlib|code\b"
    r"|(?<!\.)\bbillhook\b(?!/)|FileIO|dump\s*\(|tofile|to_\w+\s*\(|save|print\s*\([^\n]*\bfile\s*=",
    re.I,
)
_OS = re.compile(r"\bos\s*\.\s*(?!path\b|environ\b|getcwd\b|listdir\b|stat\b|sep\b|getenv\b|walk\b|scandir\b)")
_FROM_OS = re.compile(r"\bfrom\s+(?:os|io|codecs)\b|\bimport\s[^\n;]*\bas\b|=\s*(?:os|open|io)\b(?!\s*[.(])")
_OPEN = re.compile(r"\bopen\b")
_READING = re.compile(
    r"\bopen\(|\.read|\bloads?\b|listdir|exists|is_?file|is_?dir|glob|\bstat\b|scandir|walk|iterdir|safe_load"
)
_READS = re.compile(
    r"(?:(?<!\.)\bopen\(\s*[^(),]*(?:\([^()]*\)[^(),]*)?|\.open\((?:\s*['\"]r[bt]?['\"])?)"
    r"(?:,\s*(?:mode\s*=\s*)?['\"]r[bt]?['\"]|,\s*(?:encoding|errors)\s*=\s*['\"][\w-]+['\"])*\s*\)"
)


def only_reads(code: str) -> bool:
    """Whether nothing in the code can change a file, as far as its words say; in doubt it may."""
    if len(code) > _LONGEST or _ACTS.search(code) or _OS.search(code) or _FROM_OS.search(code):
        return False
    if not _READING.search(code):
        return False
    return len(_OPEN.findall(code)) == len(_READS.findall(code))


_ACTS_ELSEWHERE = re.compile(
    r"write|unlink|remove|rename|rm\b|rm\w*\(|rmdir|rmtree|mkdir|touch|truncate|link|chmod|chown|child_process|exec|spawn"
    r"|fork|eval|Function|system|popen|append|copy|cp\w*\(|move|mv\b|delete|stream|open|save|dump|put\w*\s*\(|`|import\s*\("
    r"|\]\s*\(|process\.(?!stdout|argv|cwd|env)|\bsend\b|__|\$\^I|\bdo\b|\bkill\b|billhook\s*\(|>",
    re.I,
)
_READS_ELSEWHERE = re.compile(
    r"readFile|readTextFile|Bun\.file|readdir|existsSync|statSync|require\(|JSON\.parse|File\.(?:read|exist)|load_file|file_get_contents|IO\.read|<>"
)


def only_reads_elsewhere(code: str) -> bool:
    """The same for JavaScript, Ruby and PHP: a call that reads, and no word of one that acts."""
    if len(code) > _LONGEST or not _READS_ELSEWHERE.search(code):
        return False
    plain = code.replace("=>", "").replace("<>", "").replace("process.stdout.write(", "(")
    return _ACTS_ELSEWHERE.search(plain) is None and "require(" not in _REQUIRES.sub("", plain)


_REQUIRES = re.compile(
    r"""require\(\s*(["'])(?:(?:node:)?(?:fs|path|os|util)|(?:js-)?yaml|toml|json5|\.{1,2}/[^"']+)\1\s*\)"""
)
