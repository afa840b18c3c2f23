#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two hosts, each in a network of its own, that share one bucket on a third: the second starts a package set that it has never
built, and could not build."""
# mount: none
# backends: vm
# night: vm
# timeout: 300
# log-allow: the store
# log-allow: alpha
from layers import *

import socket

from netlab import Namespace, run
from s3_server import Server, find_server

vm_only()
need_language("python")
need("ip")
BUCKET = "10.77.0.1"


def connect(host, number):
    """A host in its own network, from which only the bucket's is reached, at an address of its own."""
    near, far = f"10.77.{number}.2", f"10.77.{number}.1"
    with host.entered():
        run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", f"to{number}", "netns",
            f"/proc/{os.getpid()}/fd/{bucket.fd}")
        run("ip", "addr", "add", f"{near}/24", "dev", "eth0")
        run("ip", "link", "set", "eth0", "up")
        run("ip", "route", "add", BUCKET, "via", far)
    with bucket.entered():
        run("ip", "addr", "add", f"{far}/24", "dev", f"to{number}")
        run("ip", "link", "set", f"to{number}", "up")


def mount(space, name, url):
    """In its network, with a cache of its own, in which there are images and nothing else."""
    cache = f"{SCRATCH}/{name}.cache"
    os.makedirs(cache)
    link_images(cache)
    store = f"[store]\nurl = {url}\nwrite = yes\n" if url else ""
    with space.entered():
        return cache, Mount(name, cache=cache, packages=f"offline = {MIRROR}\npython_list = any\n{store}")


def store(host):
    return json.loads(read(f"{host.mnt}/status.json"))["store"]


def networks():
    for here, there in ((one, "10.77.2.2"), (two, "10.77.1.2")):
        with here.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            sock.connect((BUCKET, server.port))
        for address in (there, "127.0.0.1"):
            with here.socket(socket.AF_INET, socket.SOCK_STREAM) as sock, \
                    raises(f"no way to {address}", errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH):
                sock.connect((address, server.port))


def shared():
    cache, host = mount(one, "one", URL)
    s = host.session("maker", "alpha==1.0")
    same("the first installs", s.run("import alpha; print(alpha.VERSION)\n").out, "1.0\n")
    ok("and gives", wait_for(lambda: server.names("pre/v1/layer/") or store(host)["failed"], 60) and not store(host)["failed"],
       store(host))
    host.close()
    made = layers(cache)

    # What the first one had to install from the second has not: the directory is of the same name there, and empty.
    for path in os.listdir(MIRROR):
        os.unlink(f"{MIRROR}/{path}")
    cache, host = mount(two, "two", URL)
    s = host.session("taker", "alpha==1.0")
    same("the second imports it", s.run("import alpha; print(alpha.VERSION)\n").out, "1.0\n")
    same("the same layer", layers(cache), made)
    ok("fetched", store(host)["fetched"] >= 1, store(host))
    ok("nothing was installed", not [e for e in host.events() if "Installed" in json.dumps(e)], host.events())
    host.close()


def alone():
    """Control: without the bucket it cannot."""
    cache, host = mount(two, "alone", None)
    s = host.session("alone", "alpha==1.0")
    s.submit("import alpha; print(alpha.VERSION)\n")
    ok("refused", s.wait_run(1, "refused", 60), s.text("status.json"))
    has("why", s.text("error"), "alpha")
    same("no layer", layers(cache), [])
    host.close()


wheel("alpha", "1.0")
if not find_server():
    skip("no S3 server to test with; scripts/deps --test installs moto with pip")
try:
    bucket, one, two = Namespace(), Namespace(), Namespace()
except OSError as error:
    skip(f"no network namespaces here: {error}")
with bucket.entered():
    run("ip", "addr", "add", f"{BUCKET}/32", "dev", "lo")
connect(one, 1)
connect(two, 2)
server = Server(BUCKET)
with bucket.entered():
    server.__enter__()
URL = server.url + "/pre"
# Without TLS the network could put something else in, which is refused where there is no secret to see it by.
os.environ.update(server.user, XSBXFS_STORE_SECRET="a secret of both hosts, and of nobody else")
try:
    main(networks, shared, alone)
finally:
    server.__exit__()
