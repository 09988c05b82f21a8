"""What a change asks before it is made."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from penstock.registry.errors import RegistryError
from tests.integration.registry.serving import serving

STRING = {"schema": '"string"'}


class Elsewhere:
    """Another instance leads, or none does."""

    def __init__(self, failure: RegistryError | None = None) -> None:
        self.failure = failure
        self.bodies: list[bytes] = []

    async def forward(self, request: Request) -> Response | None:
        self.bodies.append(await request.body())
        if self.failure is not None:
            raise self.failure
        return Response(b'{"id": 77}', headers={"x-position": "5"})

    def stamp(self, request: Request, response: Response) -> None:
        raise AssertionError("the answer is another's")


class Here:
    async def forward(self, request: Request) -> Response | None:
        await request.body()  # who looks at the body leaves it to the operation
        return None

    def stamp(self, request: Request, response: Response) -> None:
        response.headers["x-position"] = request.headers.get("x-forward", "none")


def test_changes_go_elsewhere_and_reads_stay_when_another_instance_leads() -> None:
    forwarder = Elsewhere()
    with serving(forwarder=forwarder) as served:
        assert served.post("/subjects/s/versions", STRING).body == {"id": 77}
        assert served.delete("/subjects/s").body == {"id": 77}
        assert served.put("/contexts/:.c:/mode", {"mode": "READONLY"}).body == {"id": 77}
        assert served.get("/subjects").body == []
        assert served.post("/subjects/s", STRING).code == 40401  # a lookup changes nothing
        assert served.post("/compatibility/subjects/s/versions", STRING).body == {"is_compatible": True}
    assert len(forwarder.bodies) == 3


def test_error_is_told_when_nobody_leads() -> None:
    with serving(forwarder=Elsewhere(RegistryError(50004, "nobody leads"))) as served:
        answer = served.post("/subjects/s/versions", STRING)
        assert (answer.status, answer.code) == (500, 50004)


def test_answer_is_stamped_when_this_instance_has_made_the_change() -> None:
    with serving(forwarder=Here()) as served:
        for body, status in ((STRING, 200), ({"schema": "nonsense"}, 422)):
            answer = served.session.post(
                f"{served.url}/subjects/s/versions", json=body, headers={"x-forward": "true"}, timeout=30
            )
            assert (answer.status_code, answer.headers["x-position"]) == (status, "true")
        assert "x-position" not in served.session.get(f"{served.url}/subjects", timeout=30).headers


def test_reason_is_told_when_requests_cannot_be_served() -> None:
    with serving(why_not_ready=lambda: "still reading") as served:
        answer = served.get("/readyz")
        assert (answer.status, answer.body) == (503, {"status": "unavailable", "reasons": ["still reading"]})
        assert served.get("/livez").status == 200
