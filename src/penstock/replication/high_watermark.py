"""The rules of the high watermark. Pure.

Rules:
- Records below the high watermark are on every member of the largest in-sync set that may be in force: the committed
  set together with a change that the controller has not answered yet (KIP-497).
- Followers that are about to join count, too. Otherwise a busy leader alone in its set would move on before any
  follower could reach the watermark.
- The watermark stands still while fewer replicas are in sync than `min.insync.replicas` demands, or than there are
  (KIP-966). Its earlier promises hold.
- The watermark never goes back during a leader's term. A follower's watermark follows its leader's, up to the end of
  its own log.
"""

from __future__ import annotations

from collections.abc import Iterable


def decide_high_watermark(current: int, leader_end: int, follower_ends: Iterable[int]) -> int:
    """`follower_ends` are those of all followers that count; a follower that has not fetched yet holds the
    watermark.
    """
    return max(current, min((leader_end, *follower_ends)))
