"""A small client of a served Sluice ledger. It needs nothing but Python (3.9 or later): copy it.

Requests are repeated until they are answered, with the same key. So nothing is sold twice, or lost, when the server is killed.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Iterator, Mapping, Optional

Json = dict[str, Any]


class Problem(Exception):
    """The response of the ledger in place of a result, as in RFC 9457. `kind` is for programs, and `says` has all members."""

    def __init__(self, says: Json) -> None:
        super().__init__(says["detail"])
        self.kind: str = says["kind"]
        self.says = says


class Ledger:
    """A ledger at an address, for the holder of a token."""

    def __init__(self, address: str, token: str, patience: float = 300) -> None:
        self._address, self._token, self._patience = address.rstrip("/"), token, patience

    def get(self, path: str, **query: str) -> Any:
        """Reads one thing."""
        return json.loads(self.document(path, **query))

    def document(self, path: str, **query: str) -> bytes:
        """Reads a document unchanged, such as a receipt, because its signature is of the exact bytes."""
        return self._ask(path + ("?" + urllib.parse.urlencode(query) if query else ""))

    def items(self, path: str, **query: str) -> Iterator[Json]:
        """Reads all parts of a list."""
        while True:
            part = self.get(path, **query)
            yield from part["items"]
            if "next" not in part:
                return
            query["after"] = part["next"]

    def post(self, path: str, body: Json, key: Optional[str] = None, truths: Optional[Mapping[str, str]] = None) -> Any:
        """Sends a request. A request that changes something needs a key, such as the id of your order, in ASCII: repeated with
        it, it does nothing twice. Only the true values that a draw needs are sent."""
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = json.dumps(key)
        sent: Json = {}
        while True:
            try:
                return json.loads(self._ask(path, headers, {**body, "truths": sent} if sent else body))
            except Problem as problem:
                if problem.kind != "truth-needed" or truths is None:
                    raise
                needed = {name for need in problem.says["needs"] for name in need["objects"]}
                if needed <= sent.keys():
                    raise  # the server already has them
                sent.update((name, truths.get(name, "")) for name in needed)  # concurrent requests can make more of them necessary

    def events(self, after: int = 0) -> Iterator[Json]:
        """Follows the log without end, from the event after `after`. If a stream breaks, the next one continues after its last event."""
        pause = 0.0
        while True:
            time.sleep(pause)
            pause = min(2 * pause + 0.05, 5)
            try:
                with self._send("/v1/events", {"Accept": "text/event-stream", "Last-Event-ID": str(after)}) as stream:
                    for name, data in _messages(stream):
                        says = json.loads(data)
                        if name == "problem":
                            raise Problem(says)
                        yield says
                        after, pause = says["event"], 0.0
            except (OSError, http.client.HTTPException):
                pass
            except Problem as problem:
                if not _passes(problem):
                    raise

    def _ask(self, path: str, headers: Mapping[str, str] = {}, body: Optional[Json] = None) -> bytes:
        """Repeats a request until it gets a response. If that takes too long, it is unknown whether the request was done: repeat it
        later, with the same key."""
        give_up, pause = time.monotonic() + self._patience, 0.05
        while True:
            try:
                with self._send(path, headers, body) as answer:
                    return answer.read()
            except (OSError, http.client.HTTPException):
                if time.monotonic() > give_up:
                    raise
            except Problem as problem:
                if not _passes(problem) or time.monotonic() > give_up:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 5)

    def _send(self, path: str, headers: Mapping[str, str], body: Optional[Json] = None) -> Any:
        """Sends a request once. A server that sends nothing for a minute counts as dead: streams have a heartbeat every 15 seconds."""
        request = urllib.request.Request(self._address + path, None if body is None else json.dumps(body).encode())
        for name, value in {**headers, "Authorization": "Bearer " + self._token}.items():
            request.add_header(name, value)
        try:
            return urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            with error:
                if error.headers.get_content_type() == "application/problem+json":
                    raise Problem(json.loads(error.read())) from None
                # The response is from a proxy, not from the ledger.
                raise Problem({"kind": "unreachable", "status": error.code, "detail": str(error)}) from None


def _passes(problem: Problem) -> bool:
    """Returns whether the same request may get another response later. 501 is permanent: the server has no such route."""
    status = problem.says["status"]
    return status == 429 or (status >= 500 and status != 501)


def _messages(stream: Any) -> Iterator[tuple[str, str]]:
    """Reads server-sent events, as names and data. An empty line ends each event; an incomplete event is discarded."""
    name, data = "", []
    for line in stream:
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "" and data:
            yield name, "\n".join(data)
            name, data = "", []
