"""Which files hold secrets, by their paths alone."""

import posixpath


def is_secret_file(path: str) -> bool:
    """Whether a path names a file that holds a secret."""
    name = posixpath.basename(path)
    if name.endswith((".pub", ".example")):
        return False
    return name.startswith((".env", "id_rsa", "id_ed25519")) or name in (".netrc", "credentials", "shadow")
