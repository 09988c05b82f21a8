"""How long a controller waits for brokers that are counted and not registered, before it takes them for dead.

When a frozen store goes on, it ends all sessions, or all but one, at the same moment. The brokers register anew within
a second or two. Neither the first that is back nor the one that kept its session must take the others for dead
meanwhile: it would lead everything alone. So:

- A controller whose own session ended waits for every broker that is counted.
- A controller that kept its session waits where all the others, two at least, are gone at once: that is the store's
  doing rather than theirs. A single broker that dies, or several while one other stays, are succeeded at once.
- Nobody waits for a broker that was about to stop.
- Whoever waits for one waits until all are back, but not longer than `_COMPANY_S` in all.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cluster.image import BrokerRegistration

# Clients of the store look for it about once a second, and a busy machine takes as long again. A broker that died
# meanwhile is succeeded so much later.
_COMPANY_S = 3.0


class Company:
    def __init__(self) -> None:
        self._deadline: float | None = None  # while brokers are missed

    def wait_s(
        self,
        own: BrokerRegistration,
        counted: Mapping[int, BrokerRegistration],
        registered: Mapping[int, BrokerRegistration],
        now: float,
    ) -> float:
        """How long to wait still; 0 where the brokers can be counted now. `own` is the controller's registration,
        `counted` are the brokers of the image, `registered` those in the store, `now` is the loop's time.
        """
        others = {node_id for node_id, each in counted.items() if node_id != own.node_id and not each.is_stopping}
        missing = others - registered.keys()
        itself = counted.get(own.node_id)
        if not missing or itself is None:  # somebody else has taken the controller for dead, and counted since
            self._deadline = None
            return 0.0
        if self._deadline is None:
            is_alone = len(missing) > 1 and missing == others
            if itself.epoch == own.epoch and not is_alone:
                return 0.0
            self._deadline = now + _COMPANY_S
        return max(self._deadline - now, 0.0)
