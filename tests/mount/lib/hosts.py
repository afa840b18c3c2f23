# SPDX-License-Identifier: Apache-2.0
"""For tests of process sandboxes that work with files of the host: mounts with a configuration of
their own, by root and by somebody else, and users to be."""

import ctypes

from xsbx import *

MEMBER = 1  # one that has a name, which fusermount3 asks for
MS_BIND = 4096
libc = ctypes.CDLL(None, use_errno=True)


def folder(name, uid=None, mode=0o755):
    path = f"{SCRATCH}/{name}"
    os.makedirs(path)
    os.chmod(path, mode)
    if uid is not None:
        os.chown(path, uid, uid)
    return path


def open_fuse():
    """Let everybody open /dev/fuse, in this test's own mount namespace alone."""
    node = f"{SCRATCH}/fuse"
    if os.path.exists(node):
        return
    os.mknod(node, 0o666 | 0o020000, os.makedev(10, 229))
    os.chmod(node, 0o666)
    if libc.mount(node.encode(), b"/dev/fuse", None, MS_BIND, None):
        raise OSError(ctypes.get_errno(), "binding /dev/fuse")


class Host:
    """A mount whose configuration the test writes; `uid` is whose daemon it is."""

    def __init__(self, name, conf, *options, uid=None, program=None):
        self.mnt = folder(f"{name}.mnt", uid)
        self.conf = f"{SCRATCH}/{name}.conf"
        write(self.conf, conf)
        popen = {}
        if uid is not None:
            open_fuse()
            home = folder(f"{name}.home", uid)
            popen = {"user": uid, "group": uid, "extra_groups": [],
                     "env": {**os.environ, "HOME": home, "XDG_CACHE_HOME": f"{home}/cache",
                             "XDG_RUNTIME_DIR": home, "TMPDIR": home}}
        self.daemon = start_daemon(self.mnt, *options, conf=self.conf, **popen)

    def session(self, name, template="shown", config=None):
        return Session(name, template=template, config=config, mnt=self.mnt)

    def close(self):
        self.daemon.terminate()
        same("the daemon ends", self.daemon.wait(SOON), 0)


def refused(conf, *options):
    """What the program says of a configuration that it does not take."""
    path = f"{SCRATCH}/refused.conf"
    write(path, conf)
    done = subprocess.run([os.environ["XSBXFS"], "--check", "-c", path, "-o",
                           ",".join(["allow_process=yes", *options])],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=2 * SOON)
    return done.stdout.decode()


__all__ = [name for name in dir() if not name.startswith("_")]
