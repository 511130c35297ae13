#!/usr/bin/env python3
"""Notification and Stop: tell the user on the desktop, or in a file where there is none."""

import argparse
import html
import json
import os
import platform
import shutil
import subprocess
import sys
import textwrap


def desktop_command(title, text):
    if platform.system() == "Darwin":
        return ["osascript", "-e", f"display notification {json.dumps(text)} with title {json.dumps(title)}"]
    program = shutil.which("notify-send")
    return [program, "--app-name=agent", title, html.escape(text)] if program else None


def deliver(title, text, quiet):
    command = desktop_command(title, text)
    if command and os.environ.get("DISPLAY"):
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        return "desktop"
    target = os.environ.get("NOTIFY_FILE")
    if target:
        with open(target, "a", encoding="utf-8") as file:
            print(title, text, sep="\n", end="\n\n", file=file)
        return "file"
    if not quiet:
        sys.stdout.write("\a")
    return "bell"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--width", type=int, default=40)
    options = parser.parse_args()
    event = json.loads(input())
    name = os.path.basename(event.get("cwd", "")) or "project"
    message = event.get("message") or {"Stop": "Finished", "SubagentStop": "A subagent finished"}.get(
        event["hook_event_name"], event["hook_event_name"]
    )
    text = "\n".join(textwrap.wrap(message, options.width))
    way = deliver(f"Agent in {name}", text, options.quiet)
    print(f"notified by {way}", file=sys.stderr)


main()
