"""The keys of an issuer: where they may come from, when they are read again, and what happens when they cannot be."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.core.config.types import ConfigError
from penstock.security.sasl.exchange import LoginError
from penstock.security.sasl.jwks import KeyNotFoundError, KeySource, open_key_source, parse_keys
from penstock.security.sasl.jwt import JwtJudge, JwtRules
from penstock.security.sasl.oauthbearer import OAuthBearerServer
from penstock.testing.clock import ManualClock

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
URL = "https://issuer.test/jwks"
CLOCK_MS = ManualClock().now_ms


def key(name: str) -> dict[str, Any]:
    from joserfc.jwk import ECKey

    return {**ECKey.generate_key("P-256").as_dict(private=False), "kid": name}


KEYS = {name: key(name) for name in ("a", "b")}


class Publisher:
    """An issuer in memory: what it publishes, and how often it was asked."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.asked = 0
        self.is_away = False
        self.now_ms = 0
        self.patience_ms = 0  # of who asks it while it is away

    def clock_ms(self) -> int:
        return self.now_ms

    def read(self) -> bytes:
        self.asked += 1
        if self.is_away:
            self.now_ms += self.patience_ms
            raise OSError("nobody answers")
        return json.dumps({"keys": [KEYS[name] for name in self.names]}).encode()


def look_up(source: KeySource, key_id: str | None, now_ms: int) -> Any:
    """As a login does: in a thread where the keys have to be read, else on the loop."""
    if source.needs_reading(key_id, now_ms):
        source.read(key_id, now_ms)
    return source.find(key_id, now_ms)


def test_keys_are_read_again_when_an_hour_has_passed() -> None:
    issuer = Publisher("a")
    source = KeySource(issuer.read, HOUR_MS, issuer.clock_ms)
    assert look_up(source, "a", 0).kid == "a"
    look_up(source, None, HOUR_MS - 1)
    assert issuer.asked == 1
    look_up(source, "a", HOUR_MS)
    assert issuer.asked == 2


def test_keys_are_read_once_a_minute_when_key_ids_are_made_up() -> None:
    issuer = Publisher("a")
    source = KeySource(issuer.read, HOUR_MS, issuer.clock_ms)
    look_up(source, "a", 0)
    for number in range(1_000):  # in less than two minutes
        with pytest.raises(KeyNotFoundError):
            look_up(source, f"made up {number}", 1 + number * 119)
    assert issuer.asked == 3
    issuer.names = ("a", "b")  # the issuer's keys are rotated
    assert look_up(source, "b", 1_000_000).kid == "b"


def test_keys_stay_for_a_day_and_nobody_is_believed_after_it_when_the_issuer_is_away() -> None:
    issuer = Publisher("a")
    source = KeySource(issuer.read, HOUR_MS, issuer.clock_ms)
    look_up(source, "a", 0)
    issuer.is_away = True
    for hour in range(1, 25):
        assert look_up(source, "a", hour * HOUR_MS).kid == "a"
    with pytest.raises(KeyNotFoundError, match=r"could not be read \(OSError\)"):
        look_up(source, "a", 25 * HOUR_MS)


def test_nobody_is_believed_and_the_issuer_is_left_in_peace_when_it_was_never_reached() -> None:
    issuer = Publisher("a")
    issuer.is_away = True
    source = KeySource(issuer.read, HOUR_MS, issuer.clock_ms)
    for number in range(100):
        with pytest.raises(KeyNotFoundError):
            look_up(source, "a", number * 100)
    assert issuer.asked == 1, "after a failure it is asked again in ten seconds"
    issuer.is_away = False
    assert look_up(source, "a", 10_000).kid == "a"


def test_issuer_is_left_in_peace_after_the_end_of_the_question_when_it_does_not_answer() -> None:
    """A question may take as long as the pause."""
    issuer = Publisher("a")
    issuer.is_away, issuer.patience_ms = True, 10_000
    source = KeySource(issuer.read, HOUR_MS, issuer.clock_ms)
    source.read("a", 0)
    source.read("a", 0)  # another login, which began at that time too, and waited for the first
    assert issuer.asked == 1
    assert not source.needs_reading("a", 19_999)
    assert source.needs_reading("a", 20_000)


def test_known_keys_are_found_without_waiting_when_an_issuer_does_not_answer() -> None:
    """Whoever shows an unknown key waits in a thread, and the event loop for nothing."""
    issuer = Publisher("a")
    is_asked, may_answer = threading.Event(), threading.Event()

    def read() -> bytes:
        if issuer.asked:
            is_asked.set()
            may_answer.wait(30)
        return issuer.read()

    source = KeySource(read, HOUR_MS, issuer.clock_ms)
    look_up(source, "a", 0)
    issuer.names = ("a", "b")
    reader = threading.Thread(target=source.read, args=("b", 1))
    reader.start()
    assert is_asked.wait(30)
    assert not source.needs_reading("a", 2)
    assert source.find("a", 2).kid == "a"
    assert source.needs_reading("b", 2), "it may be in what is being read"
    may_answer.set()
    reader.join(30)
    assert source.find("b", 2).kid == "b"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"[" * 100_000,
        b'{"keys": 1}',
        b'{"keys": [1, null]}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
        b'{"keys": [{"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA"}]}',
        b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"}]}',
        b"\xff\xfe",
    ],
    ids=range(11),
)
def test_set_is_refused_when_it_has_no_key_that_can_be_used(text: bytes) -> None:
    with pytest.raises(ValueError, match="key"):
        parse_keys(text)


def test_other_keys_are_used_when_one_is_of_an_unknown_kind() -> None:
    text = json.dumps({"keys": [{"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA", "kid": "new"}, KEYS["a"]]})
    assert [each.kid for each in parse_keys(text.encode()).keys] == ["a"]


# ---------------------------------------------------------------------------------- where keys may be


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/jwks",
        "http://[::ffff:169.254.169.254]/jwks",
        "http://0.0.0.0/jwks",
        "http://224.0.0.1/jwks",
    ],
)
def test_address_is_refused_when_a_cloud_tells_its_secrets_there_although_it_is_allowed(url: str) -> None:
    """CVE-2025-27817."""
    with pytest.raises(ConfigError, match="link-local"):
        open_key_source(url, (url,), (), HOUR_MS, CLOCK_MS)


@pytest.mark.parametrize(
    "url",
    [
        None,
        "",
        URL,
        f"{URL}/other",
        "https://issuer.test.evil/jwks",
        "ftp://issuer.test/jwks",
        "file:///etc/passwd",
        "file:///allowed/../etc/passwd",
        "/allowed/jwks.json",
        "https:///jwks",
    ],
)
def test_address_is_refused_when_it_is_not_among_those_allowed(url: str | None) -> None:
    """CVE-2025-27817."""
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
        open_key_source(url, ("https://issuer.test/jwks/",), ("/allowed",), HOUR_MS, CLOCK_MS)


def test_file_is_refused_when_a_link_leads_out_of_the_allowed_directory(tmp_path: Path) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "outside.json"
    allowed.mkdir()
    outside.write_text("{}")
    (allowed / "jwks.json").symlink_to(outside)
    with pytest.raises(ConfigError, match="allowed"):
        open_key_source((allowed / "jwks.json").as_uri(), (), (str(allowed),), HOUR_MS, CLOCK_MS)


# ---------------------------------------------------------------------------------- logins


def test_refused_token_is_not_kept_when_the_client_does_not_answer_its_refusal() -> None:
    issuer = Publisher("a")
    source = KeySource(issuer.read, HOUR_MS, issuer.clock_ms)
    source.load(0)
    exchange = OAuthBearerServer(JwtJudge(source, JwtRules())).begin(0)
    assert exchange.respond(b"n,,\x01auth=Bearer " + b"x" * 30_000 + b"\x01\x01") == b'{"status":"invalid_token"}'
    assert isinstance(exchange._refusal, str), "an error would hold its frames, and they the token"
    assert "x" * 10 not in exchange._refusal
    with pytest.raises(LoginError):
        exchange.respond(b"\x01")
