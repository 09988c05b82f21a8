"""Mutated logins over TCP to a broker process, beside a good client that must not notice. For `logins.rounds`."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

from penstock.testing.processes import BrokerProcess, find_free_port
from proof.hostile.clients import GoodClient, HostileSocket
from proof.logins.broker import Issuer, login_settings
from proof.logins.scripts import Bending, Login, logins, play

_ANSWER_TIMEOUT_S = 0.1
_ALARMS = ("Traceback", "never retrieved", "was destroyed", "never awaited")


def over_tcp(directory: Path, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """(what became of the frames, what went wrong)"""
    issuer, plain, sasl = Issuer(directory), find_free_port(), find_free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}",
        **login_settings(directory, issuer),
    }
    findings: list[str] = []
    with BrokerProcess(directory / "data", port=plain, config=settings) as process:
        good = GoodClient(process.bootstrap_servers, "good").start()
        counts: Counter[str] = Counter()
        try:
            good.wait_for_progress()
            counts = send_bent(f"127.0.0.1:{sasl}", logins(issuer), count, seed)
            good.wait_for_progress()
        except AssertionError as error:
            findings.append(str(error))
        finally:
            good.stop()
        findings += [f"the good client over TCP: {text}" for text in good.errors[:3]]
        if not process.is_running:
            findings.append("the broker ended while logins came over TCP")
    log = process.read_log()
    findings += [f"the log of the broker over TCP has {alarm!r}" for alarm in _ALARMS if alarm in log]
    return counts, findings


def send_bent(address: str, ways: list[Login], count: int, seed: int) -> Counter[str]:
    """What became of so many frames, a connection for each login."""
    bending, counts = Bending(seed), Counter[str]()
    while counts["frames"] < count:
        script = play(bending.dice.choice(ways), bending)
        with HostileSocket(address) as client:
            payload = next(script)
            while counts["frames"] < count:
                counts["frames"] += 1
                outcome, answer = _exchange(client, bending, payload)
                counts[outcome] += 1
                if outcome != "answered":
                    break
                try:
                    payload = script.send(answer)
                except StopIteration:
                    break
    return counts


def _exchange(client: HostileSocket, bending: Bending, payload: bytes) -> tuple[str, bytes | None]:
    frame = bending.frame(payload)
    try:
        client.send(struct.pack(">i", bending.size(frame)) + frame)
        answer = client.receive_frame(timeout_s=_ANSWER_TIMEOUT_S)
    except TimeoutError:
        return "waiting", None  # for the rest of a frame
    except ConnectionError:
        return "closed", None
    return ("closed", None) if answer is None else ("answered", answer)
