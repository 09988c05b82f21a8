"""Why a partition has no leader, for a command that met one."""

from __future__ import annotations

from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import open_admin
from penstock.cli.errors import CliError
from penstock.health.condition import judge
from penstock.health.findings import find
from penstock.health.measurements import LOOK
from penstock.protocol.errors import ApiError

_CAUSES = ("no-controller", "controller-silent", "broker-gone", "broker-silent", "directory-offline", "disk-full")
_OFFLINE = (
    "unelected-partitions",
    "offline-by-full-disk",
    "offline-here",
    "offline-partitions",
    "undecided-partitions",
)
_MORE = "`penstock cluster status` shows all that is wrong."


def why_no_leader(cluster: ClusterClient) -> str:
    """What is wrong and what to do, as `cluster status` tells it; where the brokers do not say, how to find out."""
    try:
        with open_admin(cluster) as admin:
            findings = find(judge(admin.read_wish(LOOK)))
    except (OSError, ApiError, CliError):  # what one client can do here, the other may not
        return _MORE
    told = [finding for finding in findings if finding.name in (*_CAUSES, *_OFFLINE)]
    advice = next((finding.advice for finding in told if finding.name in _OFFLINE), "")
    sentences = [f"{finding.what[:1].upper()}{finding.what[1:]}." for finding in told]
    return "\n".join([*sentences[:3], *([advice] if advice else []), _MORE])
