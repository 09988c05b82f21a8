"""From a Kerberos principal to a user's name: `sasl.kerberos.principal.to.local.rules`.

Rules, as Kafka reads them: `DEFAULT`, or `RULE:[n:format](expression)s/from/to/g/L`. A rule is for principals with `n`
components; `$0` of the format is the realm, `$1` and `$2` the components. The expression has to match the formatted
name as a whole. The first rule that applies wins. A result that still has `/` or `@` in it is refused, and so is a
principal for which there is no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from penstock.core.config.types import ConfigError
from penstock.security.expressions import repeats_much

RULES_KEY = "sasl.kerberos.principal.to.local.rules"
_RULE = re.compile(
    r"RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PRINCIPAL = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_NUMBERED = re.compile(r"\$(\d)")
# No real principal is longer, and an expression of the operator is tried on it.
_MAX_NAME_LENGTH = 512


class NoRuleError(Exception):
    """No rule maps the principal to a user."""


class PrincipalToLocalRule(NamedTuple):
    component_count: int
    format: str
    match: re.Pattern[str] | None
    replaced: re.Pattern[str] | None
    replacement: str
    is_repeated: bool
    case: str | None

    def apply(self, realm: str, components: tuple[str, ...]) -> str | None:
        if len(components) != self.component_count:
            return None
        values = (realm, *components)
        name = _NUMBERED.sub(lambda found: values[int(found[1])] if int(found[1]) < len(values) else "", self.format)
        if self.match is not None and not self.match.fullmatch(name):
            return None
        if self.replaced is not None:
            name = self.replaced.sub(self.replacement, name, count=0 if self.is_repeated else 1)
        if self.case is not None:
            name = name.lower() if self.case == "L" else name.upper()
        return name


class KerberosNames:
    def __init__(self, rules: Iterable[str], default_realm: str) -> None:
        """Raises ConfigError."""
        self._default_realm = default_realm
        self._rules = [None if text.strip() == "DEFAULT" else _parse(text.strip()) for text in rules]

    def user(self, principal: str) -> str:
        """Raises NoRuleError."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None or len(principal) > _MAX_NAME_LENGTH:
            raise NoRuleError("the principal has no realm, or is none")
        components = (found[1],) if found[2] is None else (found[1], found[2])
        for rule in self._rules:
            name = self._apply(rule, found[3], components)
            if name is None:
                continue
            if not name or "/" in name or "@" in name:
                raise NoRuleError("a rule leaves a name with / or @")
            return name
        raise NoRuleError("no rule applies to the principal")

    def _apply(self, rule: PrincipalToLocalRule | None, realm: str, components: tuple[str, ...]) -> str | None:
        if rule is None:
            return components[0] if realm == self._default_realm else None
        return rule.apply(realm, components)


def _parse(text: str) -> PrincipalToLocalRule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise ConfigError.of_value(RULES_KEY, text, "Expected DEFAULT or RULE:[n:format](expression)s/from/to/g/L")
    if any(repeats_much(found[part] or "") for part in ("match", "from")):
        reason = "the expression repeats a group that contains a repetition or a choice, which can take years to match"
        raise ConfigError.of_value(RULES_KEY, text, reason)
    try:
        match = None if found["match"] is None else re.compile(found["match"])
        replaced = None if found["from"] is None else re.compile(found["from"])
    except re.error as error:
        raise ConfigError.of_value(RULES_KEY, text, f"the expression is none: {error}") from None
    highest = max((int(number) for number in _NUMBERED.findall(found["to"] or "")), default=0)
    if replaced is not None and highest > replaced.groups:
        raise ConfigError.of_value(RULES_KEY, text, f"the expression has no group ${highest}")
    replacement = _NUMBERED.sub(r"\\g<\1>", (found["to"] or "").replace("\\", "\\\\"))
    return PrincipalToLocalRule(
        int(found["count"]), found["format"], match, replaced, replacement, found["all"] is not None, found["case"]
    )
