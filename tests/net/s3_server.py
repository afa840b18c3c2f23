# SPDX-License-Identifier: Apache-2.0
"""An S3 server that checks signatures, and a hole between it and who talks to it."""

import logging
import os
import pwd
import socket
import sys
import threading

KEPT = os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".cache/xsbxfs-test",
                    "moto-%d.%d" % sys.version_info[:2])
BUCKET, ACCOUNT = "cache", "123456789012"
POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", ' \
         '"Resource": "*"}]}'


def find_server():
    """Whether there is one. scripts/deps --test puts it where it is looked for."""
    if os.path.isdir(KEPT) and KEPT not in sys.path:
        sys.path.append(KEPT)
    try:
        import moto.server  # noqa: F401
        return True
    except ImportError:
        return False


class Server:
    """moto with a bucket and a user; it computes signatures anew and compares them."""

    def __init__(self, address="127.0.0.1"):
        logging.disable(logging.CRITICAL)  # two who put the same object at once, it bears badly
        from moto import settings
        from moto.iam.models import iam_backends
        from moto.s3.models import s3_backends
        from moto.server import ThreadedMotoServer

        iam = iam_backends[ACCOUNT]["aws"]
        iam.create_user(region_name="us-east-1", user_name="xsbx", path="/", tags=[])
        iam.put_user_policy("xsbx", "all", POLICY)
        key = iam.create_access_key("xsbx")
        self.user = {"AWS_ACCESS_KEY_ID": key.access_key_id,
                     "AWS_SECRET_ACCESS_KEY": key.secret_access_key}
        self.s3 = s3_backends[ACCOUNT]["aws"]
        self.s3.create_bucket(BUCKET, "us-east-1")
        settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
        self.server = ThreadedMotoServer(ip_address=address, port=0, verbose=False)
        self.address = address

    def __enter__(self):
        self.server.start()
        _, self.port = self.server.get_host_and_port()
        self.warm(f"http://{self.address}:{self.port}")
        self.url = f"http://{self.address}:{self.port}/{BUCKET}"
        return self

    def __exit__(self, *_):
        self.server.stop()

    def warm(self, endpoint):
        """moto reads parts of itself from disk at its first request, which takes it longer on a
        busy host than xsbxfs-store waits for an answer."""
        import boto3
        boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint,
                     aws_access_key_id=self.user["AWS_ACCESS_KEY_ID"],
                     aws_secret_access_key=self.user["AWS_SECRET_ACCESS_KEY"]
                     ).head_bucket(Bucket=BUCKET)

    def names(self, prefix):
        return sorted(k for k in self.s3.buckets[BUCKET].keys.keys() if k.startswith(prefix))

    def read(self, name):
        return self.s3.get_object(BUCKET, name).value

    def write(self, name, data):
        self.s3.put_object(BUCKET, name, data)

    def remove(self, name):
        self.s3.delete_object(BUCKET, name)


class Hole:
    """Listens, and passes on to a server so many bytes of answers (or of requests); then nothing
    more happens."""

    def __init__(self, to=None, after=0, requests=False):
        self.to, self.after, self.requests, self.passed = to, after, requests, 0
        self.reached = threading.Event()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.kept = []

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        # What hangs is woken, so that it ends.
        for sock in [self.listener, *self.kept]:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()

    def wait(self):
        assert self.reached.wait(60), "nobody came, or little was asked for"

    def serve(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.kept.append(sock)
            if not self.to:
                self.reached.set()
                continue
            server = socket.create_connection(("127.0.0.1", self.to))
            self.kept.append(server)
            threading.Thread(target=self.copy, args=(sock, server, self.requests), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, sock, not self.requests), daemon=True).start()

    def copy(self, source, sink, counted):
        try:
            while part := source.recv(65536):
                if counted:
                    with self.lock:
                        self.passed += len(part)
                        if self.passed > self.after:
                            self.reached.set()
                            return
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
