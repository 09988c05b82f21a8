"""Counters, histograms and the table of metrics."""

from __future__ import annotations

import pytest

from penstock.core.metrics.counters import BrokerMetrics, RequestMetrics, Survey, TopicCounters
from penstock.core.metrics.metric import Metric, MetricKind
from penstock.core.metrics.samples import Histogram, Sample
from penstock.core.metrics.table import METRICS, PROCESS_SOURCE
from penstock.core.steps import finish

COUNTED = [metric for metric in METRICS if metric.source and metric.source != PROCESS_SOURCE]


def read_gauge(metrics: BrokerMetrics, name: str) -> list[Sample]:
    return finish(metrics.read_gauges()).get(name, [])


def numbers(samples: list[Sample]) -> dict[tuple[str, ...], object]:
    return dict(samples)


class TestHistogram:
    def test_value_falls_into_the_bucket_whose_bound_it_equals_when_it_lies_on_a_bound(self) -> None:
        histogram = Histogram((1, 10))
        for value in (1, 1.5, 10, 11):
            histogram.observe(value)
        assert histogram.counts == [1, 2, 1]
        assert histogram.total == 23.5

    def test_copy_stays_as_it_was_when_the_original_counts_on(self) -> None:
        histogram = Histogram((1,))
        copied = histogram.copy()
        histogram.observe(5)
        assert (copied.counts, copied.total) == ([0, 0], 0)


class TestTopicCounters:
    def test_sum_comes_first_under_an_empty_label_when_topics_have_counted(self) -> None:
        counters = TopicCounters()
        counters.get("a").messages_in += 2
        counters.get("b").messages_in += 3
        assert list(counters.samples("messages_in")) == [(("",), 5), (("a",), 2), (("b",), 3)]

    def test_sum_does_not_fall_when_a_topic_is_removed(self) -> None:
        counters = TopicCounters()
        counters.get("a").bytes_in += 7
        counters.remove("a")
        assert list(counters.samples("bytes_in")) == [(("",), 7)]

    def test_topic_starts_at_zero_when_it_is_created_again(self) -> None:
        counters = TopicCounters()
        counters.get("a").bytes_in += 7
        counters.remove("a")
        counters.get("a").bytes_in += 1
        assert list(counters.samples("bytes_in")) == [(("",), 8), (("a",), 1)]

    def test_topic_is_counted_once_when_it_is_removed_while_it_is_read(self) -> None:
        counters = TopicCounters()
        for topic in ("a", "b"):
            counters.get(topic).bytes_in += 7
        reading = counters.read()
        next(reading)
        counters.remove("a")
        counters.remove("b")
        assert finish(reading)["bytes_in"] == [(("",), 14), (("a",), 7), (("b",), 7)]
        assert list(counters.samples("bytes_in")) == [(("",), 14)]

    def test_removal_does_nothing_when_the_topic_never_counted(self) -> None:
        counters = TopicCounters()
        counters.remove("never seen")
        assert list(counters.samples("bytes_in")) == [(("",), 0)]

    def test_topics_share_one_object_when_the_limit_is_reached(self) -> None:
        counters = TopicCounters(limit=2)
        for topic in ("a", "b", "c", "d"):
            counters.get(topic).messages_in += 1
        assert len(counters) == 2
        assert numbers(list(counters.samples("messages_in"))) == {("",): 4, ("a",): 1, ("b",): 1}

    def test_same_object_is_answered_when_a_topic_is_asked_for_twice(self) -> None:
        counters = TopicCounters()
        assert counters.get("a") is counters.get("a")


class TestRequestMetrics:
    def test_versions_without_requests_are_left_out_when_sampled(self) -> None:
        requests = RequestMetrics()
        produce = requests.register("Produce", 13)
        produce.requests[9] += 4
        assert list(requests.samples("requests")) == [(("Produce", "9"), 4)]

    def test_error_codes_become_names_when_sampled(self) -> None:
        requests = RequestMetrics(error_name={0: "NONE", 3: "UNKNOWN_TOPIC_OR_PARTITION"}.__getitem__)
        fetch = requests.register("Fetch", 18)
        for code in (0, 0, 3):
            fetch.count_answer(code, 1)
        assert numbers(list(requests.samples("errors"))) == {
            ("Fetch", "NONE"): 2,
            ("Fetch", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
        }

    def test_histograms_of_unused_apis_are_left_out_when_sampled(self) -> None:
        requests = RequestMetrics()
        requests.register("Fetch", 18)
        requests.register("Produce", 13).total_time_ms.observe(3)
        assert [labels for labels, _ in requests.samples("total_time_ms")] == [("Produce",)]

    def test_registration_is_refused_when_the_api_is_counted_already(self) -> None:
        requests = RequestMetrics()
        requests.register("Fetch", 18)
        with pytest.raises(ValueError, match="Fetch"):
            requests.register("Fetch", 18)


class TestBrokerMetrics:
    def test_gauge_has_no_samples_when_nobody_registered_it(self) -> None:
        assert read_gauge(BrokerMetrics(), "kafka_log_log_size") == []

    def test_gauge_is_read_anew_when_asked_again(self) -> None:
        metrics, values = BrokerMetrics(), [1, 2]
        metrics.register_gauge("kafka_server_replicamanager_leadercount", lambda: values.pop(0))
        name = "kafka_server_replicamanager_leadercount"
        assert [read_gauge(metrics, name), read_gauge(metrics, name)] == [[((), 1)], [((), 2)]]

    def test_gauge_has_one_sample_per_label_when_its_source_gives_many(self) -> None:
        metrics = BrokerMetrics()
        metrics.register_gauge("kafka_log_log_size", lambda: ((("t", str(n)), n * 10) for n in range(2)))
        assert read_gauge(metrics, "kafka_log_log_size") == [(("t", "0"), 0), (("t", "1"), 10)]

    def test_gauge_is_refused_when_it_has_a_source_already(self) -> None:
        metrics = BrokerMetrics()
        metrics.register_gauge("kafka_log_log_size", lambda: 1)
        with pytest.raises(ValueError, match="kafka_log_log_size"):
            metrics.register_gauge("kafka_log_log_size", lambda: 2)

    def test_one_survey_answers_several_gauges_when_they_are_read(self) -> None:
        metrics, passes = BrokerMetrics(), []

        def survey() -> Survey:
            passes.append(1)
            yield
            return {"kafka_log_log_size": [(("t", "0"), 5)], "kafka_server_replicamanager_leadercount": 1}

        metrics.register_survey(["kafka_log_log_size", "kafka_server_replicamanager_leadercount"], survey)
        assert finish(metrics.read_gauges()) == {
            "kafka_log_log_size": [(("t", "0"), 5)],
            "kafka_server_replicamanager_leadercount": [((), 1)],
        }
        assert len(passes) == 1

    def test_survey_is_refused_when_one_of_its_gauges_has_a_source_already(self) -> None:
        metrics = BrokerMetrics()
        metrics.register_gauge("kafka_log_log_size", lambda: 1)
        with pytest.raises(ValueError, match="kafka_log_log_size"):
            metrics.register_survey(["kafka_log_log_size"], lambda: iter(()))  # type: ignore[arg-type, return-value]

    def test_reasons_are_counted_apart_when_requests_are_malformed(self) -> None:
        metrics = BrokerMetrics()
        metrics.sockets.count_malformed("frame_too_large")
        metrics.sockets.count_malformed("frame_too_large")
        metrics.sockets.count_malformed("undecodable")
        assert numbers(list(metrics.sockets.samples("malformed"))) == {("frame_too_large",): 2, ("undecodable",): 1}


class TestTable:
    def test_names_are_unique_and_of_one_shape(self) -> None:
        names = [metric.name for metric in METRICS]
        assert len(set(names)) == len(names)
        assert all(name == name.lower() and name.replace("_", "").isalnum() for name in names)

    def test_counters_end_in_total_and_nothing_else_does(self) -> None:
        assert [m.name for m in METRICS if m.name.endswith("_total") != (m.kind is MetricKind.COUNTER)] == []

    @pytest.mark.parametrize("metric", COUNTED, ids=lambda metric: metric.name)
    def test_source_gives_samples_that_fit_the_row_when_something_was_counted(self, metric: Metric) -> None:
        counters, attribute = metric.source.split(".")
        samples = list(getattr(filled_metrics(), counters).samples(attribute))
        assert samples
        for labels, value in samples:
            assert len(labels) == len(metric.labels)
            assert isinstance(value, Histogram) == (metric.kind is MetricKind.HISTOGRAM)


def filled_metrics() -> BrokerMetrics:
    metrics = BrokerMetrics()
    metrics.store.is_remote = True
    api = metrics.requests.register("Produce", 13)
    api.requests[3] += 1
    api.count_answer(0, 1)
    api.request_bytes.observe(100)
    metrics.sockets.count_malformed("undecodable")
    metrics.sockets.count_handshake_failure("version")
    metrics.purgatory.count_expired("Fetch")
    metrics.quotas.throttled["producer_byte_rate"] = 1
    metrics.logs.flush_time_ms.observe(2)
    metrics.http.count_answer(200)
    metrics.http.count_refused("login")
    metrics.audit.count("change")
    metrics.audit.count_dropped("file")
    return metrics
