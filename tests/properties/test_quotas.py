"""Quotas of clients, for any course of requests: never faster than the bound, never stuck, and bounded in memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.security.quotas.entities import CLIENT_ID, USER, Quota
from penstock.security.quotas.levels import QuotaLevels
from penstock.security.quotas.rates import Rate, TokenBucket, Windows
from penstock.security.quotas.sensors import Sensors

WINDOWS = st.builds(Windows, st.integers(1, 12), st.sampled_from([100, 1_000, 3_000]))
BOUNDS = st.one_of(st.integers(1, 50), st.integers(100, 1_000_000))
SIZES = st.integers(1, 100_000)
COURSE = st.lists(st.tuples(st.integers(0, 20_000), SIZES), max_size=30)
NAMES = st.sampled_from(["alice", "bob", "*", "<default>"])


@given(BOUNDS, WINDOWS, st.lists(SIZES, min_size=1, max_size=60))
def test_a_client_that_waits_as_told_is_no_faster_than_its_bound(
    bound: int, windows: Windows, sizes: list[int]
) -> None:
    """But for what it may spend at once, and for the request with which it goes beyond."""
    rate, now_ms = Rate(), 0
    sent: list[tuple[int, int]] = []
    for size in sizes:
        rate.record(size, now_ms, windows)
        sent.append((now_ms, size))
        now_ms += rate.throttle_ms(bound, now_ms, windows)
    total = sum(size for _, size in sent[:-1])
    spans = sent[-1][0] // windows.span_ms + 1
    allowed = bound * (sent[-1][0] + spans * windows.span_ms + len(sizes)) / 1000
    assert total <= allowed + spans * max(sizes)


@given(BOUNDS, WINDOWS, COURSE)
def test_what_is_taken_back_leaves_no_trace(bound: int, windows: Windows, course: list[tuple[int, int]]) -> None:
    rate, other, now_ms = Rate(), Rate(), 0
    for passed_ms, size in course:
        now_ms += passed_ms
        for each in (rate, other):
            each.record(size, now_ms, windows)
        other.record(10 * size, now_ms, windows)
        other.record(-10 * size, now_ms, windows)
        assert rate.throttle_ms(bound, now_ms, windows) == other.throttle_ms(bound, now_ms, windows)


@given(WINDOWS, COURSE)
def test_a_rate_remembers_one_window_more_than_asked_for_and_forgets_all_after_them(
    windows: Windows, course: list[tuple[int, int]]
) -> None:
    rate, now_ms = Rate(), 0
    for passed_ms, size in course:
        now_ms += passed_ms
        rate.record(size, now_ms, windows)
        assert len(rate._windows) <= windows.window_count + 1
    assert rate.is_empty(now_ms + windows.span_ms, windows)
    assert rate.throttle_ms(1, now_ms + windows.span_ms, windows) == 0


@given(BOUNDS, WINDOWS, st.lists(st.integers(1, 500), min_size=1, max_size=40))
def test_a_bucket_lets_a_client_go_on_when_it_has_waited_as_told(
    bound: int, windows: Windows, counts: list[int]
) -> None:
    bucket, now_ms, taken = TokenBucket(bound, 0, windows), 0, 0
    for count in counts:
        now_ms += bucket.throttle_ms(bound, now_ms, windows)
        assert bucket.throttle_ms(bound, now_ms + 1, windows) == 0  # times are whole milliseconds
        now_ms += 1
        assert taken <= bound * (now_ms + windows.span_ms) / 1000 + max(counts)
        bucket.take(count, bound, now_ms, windows)
        taken += count


ENTITY_NAMES = st.one_of(st.none(), NAMES)
ENTITIES = st.one_of(
    st.fixed_dictionaries({USER: ENTITY_NAMES}),
    st.fixed_dictionaries({CLIENT_ID: ENTITY_NAMES}),
    st.fixed_dictionaries({USER: ENTITY_NAMES, CLIENT_ID: ENTITY_NAMES}),
)


@given(st.lists(ENTITIES, max_size=12), NAMES, NAMES)
def test_the_first_of_the_eight_levels_holds(entities: list[dict[str, str | None]], user: str, client_id: str) -> None:
    quotas = [Quota(names, {"rate": number + 1.0}) for number, names in enumerate(entities)]
    expected = None
    for wanted in (
        {USER: user, CLIENT_ID: client_id},
        {USER: user, CLIENT_ID: None},
        {USER: user},
        {USER: None, CLIENT_ID: client_id},
        {USER: None, CLIENT_ID: None},
        {USER: None},
        {CLIENT_ID: client_id},
        {CLIENT_ID: None},
    ):
        bounds = [quota.values["rate"] for quota in quotas if quota.names == wanted]
        if bounds:
            expected = bounds[-1]
            break
    found = QuotaLevels(quotas, "rate").find(user, client_id)
    assert (found and found.per_second) == expected


@given(st.lists(st.integers(0, 200)), st.integers(1, 20))
def test_no_more_is_remembered_than_allowed_whatever_names_come(names: list[int], limit: int) -> None:
    sensors: Sensors[int, list[int]] = Sensors(limit)
    for name in names:
        sensors.get(name, list, lambda _: False).append(name)
        assert len(sensors) <= limit
    assert all(set(sensors.get(name, list, lambda _: False)) <= {name} for name in names)
