# SPDX-License-Identifier: Apache-2.0
"""For tests of packages: packages made by the test, a mirror of them, and mounts that use it."""

import base64
import hashlib
import io
import tarfile
import zipfile

from hosts import *

MIRROR = f"{SCRATCH}/mirror"
CACHE = f"{SCRATCH}/cache"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PACKAGES = f"{ROOT}/images/packages"

for path in MIRROR, CACHE:
    os.makedirs(path, exist_ok=True)
link_images(CACHE)


def wheel(name, version, files=None, requires=(), scripts=(), tag="py3-none-any", mirror=MIRROR):
    """A wheel of modules; `scripts` are NAME=MODULE:FUNCTION."""
    files = dict(files or {f"{name}.py": f"VERSION = {version!r}\n"})
    info = f"{name}-{version}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(
        f"Requires-Dist: {r}\n" for r in requires)
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: {tag}\n"
    if scripts:
        files[f"{info}/entry_points.txt"] = "[console_scripts]\n" + "\n".join(scripts) + "\n"
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        lines.append(f"{path},sha256={digest.decode()},{len(text.encode())}\n")
    files[f"{info}/RECORD"] = "".join(lines) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(f"{mirror}/{name}-{version}-{tag}.whl", "w") as file:
        for path, text in files.items():
            file.writestr(path, text)


def tarball(name, version, files, mirror=MIRROR, **fields):
    """A package of npm."""
    files = {"package.json": json.dumps({"name": name, "version": version, **fields}), **files}
    with tarfile.open(f"{mirror}/{name.lstrip('@').replace('/', '-')}-{version}.tgz", "w:gz") as file:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size = len(text.encode())
            file.addfile(entry, io.BytesIO(text.encode()))


def layers(cache=CACHE):
    """Names of the layers, and of what is being made."""
    try:
        return sorted(os.listdir(f"{cache}/layers"))
    except FileNotFoundError:
        return []


def offer(s, packages):
    """What `error` offers for packages without a version."""
    with raises(packages, errno.EINVAL):
        write(s / "config", f"packages = {packages}\n")
    has(f"{packages}: at once", s.text("error"), "is being looked up")
    ok(f"{packages}: an answer", wait_for(lambda: "being looked up" not in s.text("error"), 40),
       s.text("error"))
    return s.text("error").split("fix: ")[1].strip()


class Mount(Host):
    """One that installs from the mirror."""

    def __init__(self, name, conf="", packages=f"offline = {MIRROR}\npython_list = any\nnpm_list = any\n",
                 cache=CACHE, options=()):
        self.name = name
        super().__init__(name, f"{conf}\n[packages]\ninstaller = {PACKAGES}\n{packages}",
                         f"cache_dir={cache}", f"agent={os.path.abspath(BUILD)}/xsbx-agent", *options)

    def session(self, name, packages, template="python", more=""):
        return Session(name, template=template, config=f"packages = {packages}\n{more}", mnt=self.mnt)

    def events(self, kind="packages"):
        found = [json.loads(line) for line in read_ready(f"{self.mnt}/events").splitlines()]
        return [e for e in found if e.get("kind", e.get("event")) == kind]


__all__ = [name for name in dir() if not name.startswith("_")]
