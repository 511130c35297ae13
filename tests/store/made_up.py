"""Secrets that are made up, and put together at run time so that no scanner takes them for real ones."""

import hashlib
import re

KEY = b"k" * 32
SECRET = "hunt3r" + "XyzQ"
RANDOM = hashlib.sha512(b"made up").hexdigest().upper()[:48] + hashlib.sha512(b"more").hexdigest()[:48]
MARK = re.compile(r"\[redacted (\d+) chars ([0-9a-f]{12})(, too long to search)?\]")
