"""The paths that the guard protects: the row `disarm` of its table."""

import msgspec


class Protected(msgspec.Struct, frozen=True, eq=False):
    """What must not be changed unseen. All paths are absolute, and need not exist."""

    files: tuple[str, ...] = ()  # our configuration in all layers, and approved scripts
    folders: tuple[str, ...] = ()  # Everything below is configuration: `.billhook/`
    state: tuple[str, ...] = ()  # approvals, state and log: the parts of the state root that are ours alone
    names: frozenset[str] = frozenset()
    """Tails that are configuration wherever a project may be, such as `.claude/settings.json`: in the event's working
    folder, in any folder above it, and in any folder that holds `.git`. One that begins with a dot is in any folder of
    the project; a `src/hooks.yaml` with no such file beside it is just a file."""
    programs: tuple[str, ...] = ()
    """`billhook-hook` and `billhook`: as settings name them, as PATH finds them, and beside the interpreter.
    Of these, and of what follows, links are followed already."""
    interpreters: tuple[str, ...] = ()
    """What runs them. Its path is an ordinary argument, so only programs that are known to write count."""
    packages: tuple[str, ...] = ()  # everything below is billhook's own code
    sites: tuple[str, ...] = ()  # Folders in which a `*.pth` file or a `sitecustomize` runs before billhook does
    search_path: tuple[str, ...] = ()  # folders in which a new `billhook-hook` would be found first
    elsewhere: tuple[str, ...] = ()  # approved files of other projects
    approved: tuple[str, ...] = ()
    """Approved files of this project, those of `elsewhere` left out: git commands must not change them unseen."""
    compares: bool = True  # whether git commands are compared with the repository as it is now
