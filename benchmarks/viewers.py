"""Goal 27: judging costs the same with 20 open pages as with none. As a program, it opens the pages: ROOT NUMBER."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from billhook.serve import control
from harness import PROCESSES, Bar, Case, Goal, Trial
from warm import CLIENT, daemon, process, project

VIEWERS = 20


async def watched() -> AsyncGenerator[Trial, None]:
    with ExitStack() as stack:
        cases: dict[str, Case] = {}
        for name, many in {"no page": 0, f"{VIEWERS} pages": VIEWERS}.items():
            base, env = stack.enter_context(project())
            stack.enter_context(daemon(env))
            if many:
                stack.enter_context(_pages(base / "state", many))
            cases[name] = process(base, env)([CLIENT, "--as", "claude"])
        yield Trial("daemon warm", cases, [Bar(f"{VIEWERS} pages", "no page", 1.05)], 2 * PROCESSES)


@contextmanager
def _pages(root: Path, many: int) -> Iterator[None]:
    """So many open pages, in a process of their own."""
    argv = [sys.executable, __file__, str(root), str(many)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as pages:
        assert pages.stdout is not None and pages.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            assert pages.poll() is None, "the pages were closed"
            pages.terminate()


async def _view(root: Path, many: int) -> None:
    links = [control.page_link(root).url for _ in range(many)]
    open_ = asyncio.Semaphore(0)
    pages = [asyncio.create_task(_page(link, open_)) for link in links]
    for _ in pages:
        await open_.acquire()
    print("ready", flush=True)
    await asyncio.gather(*pages)


async def _page(link: str, opened: asyncio.Semaphore) -> None:
    """Log in, load the first view, and read all news."""
    base, _, code = link.partition("/ui/#code=")
    async with httpx.AsyncClient(base_url=base, headers={"origin": base}, trust_env=False, timeout=None) as page:
        (await page.post("/ui/login", json={"code": code})).raise_for_status()
        (await page.get("/ui/api/now")).raise_for_status()
        async with page.stream("GET", "/ui/api/live") as news:
            news.raise_for_status()
            opened.release()
            async for _ in news.aiter_raw():
                pass


GOALS = (Goal(27, "Judging while people watch", watched),)

if __name__ == "__main__":
    asyncio.run(_view(Path(sys.argv[1]), int(sys.argv[2])))
