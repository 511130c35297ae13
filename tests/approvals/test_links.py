"""Signed links: what they cover, and what is refused."""

import time
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from approvals.asking import question
from billhook.approvals.channels import LinkError, LinkOwner, check, signed_link
from billhook.approvals.queue import AnsweredError, Questions

OWNER = LinkOwner("slack", "Ann & Ben")


def made(root: Path, seconds: float = 60) -> tuple[str, dict[str, str]]:
    """The id and the fields of a link, as the daemon reads them from its address."""
    parts = urlsplit(signed_link(root, "https://host.example/", "the-id", time.time() + seconds, OWNER))
    assert parts.netloc == "host.example" and parts.path.startswith("/approve/")
    return parts.path.removeprefix("/approve/"), dict(parse_qsl(parts.query))


@pytest.mark.parametrize("answer", ["allow", "deny"])
def test_a_link_names_who_got_it(tmp_path: Path, answer: str) -> None:
    id_, fields = made(tmp_path)
    assert check(tmp_path, id_, answer, fields) == OWNER


@pytest.mark.parametrize(
    "change",
    [
        {"allow": "0" * 64},
        {"allow": ""},
        {"allow": "é"},
        {"until": "9999999999"},
        {"via": "page"},
        {"by": "Eve"},
        {"via": "slack\n", "by": ""},
    ],
)
def test_a_changed_link_is_refused(tmp_path: Path, change: dict[str, str]) -> None:
    id_, fields = made(tmp_path)
    with pytest.raises(LinkError, match="signature"):
        check(tmp_path, id_, "allow", fields | change)


def test_the_signature_of_a_deny_does_not_allow(tmp_path: Path) -> None:
    id_, fields = made(tmp_path)
    with pytest.raises(LinkError, match="signature"):
        check(tmp_path, id_, "allow", fields | {"allow": fields["deny"]})


def test_a_link_is_for_one_question(tmp_path: Path) -> None:
    _, fields = made(tmp_path)
    with pytest.raises(LinkError, match="signature"):
        check(tmp_path, "another-id", "allow", fields)


def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    id_, fields = made(tmp_path / "one")
    with pytest.raises(LinkError, match="signature"):
        check(tmp_path / "another", id_, "allow", fields)


def test_a_link_expires(tmp_path: Path) -> None:
    id_, fields = made(tmp_path, seconds=-2)
    with pytest.raises(LinkError, match="expired"):
        check(tmp_path, id_, "allow", fields)


@pytest.mark.parametrize("fields", [{}, {"until": ""}, {"until": "١"}, {"until": "-1"}, {"until": "9" * 5000}])
def test_an_incomplete_link_is_refused(tmp_path: Path, fields: dict[str, str]) -> None:
    with pytest.raises(LinkError, match="not complete"):
        check(tmp_path, "the-id", "allow", fields)


def test_other_answers_are_refused(tmp_path: Path) -> None:
    id_, fields = made(tmp_path)
    with pytest.raises(LinkError, match="not complete"):
        check(tmp_path, id_, "via", fields)


def test_a_link_works_once(tmp_path: Path) -> None:
    """A replayed request is valid, and the question has its answer already."""
    questions = Questions(tmp_path)
    asked = questions.add(question())
    fields = dict(parse_qsl(urlsplit(signed_link(tmp_path, "https://h", asked.id, asked.until, OWNER)).query))
    for number in range(2):
        owner = check(tmp_path, asked.id, "allow", fields)
        if number:
            with pytest.raises(AnsweredError):
                questions.answer(asked.id, True, owner.by, owner.via)
        else:
            questions.answer(asked.id, True, owner.by, owner.via)
