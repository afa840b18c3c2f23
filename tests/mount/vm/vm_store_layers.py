#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages and a store that two hosts share: one installs them, the other fetches the layer; with
one that is damaged in the store, and none at all, they are installed."""
# mount: none
# backends: vm
# timeout: 400
# log-allow: the store
from layers import *

from s3_server import Server, find_server  # noqa: E402

vm_only()
need_language("python")


def mount(name, url):
    cache = f"{SCRATCH}/{name}.cache"
    os.makedirs(cache)
    link_images(cache)
    return cache, Mount(name, cache=cache, packages="offline = " + MIRROR + "\npython_list = any\n"
                        f"[store]\nurl = {url}\nwrite = yes\n")


def store(host):
    return json.loads(read(f"{host.mnt}/status.json"))["store"]


def uses(host):
    s = host.session("one", "alpha==1.0")
    same("imported", s.run("import alpha; print(alpha.VERSION)\n").out, "1.0\n")
    s.remove()


def layers_in_store():
    return server.names("pre/v1/layer/")


def shared():
    cache, host = mount("maker", URL)
    uses(host)
    ok("offered", wait_for(lambda: len(layers_in_store()) == 1, 60), store(host))
    host.close()
    other_cache, host = mount("taker", URL)
    uses(host)
    ok("fetched", store(host)["fetched"] >= 1, store(host))
    ok("not installed", not [e for e in host.events() if "Installed" in json.dumps(e)], host.events())
    same("the same layer", layers(cache), layers(other_cache))
    host.close()


def damaged():
    name = layers_in_store()[0]
    server.write(name, server.read(name)[:-40])
    _, host = mount("damaged", URL)
    uses(host)
    ok("seen", store(host)["damaged"] >= 1, store(host))
    ok("installed", [e for e in host.events() if "Installed" in json.dumps(e)], host.events())
    ok("put in its place", wait_for(lambda: len(server.read(name)) > 300 and store(host)["put"] >= 1, 60),
       store(host))
    host.close()


def away():
    _, host = mount("away", "http://127.0.0.1:1/cache/pre")
    uses(host)
    ok("said so", store(host)["problem"], store(host))
    host.close()


wheel("alpha", "1.0")
if not find_server():
    skip("no S3 server to test with; scripts/deps --test installs moto with pip")
with Server() as server:
    URL = server.url + "/pre"
    os.environ.update(server.user)
    main(shared, damaged, away)
