r"""`ssl.principal.mapping.rules`: from the name in a certificate to a user, as Kafka's SslPrincipalMapper does it.

    RULE:^CN=(.*?),OU=Ops.*$/$1/L, DEFAULT

A pattern must match the whole name, the first rule that matches wins, and `DEFAULT` takes the name as it is. Kafka
replaces every place where the pattern matches, and `$n` beyond the groups of the pattern stays as it is written.

The operator writes the pattern, but the client chooses the name, and Python's matcher backtracks. So a repetition or a
choice inside a repetition, with which forty characters can take years, is refused, and so are very long names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from penstock.security.expressions import repeats_much

# The parts of a rule may contain `/` and `\` behind a backslash.
_RULE = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
_BETWEEN = re.compile(r"\s*(?:,\s*|$)")
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)
# X.520 allows 64 characters for most attributes; real names have some hundred in all.
_MAX_NAME_LENGTH = 1_000


class BadRuleError(ValueError):
    """The message names the rule and its fault."""


class PrincipalMappingRule(NamedTuple):
    pattern: re.Pattern[str] | None  # None for DEFAULT
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(self._expand, name)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result

    def _expand(self, match: re.Match[str]) -> str:
        count = match.re.groups

        def replace(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            # Java reads as many digits as make the number of a group.
            digits = reference[2]
            for length in range(len(digits), 0, -1):
                if int(digits[:length]) <= count:
                    return (match[int(digits[:length])] or "") + digits[length:]
            return reference[0]

        return _REFERENCE.sub(replace, self.replacement)


def parse_rules(text: str) -> tuple[PrincipalMappingRule, ...]:
    """Raises BadRuleError."""
    rules: list[PrincipalMappingRule] = []
    position, text = 0, text.strip()
    while position < len(text):
        rule, position = _parse_rule(text, position)
        end = _BETWEEN.match(text, position)
        if end is None:
            raise BadRuleError(f"a comma is expected before {text[position : position + 40]!r}")
        rules.append(rule)
        position = end.end()
    return tuple(rules)


def _parse_rule(text: str, position: int) -> tuple[PrincipalMappingRule, int]:
    if text.startswith("DEFAULT", position):
        return PrincipalMappingRule(None), position + len("DEFAULT")
    match = _RULE.match(text, position)
    if match is None:
        shown = text[position : position + 40]
        raise BadRuleError(
            f"{shown!r} is neither DEFAULT nor RULE:pattern/replacement/ with L or U or nothing behind it"
        )
    pattern = match["pattern"]
    if repeats_much(pattern):
        raise BadRuleError(
            f"{pattern!r} repeats a group that contains a repetition or a choice, which can take years to match"
        )
    try:
        return PrincipalMappingRule(re.compile(pattern), match["replacement"], match["case"]), match.end()
    except re.error as error:
        raise BadRuleError(f"{pattern!r} is no regular expression: {error}") from error


def map_name(rules: Sequence[PrincipalMappingRule], name: str) -> str | None:
    """The user that the rules make of the name; None where no rule matches."""
    if len(name) > _MAX_NAME_LENGTH:
        return None
    for rule in rules:
        result = rule.apply(name)
        if result is not None:
            return result
    return None
