#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions with a network come out of the pool like any other: clones wait with a card that leads
nowhere, and each user's list and ports are his own."""
# mount: none
# backends: vm process
# timeout: 300
# log-allow: snapshot of
import http.server
import threading

from xsbx import *

need("curl")

NAMES = ("one.xsbx.test", "two.xsbx.test")


class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["Host"].split(":")[0].encode())

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
threading.Thread(target=server.serve_forever, daemon=True).start()
PORT = server.server_address[1]
write(f"{SCRATCH}/hosts", read("/etc/hosts", "r") + f"\n127.0.0.1 {' '.join(NAMES)}\n")
subprocess.run(["mount", "--bind", f"{SCRATCH}/hosts", "/etc/hosts"], check=True)
CONF = f"{SCRATCH}/conf"
write(CONF, read(os.environ["CONF"], "r") +
      "\n[template raw]\nnetwork = on\npool = 2\n")
MNT = f"{SCRATCH}/pool"
os.mkdir(MNT)
daemon = start_daemon(MNT, "prepare=raw", f"max_allow=* 127.0.0.1:{PORT}", conf=CONF)


def programs():
    """The network's processes that run."""
    found = []
    for pid in children_of(daemon.pid):
        with contextlib.suppress(OSError):
            words = read(f"/proc/{pid}/cmdline", "r").split("\0")
            found += [words[1]] if words[0] == "/program" else []
    return found


def pool():
    kinds = [s for s in json.loads(read(f"{MNT}/status.json"))["snapshots"] if s["image"] == "raw"]
    return max([s["pool"]["ready"] for s in kinds], default=0)


def get(session, name):
    return session.run(f"curl -sS -m 20 http://{name}:{PORT}/; echo \" $?\"\n").out


def test_pool():
    ok("a pool", wait_for(lambda: pool() == 2, 120), pool())
    same("none has a filter yet", programs(), [])
    sessions = [Session(f"s{i}", config=f"allow = {name}:{PORT} 127.0.0.1:{PORT}\nports = 80{i}0\n",
                        mnt=MNT) for i, name in enumerate(NAMES)]
    for i, s in enumerate(sessions):
        same("his own list", get(s, NAMES[i]), f"{NAMES[i]} 0\n")
        has("not the other's", get(s, NAMES[1 - i]), " 7\n")
        same("out of the pool", s.json()["sandbox"]["start"], "warm")
        same("his own port", s.text("ports").split()[0], f"80{i}0")
    same("a filter each", sorted(programs()), ["--control", "--control", "3"])
    for s in sessions:
        s.remove()
    ok("one process is left", wait_for(lambda: programs() == ["3"], 20), programs())


def test_end():
    daemon.terminate()
    same("the daemon's end", daemon.wait(SOON), 0)
    shell("umount /etc/hosts")


main(test_pool, test_end)
