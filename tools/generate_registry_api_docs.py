"""Writes docs/reference/registry-api.md from the registry's operations; `--check` fails when the page is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import write_or_check
from penstock.http.operations import HttpOperation, Parameter
from penstock.registry.api.answers import MEDIA_TYPES
from penstock.registry.api.calls import Handler
from penstock.registry.api.rights import Right
from penstock.registry.api.shapes import PATH_PARAMETERS, QUERY_PARAMETERS
from penstock.registry.api.table import OPERATIONS, is_change, is_in_context

PAGE = Path(__file__).parent.parent / "docs/reference/registry-api.md"
HEAD = f"""# The registry's API

Written by tools/generate_registry_api_docs.py from the table in `registry/api/table.py`. A registry serves the same as
an OpenAPI document at `/openapi.json`. Its settings are in [another page](registry.md).

Paths, parameters, answers and error codes are those of Confluent's registry. Answers are
`{MEDIA_TYPES[0]}`. Bodies may also be `{MEDIA_TYPES[1]}`,
`{MEDIA_TYPES[2]}` or `application/octet-stream`. Fields that are empty are left out of answers, unknown fields and
parameters are ignored, and flags are set by `true` in any case.

An error is `{{"error_code": 40401, "message": ".."}}`; the first three digits are the status. Besides the codes below:
400 for a body that is not readable, 401, 40301 for a right that is missing, 404 and 405 for a page, 413, 415, 422 for a
body that is missing, 50001 and 50002 where the log does not take a change, 50003 and 50004 where the leader cannot be
reached or there is none.

*in a context*: the path is also served below `/contexts/:.name:`, and names without a context are in that one then.
"""
RIGHTS = """
## Rights

With `penstock.rights.file` a registry asks for a right before it does anything. The file is JSON:

```json
{
  "superUsers": ["User:admin"],
  "rules": [
    {"principal": "User:alice", "permission": "allow", "operations": ["READ", "WRITE"],
     "subject": "orders-", "pattern": "prefixed"},
    {"principal": "User:*", "permission": "allow", "operations": ["READ"], "subject": "*"},
    {"principal": "User:ops", "permission": "allow", "operations": ["ADMIN"]}
  ]
}
```

- A rule that denies counts before all that allow, however exactly they name the subject. What no rule allows is denied.
- `subject` is one name, or with `"pattern": "prefixed"` the beginning of names; `*` is every subject. A subject outside
  of the default context has its context in front: `:.context:name`.
- `User:*` is everybody who has logged in. Super users may do everything. Without a login nobody may do anything.
- WRITE_CONFIG allows READ_CONFIG, too. ALL is everything but ADMIN.
- ADMIN is about what concerns all subjects: the global config and mode, and contexts. It names no subject. Everybody
  who has logged in may read the global config and mode.
- To read a schema by its id or guid, one needs to read one of the subjects that have it. To use a schema as a
  reference, one needs to read it; to set a subject as an alias, to write to it. An alias, and a name that is found in
  another context, need the right on the subject that they lead to, when the operation is done.
- Lists show what their caller may read.

Denials (kind `denial`) and changes (kind `change`) go to the logger `penstock.audit`, by the name of the operation. A
change that a follower passes on is told of by the leader.

## Operations

"""


def render() -> str:
    rows = "".join(_row(each) for each in OPERATIONS)
    table = f"| operation | name | right | answer | query | codes |\n|---|---|---|---|---|---|\n{rows}"
    return (
        f"{HEAD}{RIGHTS}{table}{_parameters('In paths', PATH_PARAMETERS)}{_parameters('In queries', QUERY_PARAMETERS)}"
    )


def _row(operation: HttpOperation[Handler]) -> str:
    words = f"`{operation.method} {operation.path}` {operation.summary}"
    if is_in_context(operation):
        words += " *in a context*"
    query = ", ".join(f"`{each.name}`" for each in operation.query)
    codes = ", ".join(map(str, operation.errors))
    return f"| {words} | {operation.name} | {_right(operation)} | {operation.answer or '204'} | {query} | {codes} |\n"


def _right(operation: HttpOperation[Handler]) -> str:
    if operation.is_public:
        return "none, not even a login"
    if operation.right is None:
        return ""
    if "{subject}" not in operation.path and operation.right != Right.ADMIN:
        return Right.ADMIN if is_change(operation) else ""
    return operation.right


def _parameters(title: str, parameters: dict[str, Parameter]) -> str:
    rows = "".join(f"| `{name}` | {each.shape['type']} | {each.words} |\n" for name, each in parameters.items())
    return f"\n## {title}\n\n| name | type | what it means |\n|---|---|---|\n{rows}"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render()))
