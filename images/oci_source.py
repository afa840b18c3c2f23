# SPDX-License-Identifier: Apache-2.0
"""One image out of what people have: an OCI layout, an archive of one, or what docker save wrote.

It becomes a layout with nothing but this image, of which all is copied and written anew: no links, no addresses from which
something would be fetched, no names in JSON that other readers might take for others, nothing packed as a whole.
"""
import hashlib
import json
import os
import posixpath
import re
import shutil

from oci_tar import LIMIT, GIB, MORE, PIECE, Bad, Reader, form_of, members, opened, show

ARCH = os.environ.get("XSBXFS_ARCH", "amd64")  # as Debian names it, and OCI does, too
JSON_MAX = 4 << 20
LAYERS = 256
FILES = 100_000  # in an archive
BLOB = re.compile(r"sha256:([0-9a-f]{64})")
OCI = "application/vnd.oci.image"
TYPES = {  # layers: how they are packed, and OCI's word for that
    f"{OCI}.layer.v1.tar": "plain",
    f"{OCI}.layer.v1.tar+gzip": "gzip",
    f"{OCI}.layer.v1.tar+zstd": "zstd",
    "application/vnd.docker.image.rootfs.diff.tar": "plain",
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "gzip",
}
KEYS = {one.lower(): one for one in ("schemaVersion", "mediaType", "config", "layers", "manifests", "digest", "size", "urls",
                                     "platform", "os", "architecture", "annotations", "fsLayers", "data")}


# ---- JSON ----

def small(path, what):
    with opened(path, what) as file:
        data = file.read(JSON_MAX + 1)
    if len(data) > JSON_MAX:
        raise Bad(f"{what} has more than {JSON_MAX >> 20} MiB")
    return data


def parsed(data, what, kind=dict, hook=None):
    try:
        found = json.loads(data.decode(), object_pairs_hook=hook)
    except (ValueError, RecursionError):
        raise Bad(f"{what} is no JSON") from None
    if not isinstance(found, kind):
        raise Bad(f"{what} is no JSON {'object' if kind is dict else 'list'}")
    return found


def of_type(found, key, kind, what, default=None):
    value = found.get(key)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Bad(f"{what}: \"{key}\" is not of the right type")
    return value


def texts(found, key, what):
    value = of_type(found, key, list, what, [])
    if not all(isinstance(v, str) for v in value):
        raise Bad(f"{what}: \"{key}\" is no list of strings")
    return value


def layer_form(descriptor, what):
    kind = of_type(descriptor, "mediaType", str, what, "")
    if kind not in TYPES:
        raise Bad(f"{what} is of the type \"{show(kind)}\", which is not known here",
                  "Layers are tar archives, plain or packed by gzip or zstd, and in the image itself.")
    return TYPES[kind]


def digest_of(descriptor, what):
    """The digest and the length that a descriptor names, if it may be followed."""
    if not isinstance(descriptor, dict):
        raise Bad(f"{what} has no descriptor")
    digest = of_type(descriptor, "digest", str, what, "")
    size = of_type(descriptor, "size", int, what, -1)
    if not BLOB.fullmatch(digest) or size < 0:
        raise Bad(f"{what}: its descriptor names no sha256 digest and length")
    if any(key.casefold() == "urls" and value for key, value in descriptor.items()):
        raise Bad(f"{what} would be fetched from an address that the image names, which is not done")
    return digest, size


class Layout:
    def __init__(self, path):
        self.path = path

    def blob(self, descriptor, what):
        """What a descriptor names, opened, and its digest and length."""
        digest, size = digest_of(descriptor, what)
        digest = digest[7:]
        file = opened(f"{self.path}/blobs/sha256/{digest}", f"{what}, sha256:{digest[:12]},")
        found = os.fstat(file.fileno()).st_size
        if found != size:
            raise Bad(f"{what} has {found} bytes and not the {size} that it should")
        return file, digest, size

    def json(self, descriptor, what):
        file, digest, size = self.blob(descriptor, what)
        with file:
            data = file.read(JSON_MAX + 1)
        if size > JSON_MAX or len(data) > JSON_MAX:
            raise Bad(f"{what} has more than {JSON_MAX >> 20} MiB")
        if hashlib.sha256(data).hexdigest() != digest:
            raise Bad(f"{what} is not what its digest says: sha256:{digest[:12]}")
        return parsed(data, what), digest


class Made:
    """The layout that is written. All of it together has a limit."""

    def __init__(self, path):
        self.path, self.left = path, LIMIT
        os.makedirs(f"{path}/blobs/sha256")

    def add(self, source, size, what):
        """A blob: `size` bytes of `source`. Returns its descriptor."""
        digest, left, part = hashlib.sha256(), size, f"{self.path}/blobs/part"
        self.left -= size
        if self.left < 0:
            raise Bad(f"the image has more than {LIMIT / GIB:g} GiB", MORE)
        with open(part, "xb") as file:
            while left:
                data = source.read(min(left, PIECE))
                if not data:
                    raise Bad(f"{what} ends before it should")
                digest.update(data)
                file.write(data)
                left -= len(data)
        os.rename(part, f"{self.path}/blobs/sha256/{digest.hexdigest()}")
        return {"digest": f"sha256:{digest.hexdigest()}", "size": size}

    def json(self, kind, value):
        data = json.dumps(value).encode()
        digest = hashlib.sha256(data).hexdigest()
        with open(f"{self.path}/blobs/sha256/{digest}", "wb") as file:
            file.write(data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    def end(self, config, layers):
        """The image is these blobs. Returns the manifest's digest."""
        kind = f"{OCI}.manifest.v1+json"
        one = self.json(kind, {"schemaVersion": 2, "mediaType": kind, "config": {"mediaType": f"{OCI}.config.v1+json", **config},
                               "layers": layers})
        for name, value in ("index.json", {"schemaVersion": 2, "manifests": [one]}), \
                ("oci-layout", {"imageLayoutVersion": "1.0.0"}):
            with open(f"{self.path}/{name}", "w", encoding="utf-8") as file:
                json.dump(value, file)
        return one["digest"]


# ---- one of several ----

def fits(name, tag):
    """Do people call it that? `registry.example/me/app:1.2` is app:1.2 and 1.2, too."""
    return any(name == one or name.endswith("/" + one) for one in (tag, tag + ":latest")) or \
        name.rpartition("/")[2].partition(":")[2] == tag


def choose(images, tag, what):
    """The index of the only one that TAG fits. `images`: the names of each."""
    names = [name for n, all in enumerate(images) for name in all[-1:] or [f"@{n}"]]
    listed = ": " + show(" ".join(names), 300) if names else ""
    if not tag:
        if len(images) == 1:
            return 0
        raise Bad(f"{what} has more than one image{listed}" if images else f"{what} has no image",
                  *["Choose one: --tag TAG"] * bool(images))
    fit = {n for n, all in enumerate(images) if tag in all or tag == f"@{n}"} or \
        {n for n, all in enumerate(images) if any(fits(name, tag) for name in all)}
    if len(fit) != 1:
        raise Bad(f"{what} has {'more than one' if fit else 'no'} image {show(tag)}{listed}", "Choose one: --tag TAG")
    return fit.pop()


def of_platform(found):
    """The descriptor in an index of several platforms that is for sandboxes; None if it is the manifest of an image."""
    if "manifests" not in found:
        return None
    if "config" in found or "layers" in found:
        raise Bad("the manifest can be read as that of an image and as a list of several")
    others = []
    for one in of_type(found, "manifests", list, "the index", []):
        platform = of_type(one, "platform", dict, "the index", {}) if isinstance(one, dict) else {}
        system, arch = (of_type(platform, key, str, "the index", "") for key in ("os", "architecture"))
        if (system, arch) == ("linux", ARCH):
            return one
        others.append(f"{system}/{arch}")
    raise Bad(f"the image is not for linux/{ARCH}, which sandboxes are, but for: {show(' '.join(others))}")


def for_platform(layout, descriptor):
    """The manifest that a descriptor leads to, by way of such lists, and its digest."""
    for _ in range(4):
        found, digest = layout.json(descriptor, "the manifest")
        descriptor = of_platform(found)
        if descriptor is None:
            return found, digest
    raise Bad("there are lists in lists of platforms")


def remote(path):
    """What a registry says of an image, before skopeo reads it: that takes names in JSON in any case, and of two the last."""
    def unmistakable(pairs):
        names = [name.casefold() for name, _ in pairs]
        if len(set(names)) < len(names) or any(KEYS.get(low, name) != name for low, (name, _) in zip(names, pairs)):
            raise Bad("the manifest has names that can be read in two ways")
        return dict(pairs)

    data = small(path, "the manifest")
    found = parsed(data, "the manifest", hook=unmistakable)
    one = of_platform(found)
    if one is not None:
        print(digest_of(one, "the manifest")[0], "index")
        return
    parts = [of_type(found, "config", dict, "the manifest"), *of_type(found, "layers", list, "the manifest", [])]
    if not 1 < len(parts) <= LAYERS + 1:
        raise Bad(f"the image has {len(parts) - 1} layers; 1 to {LAYERS} can be read")
    sizes = [digest_of(one, "a part of the image")[1] for one in parts]
    if sum(sizes) > LIMIT:
        raise Bad(f"the image has more than {LIMIT / GIB:g} GiB", MORE)
    # A layer that is not packed yet will be, which may add a little.
    print(f"sha256:{hashlib.sha256(data).hexdigest()}", (max(sizes) + max(sizes) // 64 >> 10) + 1024)


def from_layout(path, tag, to, name):
    """Returns the digest that the image has."""
    layout = Layout(path)
    index = parsed(small(f"{path}/index.json", "index.json"), "index.json")
    images, manifests = [], of_type(index, "manifests", list, "index.json", [])
    for one in manifests:
        notes = of_type(one, "annotations", dict, "index.json", {}) if isinstance(one, dict) else {}
        # The second is docker save's: the whole name, where the first is the tag alone.
        names = (notes.get(key) for key in ("org.opencontainers.image.ref.name", "io.containerd.image.name"))
        images.append([one for one in names if isinstance(one, str) and one])
    manifest, digest = for_platform(layout, manifests[choose(images, tag, name)])
    layers = of_type(manifest, "layers", list, "the manifest", [])
    if len(layers) > LAYERS:
        raise Bad(f"the image has {len(layers)} layers; 1 to {LAYERS} can be read")
    made, done = Made(to), {}

    def copy(descriptor, what):
        file, wanted, size = layout.blob(descriptor, what)
        with file:
            if wanted not in done:
                done[wanted] = made.add(file, size, what)
        if done[wanted]["digest"] != f"sha256:{wanted}":
            raise Bad(f"{what} is not what its digest says: sha256:{wanted[:12]}",
                      "The file is damaged, or was changed: get it again.")
        return done[wanted]

    config = copy(manifest.get("config"), "the configuration")
    listed = []
    for n, one in enumerate(layers, 1):
        copied = copy(one, f"layer {n}")
        listed.append({"mediaType": type_of(layer_form(one, f"layer {n}")), **copied})
    made.end(config, listed)
    return f"sha256:{digest}"


def type_of(form):
    return next(kind for kind, packed in TYPES.items() if packed == form)


# ---- archives ----

def inside(archive):
    """The members of an archive, with their names as paths. What it is packed by is counted."""
    file = opened(os.path.realpath(archive), archive)
    form = form_of(file)
    for n, (tar, member) in enumerate(members(Reader(file, form, archive, None if form == "plain" else [LIMIT]))):
        if n > FILES:
            raise Bad(f"{archive} has too many files to be an archive of an image")
        yield tar, member, posixpath.normpath(member.name)


def survey(archive):
    """Which names there are, what links say, and the list of docker save."""
    names, links, listed = set(), {}, None
    for tar, member, name in inside(archive):
        names.add(name)
        if member.issym():
            links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
        elif member.islnk():
            links[name] = posixpath.normpath(member.linkname)
        elif name == "manifest.json" and member.isreg():
            listed = tar.extractfile(member).read(JSON_MAX) if member.size <= JSON_MAX else b""
    return names, links, listed


def open_archive(archive, to):
    """The OCI layout in an archive."""
    made = Made(to)
    for tar, member, name in inside(archive):
        if member.isreg() and name in ("oci-layout", "index.json"):
            with open(f"{to}/{name}", "wb") as file:
                file.write(tar.extractfile(member).read(JSON_MAX + 1))
        elif member.isreg() and re.fullmatch(r"blobs/sha256/[0-9a-f]{64}", name):
            if made.add(tar.extractfile(member), member.size, name)["digest"][7:] != name[13:]:
                raise Bad(f"{archive}: {name[:25]} is not what its digest says",
                          "The file is damaged, or was changed: get it again.")


def from_saved(archive, tag, to, links, listed):
    """What docker save wrote before it wrote layouts."""
    images = parsed(listed, f"{archive}: manifest.json", list)
    if not all(isinstance(one, dict) for one in images):
        raise Bad(f"{archive}: manifest.json is no list of images")
    image = images[choose([texts(one, "RepoTags", "manifest.json") for one in images], tag, archive)]
    files = [of_type(image, "Config", str, "manifest.json", ""), *texts(image, "Layers", "manifest.json")]
    if len(files) > LAYERS + 1:
        raise Bad(f"the image has {len(files) - 1} layers; 1 to {LAYERS} can be read")
    for n, name in enumerate(files):
        name = posixpath.normpath(name)
        for _ in range(8):  # layers that are the same are links
            name = links.get(name, name)
        files[n] = name
    made, found = Made(to), {}
    for tar, member, name in inside(archive):
        if name in files and member.isreg():
            found[name] = made.add(tar.extractfile(member), member.size, name)
    for name in files:
        if name not in found:
            raise Bad(f"{archive} lacks a file that its manifest.json names: {show(name)}")
    layers = []
    for one in (found[name] for name in files[1:]):
        with opened(f"{to}/blobs/sha256/{one['digest'][7:]}", "a layer") as file:
            form = form_of(file)
        if form not in TYPES.values():
            raise Bad(f"a layer is packed by {form}", "Layers are tar archives, plain or packed by gzip or zstd.")
        layers.append({"mediaType": type_of(form), **one})
    return made.end(found[files[0]], layers)


def from_file(archive, tag, to):
    """Returns the digest that the image has."""
    names, links, listed = survey(archive)
    if {"oci-layout", "index.json"} <= names:
        opened_to = f"{to}.all"
        try:
            open_archive(archive, opened_to)
            return from_layout(opened_to, tag, to, archive)
        finally:
            shutil.rmtree(opened_to, ignore_errors=True)
    if "manifest.json" not in names:
        raise Bad(f"{archive} is no archive of an image: it has neither index.json nor manifest.json",
                  "Write one with: docker save IMAGE > FILE, or skopeo copy docker://... oci-archive:FILE")
    return from_saved(archive, tag, to, links, listed or b"")
