# SPDX-License-Identifier: Apache-2.0
"""A collector of OpenTelemetry: takes spans over HTTP, and checks that they are what OTLP says."""

import http.server
import json
import re
import threading

SPAN = {"traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes", "status"}


def value_of(value):
    (kind, v), = value.items()
    if kind == "intValue":
        assert isinstance(v, str), v
        return int(v)
    assert kind == "stringValue" and isinstance(v, str), value
    return v


def attributes(listed):
    return {x["key"]: value_of(x["value"]) for x in listed}


def strictly(body):
    """By the protocol's own definition, where that is installed. Return: whether it is."""
    try:
        from google.protobuf import json_format
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        return False
    # In the JSON of OTLP these are hexadecimal, and not base64: so they are looked at by hand, below.
    def hide(match):
        return f'"{match[1]}":"{"A" * 4}"'
    text = re.sub(r'"(traceId|spanId|parentSpanId)":"[0-9a-f]+"', hide, body.decode())
    json_format.Parse(text, ExportTraceServiceRequest(), ignore_unknown_fields=False)
    return True


class Collector:
    """Listens at `url`; what has come is in `spans`, by name, and who says otherwise in `wrong`."""

    def __init__(self, port=0):
        self.spans, self.wrong, self.bodies, self.resource, self.strict, self.headers = [], [], 0, {}, False, {}
        self.answer = 200
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if collector.answer == 200:
                    try:
                        collector.take(self.path, self.headers, body)
                    except Exception as error:
                        collector.wrong.append(repr(error))
                self.send_response(collector.answer)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def take(self, path, headers, body):
        assert path == "/v1/traces", path
        assert headers["Content-Type"] == "application/json", headers
        self.bodies += 1
        self.headers = headers
        self.strict = strictly(body)
        request = json.loads(body)
        assert set(request) == {"resourceSpans"}, request
        for of in request["resourceSpans"]:
            self.resource = attributes(of["resource"]["attributes"])
            for scope in of["scopeSpans"]:
                for s in scope["spans"]:
                    assert set(s) <= SPAN, set(s) - SPAN
                    assert re.fullmatch("[0-9a-f]{32}", s["traceId"]), s
                    assert re.fullmatch("[0-9a-f]{16}", s["spanId"]), s
                    assert re.fullmatch("[0-9a-f]{16}", s.get("parentSpanId", "0" * 16)), s
                    s["from"], s["to"] = int(s["startTimeUnixNano"]), int(s["endTimeUnixNano"])
                    assert s["from"] <= s["to"], s
                    s["attributes"] = attributes(s["attributes"])
                    self.spans.append(s)

    def of(self, name, **fields):
        return [s for s in list(self.spans) if s["name"] == name and
                all(s.get(k, s["attributes"].get("xsbxfs." + k)) == v for k, v in fields.items())]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
