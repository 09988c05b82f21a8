"""Keys of issuers (OAUTHBEARER) that stay when settings change: an issuer that is away just then locks nobody out.

A key set is one for all listeners that name the same address and the same pause. Both are fixed while a broker runs, so
there are no more key sets than listeners.
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
        """Raises ConfigError where the address is missing or not allowed, also for one that was opened before."""
        from penstock.security.sasl.jwks import open_key_source

        opened = open_key_source(url, allowed_urls, allowed_files, refresh_ms, self._clock.now_ms)
        return self._opened.setdefault((url, refresh_ms), opened)
