# SPDX-License-Identifier: Apache-2.0
"""For tests of quotas: what `quota` says, and who uses all of a day's."""

from xsbx import *

BURN = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo done\n"


def quota_lines(mnt=MNT, text=None):
    """What `quota` says of who asks, by name; or what this text of it says."""
    text = read(f"{mnt}/quota", "r") if text is None else text
    return dict(line.split(": ", 1) for line in text.split("\n\n")[0].splitlines())


def used(mnt=MNT, name="cpu_s_day"):
    return float(quota_lines(mnt)[name].split()[0])


def use_up(s):
    """Until code is refused. Return: how many runs there were."""
    for n in range(500):
        try:
            s.submit(BURN)
        except OSError as error:
            same("it is refused as a quota", error.errno, errno.EDQUOT)
            return n
        read(s / "exit_code")
    fail("there is no end to it", quota_lines(os.path.dirname(os.path.dirname(s.path))))
    return 0


def quota_mount(name, quota, *options):
    """A mount of the test's own with this quota, and the runner's configuration but for its quota."""
    return own_mount(name, *options, conf=read(os.environ["CONF"], "r").split("[quota]")[0] + "\n" + quota)
