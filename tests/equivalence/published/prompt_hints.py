#!/usr/bin/env python3
"""UserPromptSubmit: add a hint for each topic that a prompt mentions; topics come from a file beside the script."""

import json
import os
import re
import string
import sys

from topics import TOPICS, normalise


def score(words, keywords):
    return sum(words.count(keyword) for keyword in keywords)


def hints(prompt, limit=3):
    words = re.findall(r"\w+", normalise(prompt))
    ranked = sorted(((score(words, topic["keywords"]), name) for name, topic in TOPICS.items()), reverse=True)
    for points, name in ranked[:limit]:
        if points:
            yield name, string.Template(TOPICS[name]["hint"]).safe_substitute(os.environ)


def main():
    event = json.load(sys.stdin)
    prompt = event.get("prompt", "")
    if prompt.startswith("/") or len(prompt) < 5:
        return
    lines = [f"[{name}] {hint}" for name, hint in hints(prompt)]
    if "ultra" in prompt:
        lines.append("[effort] Plan before you write.")
    if lines:
        print("<hints>", *lines, "</hints>", sep="\n")


if __name__ == "__main__":
    try:
        main()
    except KeyError as error:
        print(f"bad topic: {error}", file=sys.stderr)
        sys.exit(1)
