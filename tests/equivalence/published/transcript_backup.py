#!/usr/bin/env python3
"""PreCompact: keep a compressed copy of the transcript, the newest three only."""

import gzip
import json
import logging
import logging.handlers
import os
import shutil
import sys
from pathlib import Path

KEEP = 3
log = logging.getLogger("backup")


def configure(folder):
    handler = logging.handlers.RotatingFileHandler(folder / "backup.log", maxBytes=100_000, backupCount=1)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(funcName)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(os.environ.get("LOG_LEVEL", "INFO"))


def copy(transcript, folder, trigger):
    number = len(list(folder.glob("*.gz"))) + 1
    target = folder / f"{transcript.stem}-{trigger}-{number:03}.jsonl.gz"
    with transcript.open("rb") as source, gzip.GzipFile(target, "wb", mtime=0) as packed:
        shutil.copyfileobj(source, packed)
    log.info("%s: %d bytes", target.name, transcript.stat().st_size)
    return target


def prune(folder):
    for old in sorted(folder.glob("*.gz"), key=lambda path: path.name)[:-KEEP]:
        old.unlink()
        log.debug("removed %s", old.name)


def main():
    event = json.load(sys.stdin)
    folder = Path(event["cwd"], ".backups")
    folder.mkdir(mode=0o700, exist_ok=True)
    configure(folder)
    transcript = Path(event["transcript_path"])
    if not transcript.exists():
        log.error("no transcript at %s", transcript.name)
        logging.getLogger("backup.console").warning("nothing saved")
        sys.exit(1)
    target = copy(transcript, folder, event.get("trigger", "auto"))
    prune(folder)
    print(json.dumps({"systemMessage": f"saved {target.name}"}))


if __name__ == "__main__":
    main()
