"""The queue on disk: answered once, used once, bounded, shared by all processes."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from approvals.asking import question
from billhook.approvals.queue import AnsweredError, Questions
from billhook.core.errors import UsageError
from billhook.store.files import StoreError


def test_the_first_answer_counts(tmp_path: Path) -> None:
    """Later ones are told who was first, and change nothing."""
    questions = Questions(tmp_path)
    asked = questions.add(question())
    questions.answer(asked.code.lower(), True, "Ann", "page")
    with pytest.raises(AnsweredError, match=r"Ann \(page\) answered first, at .*: allow"):
        questions.answer(asked.id, False, "Ben", "terminal")
    found = questions.find(asked.id)
    assert found is not None and (found.answer, found.by, found.via) == ("allow", "Ann", "page")


def test_many_people_answer_at_once(tmp_path: Path) -> None:
    """One of them is first."""
    asked = Questions(tmp_path).add(question())

    def answer(number: int) -> bool:
        try:
            Questions(tmp_path).answer(asked.id, number % 2 == 0, f"person {number}", "page")
        except AnsweredError:
            return False
        return True

    with ThreadPoolExecutor(8) as people:
        assert sum(people.map(answer, range(16))) == 1


def test_an_allow_is_used_once(tmp_path: Path) -> None:
    questions = Questions(tmp_path)
    asked = questions.add(question())
    assert not questions.use(asked.id)
    questions.answer(asked.id, True, "Ann", "page")
    assert questions.use(asked.id)
    assert not questions.use(asked.id)
    assert questions.add(question()).id != asked.id


def test_a_deny_is_for_one_question(tmp_path: Path) -> None:
    """The same call asks again: the person may have changed something since."""
    questions = Questions(tmp_path)
    asked = questions.add(question())
    questions.answer(asked.id, False, "Ann", "page")
    assert not questions.use(asked.id)
    assert questions.add(question()).id != asked.id


def test_a_repeated_call_joins_its_question(tmp_path: Path) -> None:
    """Also one that silence has denied: people got a message about it, and can still answer."""
    questions = Questions(tmp_path)
    late = questions.add(question(seconds=-1))
    assert late.state == "late" and questions.pending() == []
    assert questions.add(question()).id == late.id
    assert [one.id for one in questions.pending()] == [late.id]
    assert questions.add(question("another")).id != late.id


def test_a_late_allow_waits_for_the_next_call(tmp_path: Path) -> None:
    questions = Questions(tmp_path)
    late = questions.add(question(seconds=-1))
    questions.answer(late.id, True, "Ann", "page")
    assert questions.add(question()).id == late.id
    assert questions.use(late.id)


def test_an_expired_question_can_not_be_answered(tmp_path: Path) -> None:
    questions = Questions(tmp_path)
    old = questions.add(question(seconds=-1000))
    assert old.state == "expired"
    with pytest.raises(UsageError, match="expired"):
        questions.answer(old.id, True, "Ann", "page")
    with pytest.raises(UsageError, match="no question `nothing`"):
        questions.answer("nothing", True, "Ann", "page")


def test_an_old_allow_is_not_valid(tmp_path: Path) -> None:
    one = replace(question(), answer="allow", answered=question().asked - 1000)
    assert not one.usable


def test_the_queue_is_bounded(tmp_path: Path) -> None:
    """Questions that are over make room; those that a process waits for never do."""
    questions = Questions(tmp_path)
    over = questions.add(question("over", seconds=-1))
    for number in range(128):
        questions.add(question(str(number)))
    assert questions.find(over.id) is None
    with pytest.raises(StoreError, match="128 questions wait"):
        questions.add(question("one more"))
    assert len(questions.pending()) == 128


def test_a_damaged_file_answers_nothing(tmp_path: Path) -> None:
    """It counts as empty when the next question is asked."""
    questions = Questions(tmp_path)
    questions.add(question())
    (file,) = tmp_path.rglob("questions/*.json")
    file.write_text('{"questions": [{"id": ')
    with pytest.raises(StoreError):
        questions.all()
    asked = questions.add(question())
    assert [one.id for one in questions.all()] == [asked.id]


def test_other_processes_see_a_change(tmp_path: Path) -> None:
    """The stamp changes with an answer in another process."""
    questions = Questions(tmp_path)
    asked, before = questions.add(question()), questions.stamp()
    answers = "Questions(sys.argv[1]).answer(sys.argv[2], True, 'Ann', 'page')"
    code = f"import sys; from billhook.approvals.queue import Questions; {answers}"
    subprocess.run([sys.executable, "-c", code, str(tmp_path), asked.id], check=True, timeout=60)
    assert questions.stamp() != before
    found = questions.find(asked.id)
    assert found is not None and found.answer == "allow"


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    Questions(tmp_path).add(question())
    (file,) = tmp_path.rglob("questions/*.json")
    assert file.stat().st_mode & 0o077 == 0 and json.loads(file.read_text())["questions"]
