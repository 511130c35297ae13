#!/usr/bin/python3
"""UserPromptSubmit: block prompts that contain credentials or personal data."""

import base64
import binascii
import json
import re
import sys
import unicodedata

PATTERNS = {
    "API key": r"\b(?:sk|pk|rk)[-_](?:live|test|ant)?[-_]?[A-Za-z0-9]{16,}\b",
    "card number": r"\b(?:\d[ -]?){15}\d\b",
    "e-mail address": r"[\w.+-]+@[\w-]+\.[\w.]+",
    "IBAN": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}\b",
}


def luhn(number):
    digits = [int(c) for c in number if c.isdigit()][::-1]
    return sum(d if i % 2 == 0 else (2 * d - 9 if d > 4 else 2 * d) for i, d in enumerate(digits)) % 10 == 0


def decoded(text):
    """Parts that look like base64, as text."""
    for part in re.findall(r"[A-Za-z0-9+/]{24,}={0,2}", text):
        try:
            yield base64.b64decode(part, validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            continue


def problems(text):
    text = unicodedata.normalize("NFKC", text)
    for name, pattern in PATTERNS.items():
        for match in re.finditer(pattern, text):
            if name != "card number" or luhn(match[0]):
                yield f"{name} ({match[0][:4]}…)"


event = json.load(sys.stdin)
found = list(problems(event["prompt"]))
for hidden in decoded(event["prompt"]):
    found += [f"{problem}, encoded" for problem in problems(hidden)]
if found:
    print(json.dumps({"decision": "block", "reason": "The prompt contains: " + "; ".join(found)}, ensure_ascii=False))
