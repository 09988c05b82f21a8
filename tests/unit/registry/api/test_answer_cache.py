"""Answers that are kept while nothing is written."""

from __future__ import annotations

from starlette.responses import Response

from penstock.registry.api.answer_cache import AnswerCache, known_part


def test_answer_is_forgotten_when_the_state_has_changed() -> None:
    cache, made = AnswerCache(), Response(b"x")
    cache.keep((b"/schemas/ids/1", b""), 5, made)
    assert cache.find((b"/schemas/ids/1", b""), 5) is made
    assert cache.find((b"/schemas/ids/1", b"x=y"), 5) is None
    assert cache.find((b"/schemas/ids/1", b""), 6) is None
    cache.keep((b"/schemas/ids/2", b""), 6, made)
    assert cache.find((b"/schemas/ids/1", b""), 6) is None


def test_error_is_not_kept_when_it_is_answered() -> None:
    cache = AnswerCache()
    cache.keep((b"/schemas/ids/1", b""), 1, Response(b"", 404))
    assert cache.find((b"/schemas/ids/1", b""), 1) is None


def test_memory_is_bounded_and_what_is_asked_for_stays_when_strangers_ask_for_more_and_more() -> None:
    cache = AnswerCache(most_bytes=100_000)
    cache.keep((b"/schemas/ids/1", b""), 1, Response(bytes(100)))
    for number in range(10_000):
        assert cache.find((b"/schemas/ids/1", b""), 1) is not None
        cache.keep((b"/schemas/ids/1", b"%d" % number), 1, Response(bytes(100)))
        assert cache.size <= 100_000
    assert cache.find((b"/schemas/ids/1", b"9999"), 1) is not None
    assert cache.find((b"/schemas/ids/1", b"0"), 1) is None
    cache.keep((b"/schemas/ids/2", b""), 1, Response(bytes(100_000)))  # larger than all that is kept
    assert cache.find((b"/schemas/ids/1", b""), 1) is not None


def test_made_up_parameters_count_for_nothing_when_an_answer_is_sought() -> None:
    names = frozenset((b"format", b"subject"))
    assert known_part(b"", names) == b""
    assert known_part(b"x=1&format=resolved&y&subject=s&=", names) == b"format=resolved&subject=s"
    assert known_part(b"%66ormat=resolved", names) == b"%66ormat=resolved"  # another spelling of one that counts
