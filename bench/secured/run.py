"""One run over both brokers with security, in alternating rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka

from bench.contenders import Contender
from bench.errors import BenchError
from bench.gathering import Gathering, alternate
from bench.loads import QUICK, Figures, Scale
from bench.secured.brokers import SecuredBroker, make_certificates
from bench.secured.flood import measure_handshakes
from bench.secured.loads import measure_latency, measure_logins, measure_throughput
from bench.secured.rights import AUTHORIZER, add_acls, measure_rights
from bench.secured.rows import SECURED_ROWS
from bench.stalls import LoopStalls

Load = Callable[[SecuredBroker, Scale], Figures]

# By the name that `--only` takes. The first are measured on brokers without an authorizer.
OPEN_LOADS: dict[str, Load] = {
    "secured-throughput": measure_throughput,
    "secured-latency": measure_latency,
    "secured-logins": measure_logins,
    "secured-handshakes": measure_handshakes,
}
GUARDED_LOADS: dict[str, Load] = {"secured-acls": measure_rights}
SECURED_NAMES = (*OPEN_LOADS, *GUARDED_LOADS)
BEGIN, END = "<!-- secured: begin -->", "<!-- secured: end -->"


class SecuredRun:
    """Figures gather in `result`."""

    def __init__(self, contenders: Sequence[Contender], scale: Scale, rounds: int, directory: Path) -> None:
        self.contenders = contenders
        self.scale = scale
        self.rounds = rounds
        self.directory = directory
        names = [contender.name for contender in contenders]
        self.result = Gathering(names, SECURED_ROWS, "what security costs", (BEGIN, END))
        self.stalls = LoopStalls()

    def measure(self, names: Sequence[str]) -> None:
        self.result.begin()
        if loads := {name: OPEN_LOADS[name] for name in names if name in OPEN_LOADS}:
            self._measure(loads, "open", {}, lambda broker: None)
        if loads := {name: GUARDED_LOADS[name] for name in names if name in GUARDED_LOADS}:
            self._measure(loads, "guarded", AUTHORIZER, add_acls)

    def _measure(
        self,
        loads: Mapping[str, Load],
        place: str,
        config: Mapping[str, str],
        prepare: Callable[[SecuredBroker], None],
    ) -> None:
        certificates = make_certificates(self.directory / place / "certificates")
        brokers = []
        with ExitStack() as stack:
            for contender in self.contenders:
                directory = self.directory / place / contender.name.replace(" ", "-")
                broker = SecuredBroker(contender, directory, certificates, config)
                stack.enter_context(broker.server)
                broker.add_user()
                prepare(broker)
                brokers.append(broker)
            for name, load in loads.items():  # a Java broker's compiler needs some load before it shows what it can do
                for broker in brokers:
                    _run_load(name, load, broker, QUICK)
            for number in range(self.rounds):
                for name, load in loads.items():
                    for broker in alternate(brokers, number):
                        self.result.keep(broker.contender.name, _run_load(name, load, broker, self.scale), number)
                        for stall in self.stalls.look(broker.server, name):
                            print(f"{broker.contender.name}: {stall}", flush=True)


def _run_load(name: str, load: Load, broker: SecuredBroker, scale: Scale) -> Figures:
    try:
        return load(broker, scale)
    except (BenchError, OSError, confluent_kafka.KafkaException) as error:
        raise BenchError(broker.server.describe(f"failed under the load '{name}': {error}")) from error
