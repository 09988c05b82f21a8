"""Key sets of issuers (OAUTHBEARER) that survive changed settings: an unreachable issuer then locks no client out.

All listeners with the same address and the same pause share one key set. Both are fixed while a broker runs, so there
are no more key sets than listeners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.clock import Clock

if TYPE_CHECKING:
    from penstock.security.sasl.jwks import KeySource


class KeySources:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opened: dict[tuple[str | None, int], KeySource] = {}

    def open(
        self, url: str | None, allowed_urls: tuple[str, ...], allowed_files: tuple[str, ...], refresh_ms: int
    ) -> KeySource:
        """Raises ConfigError for a missing or forbidden address, also for an address that was opened before."""
        from penstock.security.sasl.jwks import open_key_source

        opened = open_key_source(url, allowed_urls, allowed_files, refresh_ms, self._clock.now_ms)
        return self._opened.setdefault((url, refresh_ms), opened)
