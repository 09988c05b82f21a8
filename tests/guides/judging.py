"""Which blocks of a page have neither a result nor a reason: see `blocks.py`."""

from __future__ import annotations

import json
import re

from penstock.core.config.table import find_broker_key
from penstock.core.properties import parse_properties
from penstock.http.settings import HTTP_KEYS
from penstock.registry.settings import REGISTRY_KEYS
from penstock.rest.settings import REST_KEYS
from tests.guides.blocks import ROOT, Block, Kind, read_blocks, without_blocks

_OF_SERVICES = frozenset(key.name for key in (*HTTP_KEYS, *REGISTRY_KEYS, *REST_KEYS))
_OF_CLIENTS = frozenset(
    {"bootstrap.servers", "sasl.jaas.config", "sasl.mechanism", "security.protocol", "ssl.truststore.location"}
)
_INDENTED = re.compile(r"^\n {4}((?:penstock|pip|curl|from|import)\b.*)$", re.MULTILINE)


def problems_of(page: str) -> list[str]:
    """Blocks without a result and without a reason."""
    found = [f"line {block.line}: {problem}" for block in read_blocks(page) if (problem := _find_problem(block))]
    return found + [f"not between backticks: {line}" for line in _INDENTED.findall(without_blocks(page))]


def _find_problem(block: Block) -> str:
    if len(block.reasons) > 1:
        return "one reason is enough"
    if test := block.reasons.get(Kind.RUN_BY):
        return "" if (ROOT / test).is_file() else f"there is no {test}"
    if block.reasons:
        return ""
    match block.language:
        case "sh" | "python" | "text":
            return ""
        case "properties":
            unknown = unknown_settings(parse_properties(block.text))
            return f"nothing knows the settings {', '.join(unknown)}" if unknown else ""
        case "json":
            json.loads(block.text)
            return ""
    return f"a block of {block.language or 'no language'} is neither run nor checked: say why not"


def unknown_settings(given: dict[str, str]) -> list[str]:
    return [name for name in given if not find_broker_key(name) and name not in _OF_SERVICES | _OF_CLIENTS]
