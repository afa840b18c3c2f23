# SPDX-License-Identifier: Apache-2.0
"""One end of HTTP/2, frame by frame: a client or a server that does what no library would."""

import contextlib
import ssl
import struct

from hpack import Decoder, Encoder
from hpack.hpack import NeverIndexedHeaderTuple

MAGIC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
CONTINUATION = 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def request(path="/", method="GET", authority="web.test", *more, scheme="https"):
    return [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path), *more]


class Peer:
    """On a socket over which HTTP/2 has been agreed."""

    def __init__(self, sock, client=True, settings=()):
        self.sock, self.have, self.later = sock, b"", []
        self.encoder, self.decoder = Encoder(), Decoder()
        if client:
            sock.sendall(MAGIC)
        else:
            while len(self.have) < len(MAGIC) and (part := sock.recv(65536)):
                self.have += part
            assert self.have.startswith(MAGIC)
            self.have = self.have[len(MAGIC):]
        self.frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", key, value) for key, value in settings))
        self.window(0, 1 << 30)

    def frame(self, kind, flags, stream, payload=b""):
        self.sock.sendall(self.packed(kind, flags, stream, payload))

    @staticmethod
    def packed(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def headers(self, stream, fields, end=True):
        self.frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, self.block(fields))

    def block(self, fields):
        return self.encoder.encode([NeverIndexedHeaderTuple(*field) for field in fields])

    def data(self, stream, data, end=False):
        self.frame(DATA, END_STREAM if end else 0, stream, data)

    def reset(self, stream, code=8):
        self.frame(RST_STREAM, 0, stream, struct.pack(">I", code))

    def window(self, stream, size):
        self.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", size))

    def read(self):
        """Return: (kind, flags, stream, payload), fields decoded; None at the end."""
        while len(self.have) < 9 or len(self.have) < 9 + int.from_bytes(self.have[:3], "big"):
            try:
                part = self.sock.recv(65536)
            except (ConnectionError, ssl.SSLError):
                part = b""
            if not part:
                return None
            self.have += part
        size = 9 + int.from_bytes(self.have[:3], "big")
        frame, self.have = self.have[:size], self.have[size:]
        kind, flags, stream = frame[3], frame[4], int.from_bytes(frame[5:9], "big")
        payload = frame[9:]
        if kind == HEADERS:
            assert flags & END_HEADERS, "its fields are in pieces"
            payload = self.decoder.decode(payload[5:] if flags & 0x20 else payload)
        if kind in (SETTINGS, PING) and not flags & ACK:
            with contextlib.suppress(OSError):  # it may have gone meanwhile
                self.frame(kind, ACK, 0, payload if kind == PING else b"")
        return kind, flags, stream, payload

    def wait(self, *kinds, stream=None):
        """The next frame of these kinds; others stay for later."""
        def fits(frame):
            return frame[0] in kinds and stream in (None, frame[2])

        for i, frame in enumerate(self.later):
            if fits(frame):
                return self.later.pop(i)
        while (frame := self.read()) and not fits(frame):
            self.later.append(frame)
        return frame

    def answer(self, stream):
        """All of an answer. Return: (status, fields, body, trailer), or the code of a reset as its status."""
        status, fields, trailer, body = None, {}, {}, b""
        while frame := self.wait(HEADERS, DATA, RST_STREAM, stream=stream):
            kind, flags, _, payload = frame
            if kind == RST_STREAM:
                return ("reset", int.from_bytes(payload, "big")), fields, body, trailer
            if kind == DATA:
                body += payload
            elif status is None or status.startswith("1"):
                fields = dict(payload)
                status = fields[":status"]
            else:
                trailer = dict(payload)
            if flags & END_STREAM:
                return status, fields, body, trailer
        return ("ended", None), fields, body, trailer

    def goaway(self):
        """The code of the end of the connection; None: it is just cut."""
        frame = self.wait(GOAWAY)
        return int.from_bytes(frame[3][4:8], "big") if frame else None
