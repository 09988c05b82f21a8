"""The time that a controller waits for counted brokers without a registration before it takes them for dead.

When a frozen store resumes, it ends all sessions, or all but one, at the same moment. The brokers register again within
a second or two. Neither the first broker that is back nor the broker that kept its session must take the others for
dead meanwhile: it would lead everything alone. So:

- A controller whose own session ended waits for every counted broker.
- A controller that kept its session waits where all the others, two at least, are gone at once: that is the store's
  doing rather than theirs. If a single broker dies, or several while another stays, the controller replaces their
  leaders at once.
- The controller does not wait for a broker that was about to stop.
- A controller that waits for one broker waits until all are back, but not longer than `_COMPANY_S` in all.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cluster.image import BrokerRegistration

# Clients of the store look for it about once a second, and a busy machine takes as long again. The leaders of a broker
# that died meanwhile are replaced that much later.
_COMPANY_S = 3.0


class Company:
    def __init__(self) -> None:
        self._deadline: float | None = None  # set while brokers are missed

    def wait_s(
        self,
        own: BrokerRegistration,
        counted: Mapping[int, BrokerRegistration],
        registered: Mapping[int, BrokerRegistration],
        now: float,
    ) -> float:
        """The remaining time to wait; 0 where the brokers can be counted now. `own` is the controller's registration,
        `counted` are the brokers of the image, `registered` those in the store, `now` is the loop's time.
        """
        others = {node_id for node_id, each in counted.items() if node_id != own.node_id and not each.is_stopping}
        missing = others - registered.keys()
        itself = counted.get(own.node_id)
        if not missing or itself is None:  # another controller has taken this broker for dead, and counted since
            self._deadline = None
            return 0.0
        if self._deadline is None:
            is_alone = len(missing) > 1 and missing == others
            if itself.epoch == own.epoch and not is_alone:
                return 0.0
            self._deadline = now + _COMPANY_S
        return max(self._deadline - now, 0.0)
