# SPDX-License-Identifier: Apache-2.0
"""Images of the Open Container Initiative, made by hand, so that they can be wrong in every way."""
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile

OCI = "application/vnd.oci.image"


def entry(name, data=b"", **more):
    """A member of a layer: a file with `data`, or what `type` says."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o755
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def folder(name, **more):
    return entry(name, type=tarfile.DIRTYPE, **more)


def link(name, to, **more):
    return entry(name, type=tarfile.SYMTYPE, linkname=to, **more)


def layer(*entries):
    """A layer as a tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zstd(data):
    return subprocess.run(["zstd", "-qc"], input=data, stdout=subprocess.PIPE, check=True).stdout


PACKERS = {"": lambda data: data, "+gzip": lambda data: gzip.compress(data, 1), "+zstd": zstd}


class Layout:
    """An OCI layout in a directory; image() adds one."""

    def __init__(self, path):
        self.path, self.manifests = path, []
        os.makedirs(f"{path}/blobs/sha256")
        with open(f"{path}/oci-layout", "w") as file:
            json.dump({"imageLayoutVersion": "1.0.0"}, file)

    def blob(self, data, kind):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        digest = hashlib.sha256(data).hexdigest()
        with open(f"{self.path}/blobs/sha256/{digest}", "wb") as file:
            file.write(data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    def image(self, layers, config=None, packed="+gzip", tag=None, arch="amd64", change=None):
        """Adds an image. `change`: a function that may spoil the manifest and the configuration."""
        content = {"architecture": arch, "os": "linux", "config": config or {}, "rootfs": {
            "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(one).hexdigest() for one in layers]}}
        manifest = {"schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "layers": [
            self.blob(PACKERS[packed](one), f"{OCI}.layer.v1.tar{packed}") for one in layers]}
        if change:
            change(manifest, content)
        manifest["config"] = self.blob(content, f"{OCI}.config.v1+json")
        found = self.blob(manifest, f"{OCI}.manifest.v1+json")
        if tag:
            found["annotations"] = {"org.opencontainers.image.ref.name": tag}
        found["platform"] = {"architecture": arch, "os": "linux"}
        self.manifests.append(found)
        self.write(self.manifests)
        return found

    def write(self, manifests):
        with open(f"{self.path}/index.json", "w") as file:
            json.dump({"schemaVersion": 2, "manifests": manifests}, file)

    def index(self, tag=None):
        """All that was added becomes one image for several platforms."""
        kind = f"{OCI}.index.v1+json"
        found = self.blob({"schemaVersion": 2, "mediaType": kind, "manifests": self.manifests}, kind)
        if tag:
            found["annotations"] = {"org.opencontainers.image.ref.name": tag}
        self.write([found])

    def tar(self, path):
        with tarfile.open(path, "w") as tar:
            for name in "oci-layout", "index.json", "blobs":
                tar.add(f"{self.path}/{name}", name)


def save(path, **images):
    """What docker save wrote before it wrote layouts. `images`: a layer, a configuration and its names, for each."""
    files, listed = [], []
    for name, (one, config, *tags) in images.items():
        files += entry(f"{name}/layer.tar", one), entry(f"{name}.json", json.dumps(
            {"architecture": "amd64", "os": "linux", "config": config, "rootfs": {
                "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(one).hexdigest()]}}).encode())
        listed.append({"Config": f"{name}.json", "RepoTags": tags or None, "Layers": [f"{name}/layer.tar"]})
    with open(path, "wb") as file:
        file.write(layer(*files, entry("manifest.json", json.dumps(listed).encode())))


def busybox(*more):
    """A layer as small images have it: busybox alone, under all its names."""
    with open(shutil.which("busybox"), "rb") as file:
        program = file.read()
    names = subprocess.run(["busybox", "--list"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    return layer(folder("bin"), folder("etc"), folder("root", mode=0o700), folder("tmp", mode=0o1777),
                 entry("bin/busybox", program, mode=0o4755),
                 entry("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\napp:x:10001:10002::/srv:/bin/sh\n", mode=0o644),
                 entry("etc/group", b"root:x:0:\nstaff:x:10002:\n", mode=0o644),
                 *(link(f"bin/{name}", "busybox") for name in names if name != "busybox"), *more)
