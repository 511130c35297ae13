#!/usr/bin/env python3
"""PostToolUse: parse configuration files after an edit, and tell the agent about mistakes."""

import configparser
import json
import sys
from pathlib import Path
from xml.etree import ElementTree


class Problem(Exception):
    def __init__(self, path, line, text):
        super().__init__(f"{path.name}:{line}: {text}")


def check_json(path):
    try:
        json.loads(path.read_text("utf-8"))
    except json.JSONDecodeError as error:
        raise Problem(path, error.lineno, error.msg) from error


def check_xml(path):
    try:
        ElementTree.parse(path)
    except ElementTree.ParseError as error:
        raise Problem(path, error.position[0], str(error).split(":")[0]) from error


def check_ini(path):
    parser = configparser.ConfigParser(strict=True)
    try:
        parser.read(path, encoding="utf-8")
    except configparser.Error as error:
        raise Problem(path, getattr(error, "lineno", 1), type(error).__name__) from None


CHECKS = {".json": check_json, ".xml": check_xml, ".svg": check_xml, ".ini": check_ini, ".cfg": check_ini}

event = json.load(sys.stdin)
target = Path(event["tool_input"]["file_path"])
check = CHECKS.get(target.suffix)
if check is None:
    sys.exit()
try:
    check(target)
except Problem as problem:
    print(json.dumps({"decision": "block", "reason": str(problem)}))
else:
    print(json.dumps({"systemMessage": f"{target.name} is valid"}))
