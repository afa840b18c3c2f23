# SPDX-License-Identifier: Apache-2.0
"""What package managers and git fetch, as files that a plain web server can serve: one package `demo` for each, and a second,
`closed`, which tests refuse."""

import base64
import hashlib
import io
import json
import os
import subprocess
import tarfile
import zipfile

NAMES = "demo", "closed"


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def make_pypi(top, name):
    """An index as PEP 503 has it, and a wheel."""
    info = f"{name}-1.0.dist-info"
    wheel = zipped({f"{name}.py": "word = 'of pip'\n", f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
                    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                    f"{info}/RECORD": f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"})
    file = f"{name}-1.0-py3-none-any.whl"
    put(f"{top}/pypi/files/{file}", wheel)
    put(f"{top}/pypi/simple/{name}/index.html",
        f"<!DOCTYPE html><a href='../../files/{file}#sha256={hashlib.sha256(wheel).hexdigest()}'>{file}</a>\n")


def make_npm(top, url, name):
    """What a registry says of a package, and its tarball."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for file, text in (("package.json", json.dumps({"name": name, "version": "1.0.0", "main": "index.js"})),
                           ("index.js", "module.exports = 'of npm'\n")):
            member = tarfile.TarInfo(f"package/{file}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    digest = base64.b64encode(hashlib.sha512(out.getvalue()).digest()).decode()
    put(f"{top}/npm/files/{name}-1.0.0.tgz", out.getvalue())
    dist = {"tarball": f"{url}/npm/files/{name}-1.0.0.tgz", "integrity": f"sha512-{digest}"}
    put(f"{top}/npm/{name}", json.dumps({"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {
        "1.0.0": {"name": name, "version": "1.0.0", "main": "index.js", "dist": dist}}}))


def make_go(top, name):
    """A module as GOPROXY serves it."""
    place, module = f"{top}/go/mod.test/{name}/@v", f"mod.test/{name}"
    put(f"{place}/list", "v1.0.0\n")
    put(f"{place}/v1.0.0.info", '{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}')
    put(f"{place}/v1.0.0.mod", f"module {module}\n")
    put(f"{place}/v1.0.0.zip", zipped({f"{module}@v1.0.0/go.mod": f"module {module}\n",
                                       f"{module}@v1.0.0/{name}.go": f"package {name}\n\nconst Word = \"of go\"\n"}))


def make_git(top, name):
    """A repository with a commit."""
    path, work = f"{top}/git/{name}.git", f"{top}/work.{name}"
    put(f"{work}/text", "of git\n")
    commit = ("-c", "user.name=x", "-c", "user.email=x@x.test", "commit", "-q", "-m", "first")
    for where, *words in ((".", "init", "-q", "--bare", "-b", "main", path), (".", "init", "-q", "-b", "main", work),
                          (work, "add", "."), (work, *commit), (work, "push", "-q", path, "main")):
        subprocess.run(["git", "-C", where, *words], check=True)


def make_all(top, url):
    """@url: of the server, which shows @top at its root."""
    for name in NAMES:
        make_pypi(top, name)
        make_npm(top, url, name)
        make_go(top, name)
        make_git(top, name)
