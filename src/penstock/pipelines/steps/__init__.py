"""Building blocks: functions that make steps."""

from penstock.pipelines.steps.from_registry import from_registry
from penstock.pipelines.steps.lookups import Lookup, enrich
from penstock.pipelines.steps.parsing import parse_access_log, parse_avro, parse_csv, parse_json
from penstock.pipelines.steps.selection import filter_rows, select
from penstock.pipelines.steps.time import deduplicate, session, sliding, tumbling
from penstock.pipelines.steps.to_registry import RegistryKey, to_registry
from penstock.pipelines.steps.validation import validate

__all__ = [
    "Lookup",
    "RegistryKey",
    "deduplicate",
    "enrich",
    "filter_rows",
    "from_registry",
    "parse_access_log",
    "parse_avro",
    "parse_csv",
    "parse_json",
    "select",
    "session",
    "sliding",
    "to_registry",
    "tumbling",
    "validate",
]
