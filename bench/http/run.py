"""One run over the registry, the second registry and the REST proxy, in alternating rounds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from apicurio.server import ApicurioNode
from bench.contenders import PENSTOCK, resident_megabytes
from bench.gathering import Gathering, alternate
from bench.http import loads
from bench.http.rows import HTTP_ROWS
from bench.http.sender import Target
from bench.http.services import Service
from bench.loads import Figures, Scale, client_settings, create_topic
from bench.secured.brokers import make_certificates
from penstock.security.certificates.directory import CertificateDirectory
from penstock.testing.processes import ServerProcess

HTTP_NAMES = ("http-registry", "http-rest")
BEGIN, END = "<!-- http: begin -->", "<!-- http: end -->"
APICURIO = "Apicurio"
# A registration is written to a log, and takes longer than a question.
REQUESTS_A_REGISTRATION = 10
# 1,000 of them are one request.
RECORDS_A_REQUEST = 10
WARM_UP = 500


class HttpRun:
    """Figures gather in `result`."""

    def __init__(self, scale: Scale, rounds: int, directory: Path) -> None:
        self.rounds = rounds
        self.count = scale.http_requests
        self.directory = directory
        self.certificates = make_certificates(directory / "certificates")
        self.result = Gathering((PENSTOCK.name, APICURIO), HTTP_ROWS, "HTTP services", (BEGIN, END), APICURIO)

    def measure(self, names: Sequence[str]) -> None:
        self.result.begin()
        with ExitStack() as stack:
            broker = stack.enter_context(PENSTOCK.make(self.directory / "http-broker"))
            if "http-registry" in names:
                self._measure_registries(broker)
            if "http-rest" in names:
                self._measure_proxy(broker)

    def _start(self, stack: ExitStack, name: str, broker: ServerProcess | None, *, is_secured: bool = False) -> Service:
        program = ["bench.http.empty"] if broker is None else ["penstock", name, "start"]
        where = [] if broker is None else ["--bootstrap-server", broker.bootstrap_servers]
        certificates: CertificateDirectory | None = self.certificates if is_secured else None
        return stack.enter_context(Service(name, [*program, *where], self.directory, certificates))

    # -------------------------------------------------------------------------------------------- the registry

    def _measure_registries(self, broker: ServerProcess) -> None:
        with ExitStack() as stack:
            self._start(stack, "registry", broker).terminate()  # writes the bytecode, and the topic
            begun = time.perf_counter()
            ours = self._start(stack, "registry", broker)
            started = {"start": time.perf_counter() - begun, "memory": resident_megabytes(ours.pid)}
            self.result.keep(PENSTOCK.name, started)
            theirs = stack.enter_context(ApicurioNode(self.directory / "apicurio"))
            empty = self._start(stack, "empty", None)
            targets = [(PENSTOCK.name, ours.target), (APICURIO, Target(theirs.url))]
            for _, target in targets:  # Java's compiler needs some load before it shows what it can do
                loads.register(target, WARM_UP)
                loads.get(target, WARM_UP)
            for number in range(self.rounds):
                for name, target in alternate(targets, number):
                    beside = empty if name == PENSTOCK.name else None
                    self.result.keep(name, self._registry_figures(target, beside), number)
        with ExitStack() as stack:
            secured = self._start(stack, "registry", broker, is_secured=True)
            for number in range(self.rounds):
                figures = self._registry_figures(secured.target, None)
                shown = {f"{key}-secured": figures[key] for key in ("get", "register")}
                self.result.keep(PENSTOCK.name, shown, number)

    def _registry_figures(self, target: Target, empty: Service | None) -> Figures:
        registered = loads.register(target, self.count // REQUESTS_A_REGISTRATION)
        got = loads.get(target, self.count)
        figures = {
            "register": registered.rate,
            "register-p99": registered.percentile_ms(0.99),
            "get": got.rate,
            "get-p99": got.percentile_ms(0.99),
        }
        if empty is not None:
            figures["get-share"] = 100 * got.rate / loads.empty_get(empty.target, self.count).rate
        return figures

    # -------------------------------------------------------------------------------------------- the REST proxy

    def _measure_proxy(self, broker: ServerProcess) -> None:
        topic = create_topic(broker)
        with ExitStack() as stack:
            proxy = self._start(stack, "rest", broker)
            empty = self._start(stack, "empty", None)
            loads.produce_single(proxy.target, topic, WARM_UP)
            for number in range(self.rounds):
                figures = self._proxy_figures(proxy.target, topic)
                empty_rate = loads.empty_post(empty.target, self.count).rate
                direct = loads.produce_directly(client_settings(broker), topic, self.count * RECORDS_A_REQUEST)
                figures["single-share"] = 100 * figures["single"] / empty_rate
                figures["batch-share"] = 100 * figures["batch"] / direct
                self.result.keep(PENSTOCK.name, figures, number)
        with ExitStack() as stack:
            secured = self._start(stack, "rest", broker, is_secured=True)
            for number in range(self.rounds):
                figures = self._proxy_figures(secured.target, topic)
                self.result.keep(PENSTOCK.name, {f"{key}-secured": value for key, value in figures.items()}, number)

    def _proxy_figures(self, target: Target, topic: str) -> Figures:
        single = loads.produce_single(target, topic, self.count)
        return {
            "single": single.rate,
            "single-p99": single.percentile_ms(0.99),
            "batch": loads.produce_batches(target, topic, self.count * RECORDS_A_REQUEST),
        }
