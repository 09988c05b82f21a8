"""A plan as text for people."""

from __future__ import annotations

from penstock.streams.planning.plan import Plan


def describe(plan: Plan) -> str:
    lines = [f"application {plan.topology.application}"]
    for query in plan.queries:
        lines.append(f"query {query.name} ({query.mode})")
        lines += [f"  writes {output.topic}" for output in query.outputs]
    return "\n".join(lines)
