"""Which schemas a batch names, and how the registry is asked for them: seldom, and never without end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.schema_checks.batch_judge import Judge, MustAskError, TooManyQuestionsError
from penstock.broker.schema_checks.payloads import Claims, read_claims, sides_of
from penstock.client.registry import RegistryAnswerError, RegistryClient, RegistrySettings
from penstock.client.registry.transport import Query, RegistryTransport
from penstock.core.log_settings import LogSettings
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError
from penstock.protocol.records import Record, build_batch
from penstock.serdes.framing import KEY_HEADER, VALUE_HEADER

BOTH = LogSettings(confluent_key_schema_validation=True, confluent_value_schema_validation=True)
VALUES = LogSettings(confluent_value_schema_validation=True)
SETTINGS = RegistrySettings.of_url("http://registry.test:8081")


class Transport(RegistryTransport):
    """A registry that has the ids below 1,000 under every subject."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.asked: list[str] = []
        self.refuses_with: int | None = None

    def get(self, path: str, query: Query | None = None) -> object:
        self.asked.append(path)
        if self.refuses_with is not None:
            raise RegistryAnswerError(self.refuses_with, self.refuses_with, "told so")
        schema_id = int(path.split("/")[3])
        if schema_id >= 1_000:
            raise RegistryAnswerError(404, 40403, "Schema not found")
        return [{"subject": (query or {})["subject"], "version": 1}]


def new_judge() -> tuple[Judge, Transport]:
    transport = Transport()
    return Judge(RegistryClient(SETTINGS, transport=transport)), transport


def claims_of(*values: bytes | None) -> Claims:
    return read_claims(sides_of("orders", VALUES), build_batch([Record(b"k", value, (), 1) for value in values]))


def framed(schema_id: int) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + b"x"


PAYLOADS = st.none() | st.binary(max_size=8) | st.integers(0, 2**32 - 1).map(framed)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from([KEY_HEADER, VALUE_HEADER, "other"]),
        st.none() | st.binary(max_size=20) | st.binary(min_size=16, max_size=16).map(lambda guid: b"\x01" + guid),
    ),
    max_size=3,
).map(tuple)
RECORDS = st.lists(st.builds(Record, PAYLOADS, PAYLOADS, HEADERS, st.just(1)), min_size=1, max_size=20)


@given(RECORDS, st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4]))
def test_every_payload_names_a_schema_or_is_an_error_when_a_batch_is_read(records: list[Record], codec: Codec) -> None:
    sides = sides_of("orders", BOTH)
    assert [(side.topic, side.is_key) for side in sides] == [("orders", True), ("orders", False)]
    claims = read_claims(sides, build_batch(records, codec=codec))
    named = [(side.is_key, place.record) for (side, _), places in claims.by_schema.items() for place in places]
    payloads = [
        (is_key, number)
        for number, record in enumerate(records)
        for is_key, payload in ((True, record.key), (False, record.value))
        if payload is not None
    ]
    assert len(named) == len(set(named))
    assert set(named) <= set(payloads)
    assert len(named) + len(claims.errors) == len(payloads)
    wrong = {number for is_key, number in set(payloads) - set(named)}
    assert {number for number, _ in claims.errors} == wrong


def test_registry_is_asked_once_when_a_schema_is_named_again() -> None:
    judge, transport = new_judge()
    claims = claims_of(framed(1), framed(2), None, framed(1))
    with pytest.raises(MustAskError):
        judge.find_bad(claims, may_ask=False)
    assert transport.asked == []
    assert judge.find_bad(claims, may_ask=True) == []
    assert len(transport.asked) == 2
    assert judge.find_bad(claims, may_ask=False) == []


def test_questions_are_bounded_when_a_batch_makes_up_ids() -> None:
    judge, transport = new_judge()
    bad = judge.find_bad(claims_of(*(framed(number) for number in range(2_000, 2_500))), may_ask=True)
    assert len(transport.asked) == 20
    assert [record for record, _ in bad] == list(range(20))


def test_batch_comes_through_after_some_attempts_when_it_names_many_schemas() -> None:
    judge, transport = new_judge()
    claims = claims_of(*(framed(number) for number in range(1, 51)))
    for asked in (20, 40):
        with pytest.raises(TooManyQuestionsError):
            judge.find_bad(claims, may_ask=True)
        assert len(transport.asked) == asked
    assert judge.find_bad(claims, may_ask=True) == []


@pytest.mark.parametrize("schema_id", [0, 2**31, 2**32 - 1])
def test_nobody_is_asked_when_an_id_cannot_be_one(schema_id: int) -> None:
    judge, transport = new_judge()
    assert [record for record, _ in judge.find_bad(claims_of(framed(schema_id)), may_ask=False)] == [0]
    assert transport.asked == []


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_nothing_is_decided_when_the_registry_does_not_say_whether(status: int) -> None:
    judge, transport = new_judge()
    transport.refuses_with = status
    with pytest.raises(RegistryAnswerError):
        judge.find_bad(claims_of(framed(1)), may_ask=True)
    transport.refuses_with = None
    assert judge.find_bad(claims_of(framed(1)), may_ask=True) == []


def test_batch_is_refused_when_it_has_more_records_or_schemas_than_are_remembered() -> None:
    claims = claims_of(*(framed(number) for number in range(1, 1_011)))
    assert len(claims.by_schema) == 1_000
    assert [record for record, _ in claims.errors] == list(range(1_000, 1_010))
    batch = bytearray(build_batch([Record(b"k", None, (), 1)]))
    batch[57:61] = (200_000).to_bytes(4, "big")
    with pytest.raises(ApiError, match="100000 records"):
        read_claims(sides_of("orders", VALUES), bytes(batch))
