#!/usr/bin/env python3
"""A flash sale in Python that knows nothing of stampede but its HTTP API.

It keeps everything in memory and needs only the standard library:

    python3 shop.py --port 8080
    python3 shop.py --port 8080 --oversell

With --oversell it looks whether there is a unit, lets others run, and then
takes one: the classic mistake. It prints the port it listens on.
"""

import argparse
import json
import re
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 16 * 1024
RECLAIM_SLACK_NS = 2_000_000_000


class Problem(Exception):
    """An answer that is not a result."""

    def __init__(self, status, code, text):
        super().__init__(text)
        self.status, self.code = status, code


class Shop:
    def __init__(self, oversell):
        self.oversell = oversell
        self.lock = threading.Lock()
        self.reset({"items": 1, "units": 100, "price_cents": 59900,
                    "cart_ttl_ms": 3000, "reclaim_every_ms": 250})

    def reset(self, sale):
        with self.lock:
            self.sale = sale
            shelf = range(sale["units"], 0, -1)
            self.free = {f"item-{n + 1}": list(shelf) for n in range(sale["items"])}
            self.versions = {}
            self.orders, self.by_op, self.active = {}, {}, {}
            self.payments, self.log = {}, []

    def buy(self, req):
        item = req["item"]
        if item not in self.free:
            raise Problem(404, "unknown_item", f"there is no {item}")
        if self.oversell:
            if not self.free[item]:
                raise Problem(409, "sold_out", "sold out")
            time.sleep(0.002)  # others come to the same conclusion meanwhile
        with self.lock:
            order = self.by_op.get(req["op_id"])
            if order is None:
                order = self.place(req)
            return {"order": order["order"], "unit": order["unit"]}

    def place(self, req):
        item, buyer = req["item"], req["buyer"]
        if (item, buyer) in self.active:
            raise Problem(409, "already_bought", "one unit for each buyer")
        if not self.free[item] and not self.oversell:
            raise Problem(409, "sold_out", "sold out")
        unit = self.free[item].pop() if self.free[item] else 1
        order = {"order": f"py-{len(self.orders) + 1}", "op_id": req["op_id"], "item": item,
                 "buyer": buyer, "unit": unit, "state": "held", "held_at_ns": time.time_ns()}
        self.orders[order["order"]] = self.by_op[req["op_id"]] = order
        self.active[item, buyer] = order
        self.note(order, "available", "held", "buy", order["held_at_ns"])
        return order

    def note(self, order, before, after, cause, at):
        unit = order["item"], order["unit"]
        self.versions[unit] = self.versions.get(unit, 0) + 1
        self.log.append({"seq": len(self.log) + 1, "order": order["order"],
                         "item": order["item"], "unit": order["unit"],
                         "version": self.versions[unit], "from": before, "to": after,
                         "cause": cause, "at_ns": at})

    def close(self, order, state, after, cause):
        order["state"], order["closed_at_ns"] = state, time.time_ns()
        if after == "available":
            self.free[order["item"]].append(order["unit"])
            del self.active[order["item"], order["buyer"]]
        self.note(order, "held", after, cause, order["closed_at_ns"])

    def pay(self, req):
        with self.lock:
            order = self.orders.get(req["order"])
            if order is None:
                raise Problem(404, "unknown_order", f"there is no order {req['order']}")
            payment = self.payments.get(req["payment_id"])
            if payment is None:
                payment = self.payments[req["payment_id"]] = self.settle(order, req)
            payment["deliveries"] += 1
            return {"state": payment["state"]}

    def settle(self, order, req):
        held, paid = order["state"] == "held", req["succeeded"]
        if held and paid:
            self.close(order, "paid", "sold", "paid")
        elif held:
            self.close(order, "failed", "available", "payment-failed")
        state = ("sold" if held else "refunded") if paid else "released"
        return {"payment_id": req["payment_id"], "order": order["order"],
                "amount_cents": req["amount_cents"], "captured": paid,
                "refunded": state == "refunded", "deliveries": 0,
                "effects": int(held or paid), "state": state}

    def stock(self, item):
        with self.lock:
            if item not in self.free:
                raise Problem(404, "unknown_item", f"there is no {item}")
            return self.count(item)

    def count(self, item):
        states = [o["state"] for o in self.orders.values() if o["item"] == item]
        return {"item": item, "units": self.sale["units"], "available": len(self.free[item]),
                "held": states.count("held"), "sold": states.count("paid")}

    def audit(self):
        with self.lock:
            items = [dict(self.count(item), price_cents=self.sale["price_cents"])
                     for item in self.free]
            payments = [{k: v for k, v in p.items() if k != "state"}
                        for p in self.payments.values()]
            return {"items": items, "orders": [dict(o) for o in self.orders.values()],
                    "payments": payments, "log": list(self.log),
                    "cart_ttl_ns": self.sale["cart_ttl_ms"] * 1_000_000,
                    "reclaim_slack_ns": RECLAIM_SLACK_NS}

    def reclaim_for_ever(self):
        while True:
            time.sleep(self.sale["reclaim_every_ms"] / 1000)
            with self.lock:
                due = time.time_ns() - self.sale["cart_ttl_ms"] * 1_000_000
                for order in list(self.active.values()):
                    if order["state"] == "held" and order["held_at_ns"] <= due:
                        self.close(order, "expired", "available", "expired")


def fields(body, **types):
    """Read a JSON object that has exactly these fields."""
    try:
        req = json.loads(body)
    except ValueError as err:
        raise Problem(400, "bad_request", str(err)) from err
    if not isinstance(req, dict) or set(req) != set(types):
        raise Problem(400, "bad_request", f"expected the fields {sorted(types)}")
    for name, want in types.items():
        if type(req[name]) is not want or want is not bool and not req[name]:
            raise Problem(400, "bad_request", f"{name}: expected {want.__name__}")
        if want is int and req[name] < 1:
            raise Problem(400, "bad_request", f"{name}: expected 1 or more")
    return req


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keep-alive
    disable_nagle_algorithm = True
    wbufsize = -1  # one write for each answer
    timeout = 60
    shop = None

    def do_POST(self):
        self.answer(self.post)

    def do_GET(self):
        self.answer(self.get)

    def post(self, body):
        if self.path == "/v1/buy":
            return 201, self.shop.buy(fields(body, op_id=int, item=str, buyer=str))
        if self.path == "/v1/payments":
            return 200, self.shop.pay(fields(body, op_id=int, payment_id=str, order=str,
                                             succeeded=bool, amount_cents=int))
        if self.path == "/v1/reset":
            self.shop.reset(fields(body, items=int, units=int, price_cents=int,
                                   cart_ttl_ms=int, reclaim_every_ms=int))
            return 204, None
        raise Problem(404, "no_route", self.path)

    def get(self, _):
        stock = re.fullmatch(r"/v1/items/([^/]+)/stock", self.path)
        if stock:
            return 200, self.shop.stock(stock[1])
        if self.path == "/v1/audit":
            return 200, self.shop.audit()
        if self.path == "/healthz":
            return 200, {"status": "ok"}
        raise Problem(404, "no_route", self.path)

    def answer(self, serve):
        try:
            length = int(self.headers.get("Content-Length") or 0)
            if length > MAX_BODY:
                self.close_connection = True
                raise Problem(413, "too_large", f"the limit is {MAX_BODY} bytes")
            status, body = serve(self.rfile.read(length))
        except Problem as p:
            status, body = p.status, {"code": p.code, "error": str(p)}
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = socket.SOMAXCONN


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--port", type=int, default=8080, help="0 lets the system choose")
    args.add_argument("--oversell", action="store_true", help="check and take without a lock")
    args = args.parse_args()
    Handler.shop = Shop(args.oversell)
    threading.Thread(target=Handler.shop.reclaim_for_ever, daemon=True).start()
    server = Server(("127.0.0.1", args.port), Handler)
    print(server.server_address[1], flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
