"""A TLS context of a listener from PEM files: TLS 1.2 and 1.3 alone."""

from __future__ import annotations

import ssl


def load_context(certificate: str, key: str = "", client_ca: str = "") -> ssl.SSLContext:
    """With `client_ca` clients need a certificate of one of these authorities. Reads files: not on a loop that serves.

    Raises OSError, of which ssl.SSLError is one.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.load_cert_chain(certificate, key or None)
    context.set_alpn_protocols(["http/1.1"])
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
