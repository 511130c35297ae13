"""A hook that records its input and returns no answer: `recorder.py FILE ARGUMENT`. Standard library only."""

import json
import os
import sys

given = sys.stdin.read()
try:
    event = json.loads(given)
except ValueError:
    event = given
with open(sys.argv[1], "a") as log:
    log.write(json.dumps({"argument": sys.argv[2], "env": dict(os.environ), "stdin": event}) + "\n")
