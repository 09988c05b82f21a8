"""An issuer of tokens (OIDC) of our own: its keys under /jwks, and tokens for its clients' secrets under /token."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ISSUER, AUDIENCE = "https://issuer.test", "kafka"
# A client of the issuer; its tokens are for the user of that name.
CLIENT_ID, CLIENT_SECRET = "alice", "the issuer knows it"


class Issuer:
    def __init__(self) -> None:
        from joserfc.jwk import RSAKey

        self.key = RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True)
        self.keys = json.dumps({"keys": [self.key.as_dict(private=False)]})
        self.port = 0
        self.trouble = 0  # the status that each request for a token gets; 0 where the issuer is well
        self.asked = 0  # how often a token was wanted

    @property
    def keys_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/jwks"

    @property
    def token_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    def token(self, key: Any = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A signed token for the client, valid for an hour unless the claims say otherwise."""
        from joserfc import jwt

        now = int(time.time())
        usual = {"sub": CLIENT_ID, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, "scope": "kafka"}
        given = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        signing = key or self.key
        return jwt.encode(header or {"alg": "RS256", "kid": signing.kid}, given, signing)

    @contextmanager
    def serving(self) -> Iterator[None]:
        with ThreadingHTTPServer(("127.0.0.1", 0), _handler(self)) as server:
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/jwks":
                self._answer(200, issuer.keys)
            else:
                self._answer(404, "{}")

        def do_POST(self) -> None:
            """RFC 6749, section 4.4."""
            issuer.asked += 1
            asked = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            if issuer.trouble:
                self._answer(issuer.trouble, "{}")
                return
            if self.headers.get("Authorization") != f"Basic {basic}" or "grant_type=client_credentials" not in asked:
                self._answer(401, json.dumps({"error": "invalid_client"}))
                return
            answer = {"access_token": issuer.token(), "token_type": "Bearer", "expires_in": 3600}
            self._answer(200, json.dumps(answer))

        def _answer(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Requests are of no interest."""

    return Handler
