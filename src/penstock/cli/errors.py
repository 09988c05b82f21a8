"""What a command tells the user when it cannot go on: a sentence, what to do about it, and an exit code."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.words.failure_text import tell_error
from penstock.core.words.visible_text import one_line

if TYPE_CHECKING:
    from confluent_kafka import KafkaException


class ExitCode(enum.IntEnum):
    SUCCESS = 0
    FAILURE = 1
    USAGE = 2
    UNREACHABLE = 3
    INTERRUPTED = 130  # 128 + SIGINT, as shells report it


class CliError(Exception):
    """Ends the command. `hint` says what the user can do next; `name` is the broker's or library's, if it has one."""

    def __init__(
        self, message: str, hint: str = "", exit_code: ExitCode = ExitCode.FAILURE, name: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        self.name = name


class UsageError(CliError):
    """The options contradict each other or do not parse."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint, ExitCode.USAGE)


class Explanation(NamedTuple):
    message: str  # empty: the broker's own text is good enough
    hint: str = ""
    exit_code: ExitCode = ExitCode.FAILURE


_UNREACHABLE_HINT = "Check --bootstrap-server and that the broker runs and advertises an address you can reach."
_CREDENTIALS_HINT = "Check security.protocol, sasl.* and ssl.* in --command-config or -X."
_ACL_HINT = "Ask an administrator for the permission, or use another principal in --command-config."
_TOPIC_HINT = "`penstock topics list` shows what exists; `penstock topics create NAME` makes one."
_GROUP_HINT = "`penstock groups list` shows the groups that exist."

# By librdkafka's name of the error. Only where its text alone would leave the user without a next step.
EXPLANATIONS: dict[str, Explanation] = {
    "_TRANSPORT": Explanation("the connection to the broker failed", _UNREACHABLE_HINT, ExitCode.UNREACHABLE),
    "_ALL_BROKERS_DOWN": Explanation("no broker can be reached", _UNREACHABLE_HINT, ExitCode.UNREACHABLE),
    "_RESOLVE": Explanation("the broker's host name does not resolve", _UNREACHABLE_HINT, ExitCode.UNREACHABLE),
    "_TIMED_OUT": Explanation("the broker did not answer in time", _UNREACHABLE_HINT, ExitCode.UNREACHABLE),
    "_MSG_TIMED_OUT": Explanation(
        "the record was not acknowledged in time", "Raise -X message.timeout.ms=... or look at the broker's log."
    ),
    "_AUTHENTICATION": Explanation("", _CREDENTIALS_HINT, ExitCode.UNREACHABLE),
    "_SSL": Explanation("", _CREDENTIALS_HINT, ExitCode.UNREACHABLE),
    "SASL_AUTHENTICATION_FAILED": Explanation("", _CREDENTIALS_HINT, ExitCode.UNREACHABLE),
    "UNSUPPORTED_SASL_MECHANISM": Explanation("", _CREDENTIALS_HINT, ExitCode.UNREACHABLE),
    "_INVALID_ARG": Explanation("", "Check the names and values given by --command-config and -X.", ExitCode.USAGE),
    "UNKNOWN_TOPIC_OR_PART": Explanation("no such topic or partition", _TOPIC_HINT),
    "_UNKNOWN_TOPIC": Explanation("no such topic", _TOPIC_HINT),
    "_UNKNOWN_PARTITION": Explanation("no such partition", "`penstock topics describe NAME` shows what there is."),
    "LEADER_NOT_AVAILABLE": Explanation("no broker leads the partition", "`penstock cluster status` says why."),
    "TOPIC_ALREADY_EXISTS": Explanation("", "Add --if-not-exists to accept that."),
    "TOPIC_EXCEPTION": Explanation("", "Topic names are 1 to 249 letters, digits, dots, dashes or underscores."),
    "INVALID_REPLICATION_FACTOR": Explanation(
        "", "`penstock brokers list` shows the brokers, those that are away included."
    ),
    "INVALID_PARTITIONS": Explanation("", "A topic's partitions can only become more, and at least 1."),
    "INVALID_CONFIG": Explanation("", "`penstock configs describe --topic NAME --all` lists keys and values."),
    "OFFSET_OUT_OF_RANGE": Explanation("", "`penstock topics offsets NAME` shows the range."),
    "MSG_SIZE_TOO_LARGE": Explanation("", "Raise max.message.bytes of the topic and -X message.max.bytes=..."),
    "NON_EMPTY_GROUP": Explanation("the group still has members", "Stop its consumers first."),
    "GROUP_ID_NOT_FOUND": Explanation("no such group", _GROUP_HINT),
    "GROUP_SUBSCRIBED_TO_TOPIC": Explanation(
        "a member of the group still reads this topic", "Stop the consumers of that topic first."
    ),
    "UNKNOWN_MEMBER_ID": Explanation("the group still has members", "Stop its consumers first."),
    "PREFERRED_LEADER_NOT_AVAILABLE": Explanation(
        "the first replica is not there or not in sync", "`penstock topics describe --under-replicated` shows more."
    ),
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": Explanation(
        "no replica that may lead is there", "Start one of its brokers: `penstock topics describe` names them."
    ),
    "TOPIC_AUTHORIZATION_FAILED": Explanation("", _ACL_HINT),
    "GROUP_AUTHORIZATION_FAILED": Explanation("", _ACL_HINT),
    "CLUSTER_AUTHORIZATION_FAILED": Explanation("", _ACL_HINT),
    "UNSUPPORTED_VERSION": Explanation("", "`penstock cluster api-versions` shows what the broker serves."),
    "SECURITY_DISABLED": Explanation("", "Set authorizer.class.name on the brokers, or start them with --secure."),
    "DELEGATION_TOKEN_AUTH_DISABLED": Explanation("", "Set delegation.token.secret.key, the same on every broker."),
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": Explanation(
        "", "Log in by a password or a certificate: strangers, and who has logged in with a token, get no tokens."
    ),
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": Explanation("", _ACL_HINT),
    "DELEGATION_TOKEN_OWNER_MISMATCH": Explanation(
        "", "Ask its owner, or one of its renewers: `penstock tokens list`."
    ),
    "DELEGATION_TOKEN_EXPIRED": Explanation("", "`penstock tokens create` makes another one."),
    "INVALID_PRINCIPAL_TYPE": Explanation("", "Only users have tokens and renew them: write User:NAME."),
}


_NONE = Explanation("")
# What a partition without a leader comes to: the command asks the brokers for the cause.
LEADERLESS = "LEADER_NOT_AVAILABLE"
_NO_LEADERS = "No leaders found"  # librdkafka's, under a name that says nothing
_NO_KERBEROS = Explanation(
    "this command goes by librdkafka, which was built without Kerberos (GSSAPI)",
    "confluent-kafka's wheels are. Log in another way; users, tokens, acls, quotas and policies do without librdkafka.",
    ExitCode.USAGE,
)


def hint_for(name: str) -> str:
    """What to do about an error of this name; empty where its text says it all."""
    return EXPLANATIONS.get(name, Explanation("")).hint


def explain(name: str, text: str, subject: str = "") -> CliError:
    """The error for a client library's error `name` with its own `text`, about `subject` (a topic, a group...)."""
    name = LEADERLESS if _NO_LEADERS in text else name
    explanation = _NO_KERBEROS if "No provider for SASL mechanism GSSAPI" in text else EXPLANATIONS.get(name, _NONE)
    message = explanation.message or _strip_prefixes(text)
    if not message:
        message = name.strip("_").replace("_", " ").lower()
    prefix = f"{one_line(subject)}: " if subject else ""  # a name with a line end would look like two errors
    return CliError(f"{prefix}{message}", explanation.hint, explanation.exit_code, name)


_PREFIXES = (
    "ConsumerGroupDescribe: ",
    "Unable to produce message: ",
    "Failed to get metadata: ",
    "Broker: ",
    "Local: ",
)


def _strip_prefixes(text: str) -> str:
    """The client library says in front of its text which of its layers speaks; the user does not care."""
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return text.strip()


def explain_exception(error: KafkaException, subject: str = "") -> CliError:
    cause = error.args[0]
    return explain(cause.name(), cause.str(), subject)


def unreachable(reasons: Iterable[str]) -> CliError:
    return CliError(
        f"no broker answers at {', '.join(reasons)}",
        "Name one with --bootstrap-server or PENSTOCK_BOOTSTRAP, or start one: penstock broker start --data DIR",
        ExitCode.UNREACHABLE,
    )


def report(error: CliError) -> None:
    tell_error(error.message, error.hint)
