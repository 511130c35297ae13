"""Whether a piece of Python only reads: `json.load(open("x"))` names a file, but changes none."""

import re
from typing import Final

_LONGEST: Final = 20_000
_ACTS = re.compile(
    r"write|unlink|remove|rename|replace\s*\(|rmtree|rmdir|mkdir|touch|truncate|symlink|link\s*\(|chmod|chown|shutil"
    r"|subprocess|system|popen|spawn|exec|eval|compile|import_|getattr|globals|__|ctypes|pty|fcntl|mmap|fileinput|inplace"
    r"|extract|tarfile|zipfile|sqlite|shelve|dbm|socket|requests|urllib|asyncio|multiprocessing|runpy|importlib|code\b"
    r"|billhook|FileIO|dump\s*\(|tofile|to_\w+\s*\(|save|print\s*\([^\n]*\bfile\s*=",
    re.I,
)
_OS = re.compile(r"\bos\s*\.\s*(?!path\b|environ\b|getcwd\b|listdir\b|stat\b|sep\b|getenv\b|walk\b|scandir\b)")
_FROM_OS = re.compile(r"\bfrom\s+(?:os|io|codecs)\b|\bimport\s[^\n;]*\bas\b|=\s*(?:os|open|io)\b(?!\s*[.(])")
_OPEN = re.compile(r"\bopen\b")
_READING = re.compile(r"\bopen\(|\.read|\bloads?\b")
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
