#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages that root has installed for all, and a snapshot with them: another user's session imports them at once, and he has no
layer and no snapshot of his own. A template with variables is root's own affair."""
# backends: vm
# night: vm
# mount: none
# timeout: 400
# log-allow: not used
import stat

import layers
from for_all import *
from layers import MIRROR, PACKAGES, wheel

vm_only()

CONF = f"""prepare = no
[template data]
image = python
language = python
packages = alpha==1.0
memory_mb = 256
pool = 0
[template raw]
memory_mb = 192
pool = 0
env.TOKEN = of the template alone
[packages]
installer = {PACKAGES}
offline = {MIRROR}
python_list = any
"""


def keys(of):
    return {n for n in os.listdir(f"{SHARED}/{of}") if n[0] != "."}


def packages_for_all():
    make_shared("python", "raw")
    wheel("alpha", "1.0")
    os.chmod(MIRROR, 0o755)
    prefetch(CONF, "data")
    for top, directories, files in os.walk(f"{SHARED}/layers"):
        for name in directories + files:
            st = os.lstat(f"{top}/{name}")
            same(f"{name} is root's alone", (st.st_uid, stat.S_IMODE(st.st_mode) & 0o022), (0, 0))
    same("one layer", (len(keys("layers")), len(keys("snapshots"))), (1, 1))
    host = bob("first", CONF)
    same("imported at once", begin(host, "data/one", "import alpha; print(alpha.VERSION)\n"), ("1.0\n", "snapshot"))
    cache = f"{SCRATCH}/first.home/cache/xsbxfs"
    same("no layer of his own", (os.listdir(f"{cache}/layers"), os.listdir(f"{cache}/snapshots")), ([], []))
    host.close()

    before = keys("snapshots")
    prefetch(CONF, "raw")
    secret, = keys("snapshots") - before
    same("with variables: root's", stat.S_IMODE(os.stat(f"{SHARED}/snapshots/{secret}").st_mode), 0o700)
    host = bob("second", CONF)
    same("he makes his own", begin(host, "raw/one"), ("42\n", "cold"))
    host.close()


main(packages_for_all)
