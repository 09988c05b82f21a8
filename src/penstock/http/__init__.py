"""The parts that all HTTP listeners share: sockets and TLS, limits, authentication, routes, audit, graceful shutdown.

The import of uvicorn and Starlette takes a quarter of a second. `server` imports both in a worker thread when a
listener starts; the modules that need them at import are `protocol` and `application`.
"""
