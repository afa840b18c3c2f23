# SPDX-License-Identifier: Apache-2.0
"""Programs in a sandbox of an xsbxfs mount, from Python: what the adapters beside this share. Files are all it uses."""
import os
import shlex
import tempfile
import threading


OWN = None, "user", "1000"  # the names of a sandbox's own user


class Refused(Exception):
    """A program was not started, or how it ended is not known; .args[0] says why."""


def quote(word):
    return shlex.quote(os.fsdecode(word))


def read(path, limit=None):
    with open(path, "rb", buffering=0) as file:
        data = bytearray()
        while piece := file.read(1 << 20):
            if limit is None or len(data) <= limit:
                data += piece
        return bytes(data)


def write(path, data):
    with open(path, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view):]


def cause(directory):
    """What its `error` says."""
    text = read(f"{directory}/error").decode(errors="replace")
    return next((line[7:] for line in text.splitlines() if line.startswith("cause: ")), "no reason given")


class Session:
    def __init__(self, template, config=""):
        """@template: a directory of the mount, such as /sbx/shell; @config: lines for the session's `config`"""
        self.path = tempfile.mkdtemp(prefix="s", dir=template)
        if config:
            write(f"{self.path}/config", config.encode())

    def remove(self):
        os.rmdir(self.path)

    def has_root(self):
        return b"\nroot = yes\n" in b"\n" + read(f"{self.path}/config")

    def run(self, argv, stdin=None, cwd=None, env=None, user=None, timeout_s=0, limit=None, outputs=("stdout", "stderr")):
        """
        Runs a program. @stdin: bytes, or None; @user: any but the sandbox's own needs a template with `root = yes`;
        @limit: bytes of each output beyond which nothing is kept; @outputs: which are wanted, "output" is both in one.
        Return: (outputs..., exit status, state); raises Refused.
        """
        job = tempfile.mkdtemp(prefix="j", dir=f"{self.path}/jobs")
        try:
            if user not in (*OWN, "root"):
                argv = ["runuser", "-u", user, "--", *argv]
            lines = [f"argv = {' '.join(map(quote, argv))}", f"timeout_s = {timeout_s}"]
            lines += ["user = root"] if user not in OWN else []
            lines += [f"cwd = {cwd}"] if cwd else []
            lines += [f"env.{name} = {quote(value)}" for name, value in (env or {}).items()]
            write(f"{job}/config", "\n".join(lines).encode(errors="surrogateescape") + b"\n")
            return self.follow(job, stdin, limit, outputs)
        finally:
            os.rmdir(job)

    def follow(self, job, stdin, limit, wanted):
        feed = open(f"{job}/stdin", "wb", buffering=0) if stdin is not None else None
        outputs = {}
        write(f"{job}/ctl", b"start\n")
        readers = [threading.Thread(target=lambda name=name: outputs.update({name: read(f"{job}/{name}", limit)}))
                   for name in wanted]
        for reader in readers:
            reader.start()
        if feed:
            with feed:
                view = memoryview(stdin)
                try:
                    while view:
                        view = view[feed.write(view):]
                except BrokenPipeError:
                    pass  # it reads no more
        for reader in readers:
            reader.join()
        state = read(f"{job}/state").decode().strip()
        if state in ("lost", "refused") or len(outputs) < len(wanted):
            raise Refused(cause(job))
        return *(outputs[name] for name in wanted), int(read(f"{job}/exit_code")), state
