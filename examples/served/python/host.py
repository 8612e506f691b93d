"""A small shop that sells what people answer, through a ledger that is served elsewhere.

    LEDGER_ADDR=http://127.0.0.1:8080 LEDGER_TOKEN=... python3 host.py FOLDER

FOLDER has shop.json, with the people and the orders. The host leaves there what it has followed, and what the first buyer gets.
It may be run again: nothing is sold twice.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import threading

from sluice import Json, Ledger, Problem


class Follower(threading.Thread):
    """Writes down every event of the ledger, beside all else."""

    def __init__(self, ledger: Ledger, file: pathlib.Path) -> None:
        super().__init__(daemon=True)
        self._ledger, self._file = ledger, file
        self._last, self._more = 0, threading.Condition()
        self._failed = False

    def run(self) -> None:
        try:
            with self._file.open("w", encoding="utf-8") as out:
                for event in self._ledger.events():
                    print(json.dumps(event, ensure_ascii=False), file=out, flush=True)
                    with self._more:
                        self._last = event["event"]
                        self._more.notify()
        finally:
            with self._more:
                self._failed = True  # it would go on for ever
                self._more.notify()

    def wait_for(self, event: int) -> None:
        with self._more:
            if not self._more.wait_for(lambda: self._last >= event or self._failed, timeout=60) or self._failed:
                raise RuntimeError(f"event {event} did not arrive within a minute")


def sell(ledger: Ledger, people: dict[str, str], order: Json) -> None:
    """Executes one order. Its id is the key: a repeated request with it gets the same sale."""
    wanted = {"buyer": order["buyer"], "question": "smoker", "epsilon": order["epsilon"], "all": True}
    quote = ledger.post("/v1/quotes", wanted)
    print(f"{order['id']}: {order['buyer']} asks for ε = {order['epsilon']}: {quote['objects']} answers, {quote['price']}¢", flush=True)
    try:
        sale = ledger.post("/v1/sales", {**wanted, "max_price": order["max_price"]}, key=order["id"], truths=people)
    except Problem as problem:
        if problem.kind not in ("refused", "price"):
            raise  # it is unknown whether it is sold: repeat the request, with the same id
        print(f"{order['id']}: {problem.kind}", flush=True)
    else:
        print(f"{order['id']}: sale {sale['sale']}, {sale['price']}¢, {sale['draws']} drawn", flush=True)


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    ledger = Ledger(os.environ["LEDGER_ADDR"], os.environ["LEDGER_TOKEN"])
    shop = json.loads((folder / "shop.json").read_text(encoding="utf-8"))
    follower = Follower(ledger, folder / "events.ndjson")
    follower.start()

    ledger.post("/v1/questions", {"question": "smoker", "values": ["yes", "no"]}, key="define")
    terms = {"kind": "market", "max": "2", "price": [["2", 200]]}
    ledger.post("/v1/enrolments", {"question": "smoker", "objects": sorted(shop["people"]), "policy": terms, "cap": "2"}, key="enrol")
    for order in shop["orders"]:
        sell(ledger, shop["people"], order)

    first, *_ = sales = list(ledger.items("/v1/sales", limit="3"))
    (folder / "receipt.json").write_bytes(ledger.document(f"/v1/sales/{first['sale']}/receipt"))
    follower.wait_for(sales[-1]["last"])


if __name__ == "__main__":
    main()
