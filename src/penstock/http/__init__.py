"""What every HTTP listener shares: sockets and TLS, limits, authentication, routes, audit, a graceful end.

uvicorn and Starlette take a quarter of a second to import. `server` imports them in a worker thread when a listener
starts; the modules that need them at once are `protocol` and `application`.
"""
