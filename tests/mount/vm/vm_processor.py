#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The processor of a machine computes what the host's does, each instruction with each register, and
offers no virtual machines of its own. The control is what an emulator gets wrong if it may."""
# backends: vm
import re

from xsbx import *

vm_only()

VECTORS = f"{BUILD}/test/vectors"
KERNEL = f"{os.environ['IMAGES']}/images/templates/kernel/vmlinux"
GATHERS = ["pgatherdd", "pgatherqq", "gatherdps", "gatherqpd"]

if not os.access(VECTORS, os.X_OK):
    skip(f"there is no {VECTORS}: make tests")


def take(text):
    """What the program printed: features, and checksums by (feature, instruction)."""
    features = {name: answer == "yes"
                for name, answer in re.findall(r"^(\w+): (yes|no)\r?$", text, re.M)}
    sums = {(feature, name): value for feature, name, value in
            re.findall(r"^(\w+) ([\w.]+) ([0-9a-f]{16})\r?$", text, re.M)}
    return features, sums


def differing(host, guest):
    return sorted(name for name in guest if name in host and guest[name] != host[name])


HOST_HAS, HOST = take(subprocess.run([VECTORS], capture_output=True, check=True, text=True).stdout)


def instructions():
    s = Session("vectors")
    shutil.copy(VECTORS, s / "files/vectors")
    result = s.run("chmod +x vectors && ./vectors")
    same("the program ran", (result.code, result.err), (0, ""))
    has_, guest = take(result.out)
    ok("there is much to compare", len(guest) >= 500, len(guest))
    for feature in [name for name, there in has_.items() if there and not HOST_HAS[name]]:
        print(f"not compared: {feature}, which this host's processor lacks", flush=True)
    same("what the machine computes otherwise than the host", differing(HOST, guest), [])
    flags = s.run("grep -m1 -w -o -E 'svm|vmx' /proc/cpuinfo").out
    same("no virtual machines in virtual machines", flags, "")
    s.remove()


def archive(files):
    """An initrd: (name, mode, content, device)."""
    text = b""
    for number, (name, mode, content, device) in enumerate(files, 1):
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        text += head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)
    return text + bytes(-len(text) % 4096)


def boot(cpu):
    """What the program prints as the only one of an emulated machine with this processor."""
    initrd = f"{SCRATCH}/initrd"
    write(initrd, archive([("dev", 0o40755, b"", (0, 0)), ("dev/console", 0o20600, b"", (5, 1)),
                           ("init", 0o100755, read(VECTORS), (0, 0)),
                           ("TRAILER!!!", 0, b"", (0, 0))]))
    done = subprocess.run(
        ["qemu-system-x86_64", "-M", "microvm,acpi=on,pit=off,pic=off,rtc=on,isa-serial=on", "-accel", "tcg", "-cpu", cpu,
         "-m", "256", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
         "-serial", "stdio", "-kernel", KERNEL, "-initrd", initrd, "-append",
         "console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check mitigations=off "
         "tsc=reliable tsc_early_khz=2000000"],
        stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=2 * SOON)
    return done.stdout.decode(errors="replace")


def control():
    """That the comparison finds what is wrong, and that all this is needed with this QEMU."""
    spoilt = dict(HOST)
    spoilt["sse2", "paddb"] = "0" * 16
    same("one spoilt line is found", differing(HOST, spoilt), [("sse2", "paddb")])
    version = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, check=True,
                             text=True).stdout
    numbers = [int(n) for n in re.search(r"version (\d+)\.(\d+)", version).groups()]
    if not HOST_HAS["avx2"]:
        print("no control by gathers: this host's processor has none", flush=True)
        return
    wrong = [name for _, name in differing(HOST, take(boot("max"))[1])]
    if numbers < [9, 1]:
        for name in GATHERS:
            ok(f"with all that it offers, this QEMU gets {name} wrong", f"v256.{name}" in wrong, wrong)
    else:
        same("nothing is wrong with this QEMU, whatever it offers", wrong, [])


main(instructions, control)
