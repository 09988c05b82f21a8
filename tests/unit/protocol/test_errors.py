"""Reasons that are told to clients."""

from __future__ import annotations

from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse


def test_reason_fits_into_an_answer_when_it_quotes_a_name_as_long_as_the_protocol_allows() -> None:
    """CreateTopics, and changes of configurations, ended with a traceback instead of an answer."""
    error = ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{'n' * 32_767}' is not a name: too long")
    topic = CreatableTopicResult(name="t", error_code=error.code, error_message=error.message)
    for version in (4, 5):
        data = encode(CreateTopicsResponse(topics=[topic]), version)
        assert decode(CreateTopicsResponse, data, version, 0).topics[0].error_message == error.message
    assert error.message.startswith("'nnn")
    assert error.message.endswith("' is not a name: too long")
    assert str(error) == error.message


def test_reason_is_whole_when_it_is_short() -> None:
    assert ApiError(ErrorCode.INVALID_REQUEST, "no").message == "no"
