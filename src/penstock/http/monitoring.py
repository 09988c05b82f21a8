"""The numbers of a service: `/metrics` in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.metrics.counters import HttpMetrics
from penstock.core.metrics.metric import MetricKind
from penstock.http.routes import Route

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Characters that a label's value must escape.
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Published(NamedTuple):
    """A number, or numbers by the values of one label."""

    name: str
    kind: MetricKind
    doc: str
    read: Callable[[], float | Mapping[str, float]]
    label: str = ""


def http_numbers(service: str, metrics: HttpMetrics) -> tuple[Published, ...]:
    """The metrics of every HTTP service."""
    prefix = f"penstock_{service}_http"
    return (
        Published(
            f"{prefix}_answers_total", MetricKind.COUNTER, "Answers by status.", lambda: metrics.answers, "status"
        ),
        Published(
            f"{prefix}_refused_total",
            MetricKind.COUNTER,
            "Requests and connections that no page has seen, by reason.",
            lambda: metrics.refused,
            "reason",
        ),
        Published(f"{prefix}_connections", MetricKind.GAUGE, "Open connections.", lambda: metrics.connections),
    )


def render(numbers: Sequence[Published]) -> str:
    lines: list[str] = []
    for each in numbers:
        lines += [f"# HELP {each.name} {each.doc}", f"# TYPE {each.name} {each.kind}"]
        value = each.read()
        if isinstance(value, Mapping):
            lines += [
                f'{each.name}{{{each.label}="{text.translate(_ESCAPES)}"}} {number}'
                for text, number in sorted(value.items())
            ]
        else:
            lines.append(f"{each.name} {value}")
    return "\n".join(lines) + "\n"


def metrics_route(numbers: Sequence[Published]) -> Route:
    async def get_metrics(_: Request) -> Response:
        from starlette.responses import Response

        return Response(render(numbers), media_type=METRICS_CONTENT_TYPE)

    return Route("/metrics", get_metrics)
