from __future__ import annotations

from penstock.security.quotas.rates import Rate, TokenBucket, Windows

WINDOWS = Windows()  # eleven of one second


class TestRates:
    def test_client_may_spend_a_second_at_once_when_it_did_nothing_before(self) -> None:
        rate = Rate()
        rate.record(100, 5_000, WINDOWS)
        assert rate.throttle_ms(100, 5_000, WINDOWS) == 0
        rate.record(1, 5_000, WINDOWS)
        assert rate.throttle_ms(100, 5_000, WINDOWS) == 10

    def test_throttle_time_brings_the_rate_to_its_bound(self) -> None:
        """(rate - bound) / bound * window, as Kafka has it."""
        rate = Rate()
        rate.record(3_000, 0, WINDOWS)
        assert rate.per_second(0, WINDOWS) == 3_000
        assert rate.throttle_ms(100, 0, WINDOWS) == 29_000

    def test_time_that_was_not_used_counts_when_something_is_remembered(self) -> None:
        rate = Rate()
        rate.record(100, 0, WINDOWS)
        assert rate.per_second(400, WINDOWS) == 100
        assert rate.per_second(10_900, WINDOWS) == 100 / 10.9

    def test_window_is_kept_while_its_last_event_is_recent(self) -> None:
        rate = Rate()
        rate.record(100, 0, WINDOWS)
        rate.record(100, 900, WINDOWS)
        assert rate.per_second(11_500, WINDOWS) == 200 / 11.5
        assert rate.per_second(11_900, WINDOWS) == 0

    def test_bucket_refuses_when_it_is_below_zero_and_lets_one_large_request_through(self) -> None:
        bucket = TokenBucket(5, 0, Windows(100, 1_000))
        bucket.take(560, 5, 0, Windows(100, 1_000))
        assert bucket.throttle_ms(5, 0, Windows(100, 1_000)) == 12_000
        assert bucket.throttle_ms(5, 12_000, Windows(100, 1_000)) == 0
