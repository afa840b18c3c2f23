# SPDX-License-Identifier: Apache-2.0
"""For tests of scripts/xsbx-remote: ways to a mount on another host, which is this one, and what is tried over them."""

import socket

from xsbx import *

SCRIPTS = f"{os.path.dirname(os.path.realpath(__file__))}/../../../scripts"
REMOTE = os.path.realpath(f"{SCRIPTS}/xsbx-remote")
FAR = f"{SCRATCH}/far"
LINES = "for i in 1 2 3; do echo step $i; sleep 0.3; done; exit 3\n"
SFTP_SERVER = next((p for p in ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server",
                                "/usr/lib/ssh/sftp-server") if os.path.exists(p)), None)


def command(text, **options):
    """Return (status, what it prints on both streams)."""
    done = subprocess.run(["bash", "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=SOON, **options)
    return done.returncode, done.stdout.decode(errors="replace")


class StandIn:
    """No ssh: what is called so here starts an SFTP server, which is OpenSSH's, on the spot."""
    host = "box"

    def __init__(self, server=SFTP_SERVER):
        need("sshfs")
        if not server:
            skip("there is no sftp-server on this host: apt-get install openssh-sftp-server")
        self.bin = f"{SCRATCH}/bin.{os.path.basename(server)}"
        os.mkdir(self.bin)
        # As ssh does with the words of a command, where it is asked for one.
        write(f"{self.bin}/ssh", f"#!/bin/bash\n[[ $* == *' sftp' ]] || exec bash -c \"${{@: -1}}\"\nexec {server} -e\n")
        os.chmod(f"{self.bin}/ssh", 0o755)
        self.server = os.path.basename(server)
        self.env = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}")
        self.options = ""

    def cut(self):
        """The connection is lost."""
        for pid in children_of(os.getppid()):
            if name_of(pid) == self.server[:15]:
                os.kill(pid, signal.SIGKILL)

    def close(self):
        pass


class Sshd:
    """OpenSSH, at a port of its own on loopback, for whoever runs this test and a key that is made for it."""
    host = "box"

    def __init__(self, subsystem=SFTP_SERVER):
        need("sshfs", "ssh", "ssh-keygen")
        if not os.path.exists("/usr/sbin/sshd"):
            skip("there is no sshd on this host: apt-get install openssh-server")
        if os.geteuid() == 0:
            # The place that it wants to exist; this mount namespace is the test's own.
            subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
            os.mkdir("/run/sshd", 0o755)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{SCRATCH}/{name}"], check=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        write(f"{SCRATCH}/sshd_config", f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {SCRATCH}/host\n"
              f"AuthorizedKeysFile {SCRATCH}/user.pub\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
              f"PidFile none\nSubsystem sftp {subsystem}\n")
        write(f"{SCRATCH}/ssh_config", f"Host box\nHostName 127.0.0.1\nPort {self.port}\nIdentityFile {SCRATCH}/user\n"
              f"IdentitiesOnly yes\nUserKnownHostsFile {SCRATCH}/known\nStrictHostKeyChecking no\nBatchMode yes\n")
        with open(f"{SCRATCH}/sshd.log", "wb") as log:
            self.process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", f"{SCRATCH}/sshd_config"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.env, self.options = dict(os.environ), f"-F {SCRATCH}/ssh_config"
        if not wait_for(lambda: command(f"ssh {self.options} box true", env=self.env)[0] == 0 or
                        self.process.poll() is not None, 10) or self.process.poll() is not None:
            skip(f"sshd lets nobody in here: {read(f'{SCRATCH}/sshd.log')[-300:]!r}")

    def cut(self):
        for pid in children_of(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self):
        self.cut()
        self.process.terminate()
        self.process.wait()


class Client:
    """One who has mounted it, over a way; or by `plain` sshfs with these options."""

    def __init__(self, way, path=FAR, far=MNT, plain=None):
        self.way, self.mnt = way, path
        os.makedirs(path, exist_ok=True)
        tool = f"{REMOTE} {way.options}" if plain is None else f"sshfs {way.options} {plain}"
        status, text = command(f"{tool} {way.host}:{far} {path} </dev/null", env=way.env)
        ok("mounted", status == 0, text)

    def sh(self, text):
        return command(text, env=dict(self.way.env, S=f"{self.mnt}/raw"))

    def close(self):
        # What it was asked last it answers in the background.
        status, text = 1, ""

        def gone():
            nonlocal status, text
            status, text = command(f"{REMOTE} -u {self.mnt}", env=self.way.env)
            return status == 0

        ok("unmounted", wait_for(gone, 5), text)


@contextlib.contextmanager
def client(*args, **options):
    it = Client(*args, **options)
    try:
        yield it
    finally:
        it.close()


def runs(way):
    with client(way) as c:
        os.mkdir(f"{c.mnt}/raw/runs")
        status, text = c.sh(f"cat > $S/runs/in <<'END'\n{LINES}END\ncat $S/runs/stdout $S/runs/exit_code")
        same("waits for all of it", (status, text), (0, "step 1\nstep 2\nstep 3\n3\n"))
        # What reads less than a request of sshfs is sees it as it comes.
        _, text = c.sh("echo 'echo first; sleep 600' > $S/runs/in; head -c 6 $S/runs/stdout; cat $S/runs/state")
        same("as it comes", text, "first\nrunning\n")
        _, text = c.sh("echo kill > $S/runs/ctl; cat $S/runs/exit_code")
        same("ctl", text, "137\n")
        _, text = c.sh("echo 'nonsense = 1' >> $S/runs/config || head -n 1 $S/runs/error; mkdir $S/runs; mktemp -qd "
                       "$S/XXXXXX | wc -l")
        for what in ("write error", "code: unknown-key", "File exists", "\n1\n"):
            has("refused", text, what)
        os.rmdir(f"{c.mnt}/raw/runs")
        ok("removed", not os.path.exists(f"{MNT}/raw/runs"))


def talks(way):
    with client(way) as c:
        code = "while read -r name; do echo hello $name; done; echo bye"
        _, text = c.sh(f"mkdir $S/talks && cd $S/talks && seq 4 > stdin && echo 'paste -sd+' > in && cat stdout; "
                       f"mkdir jobs/one; exec 3> jobs/one/stdin; echo '{code}' > jobs/one/in; echo you >&3; "
                       "head -c 10 jobs/one/stdout; exec 3>&-; cat jobs/one/stdout jobs/one/exit_code")
        same("stdin, a job", text, "1+2+3+4\nhello you\nhello you\nbye\n0\n")


def files(way):
    with client(way) as c:
        write(f"{SCRATCH}/data", os.urandom(3 << 20))
        status, text = c.sh(f"mkdir $S/files && cd $S/files && cp {SCRATCH}/data files/up && "
                            "echo 'sha256sum < up; cp up down; chmod +x down' > in && "
                            f"test \"$(cat stdout)\" = \"$(sha256sum < {SCRATCH}/data)\" && cmp {SCRATCH}/data files/down && "
                            "mv files/down files/moved && ln -s moved files/link && ls -F files | tr '\\n' ' '")
        same("up, down, moved", (status, text), (0, "link@ moved* up "))
        _, text = c.sh("cd $S/files && echo 'yes line | head -n 2000000' > in && cat stdout | md5sum && "
                       "yes line | head -n 2000000 | md5sum")
        one, two = text.splitlines()
        same("10 MB of output", one, two)


def together(way):
    with client(way) as one, client(way, f"{SCRATCH}/far2") as two:
        _, text = one.sh("mkdir $S/both; echo 'x=5; sleep 0.3; echo set' > $S/both/in")
        _, text = two.sh("cat $S/both/stdout; echo 'echo $((x + 1))' > $S/both/in")
        same("the other's run", text, "set\n")
        same("the first's, of the other's", one.sh("cat $S/both/stdout")[1], "6\n")
        # Who waits is in nobody's way, as long as there are connections.
        s = [Session(f"wait{n}") for n in range(6)]
        for session in s:
            session.submit("sleep 600\n")
            ok("runs", session.wait_state("running"))
        waiting = [subprocess.Popen(["cat", f"{one.mnt}/raw/wait{n}/stdout"], stdout=subprocess.PIPE) for n in range(6)]
        same("six wait, and others are served", one.sh("cat $S/both/stdout; cat $S/wait3/state")[1], "6\nrunning\n")
        same("they do wait", [w.poll() for w in waiting], [None] * 6)
        for session in s:
            session.ctl("kill")
        same("and end", [w.wait(SOON) for w in waiting], [0] * 6)


READER = """import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
try:
    while text := os.read(fd, 32768):
        print(text.decode(), end="", flush=True)
    print("the end")
except OSError as error:
    print(os.strerror(error.errno))
os._exit(0)
"""


def lost(way):
    """The connection goes in the middle of a read: an error, and not the end of the file, for which sshfs takes it."""
    s = Session("lost")
    for options in (None, "-o direct_io,no_readahead,reconnect"):
        c = Client(way, plain=options)
        s.submit("echo first; sleep 600\n")
        reader = subprocess.Popen([sys.executable, "-c", READER, f"{FAR}/raw/lost/stdout"], stdout=subprocess.PIPE)
        same("it reads", reader.stdout.readline(), b"first\n")
        ok("and waits, there", wait_for(lambda: s.json()["runs"]["waiting_reads"] == 1), s.json())
        way.cut()
        said, _ = reader.communicate(timeout=SOON)
        if options:
            same("control: sshfs alone", said, b"the end\n")
        else:
            ok("it fails", said in (b"Software caused connection abort\n", b"Transport endpoint is not connected\n"), said)
            with raises("nothing is read any more", errno.ENOTCONN):
                os.listdir(FAR)
            # Again, over what is left of it; nothing has happened to the session.
            status, text = command(f"{REMOTE} {way.options} {way.host}:{MNT} {FAR}", env=way.env)
            same("mounted again", (status, text), (0, ""))
            same("it goes on", read(f"{FAR}/raw/lost/state"), b"running\n")
        s.ctl("kill")
        ok("killed", s.wait_run(s.runs()[-1], "killed"))
        c.close()


def plain_fails(way):
    """Control: what the options of xsbx-remote are for."""
    s = Session("plain")
    with client(way, plain="-o follow_symlinks"):
        s.submit("sleep 0.5; echo hello\n")
        same("without them there is no output", read(f"{FAR}/raw/plain/stdout"), b"")
    same("here there is", read(s / "stdout"), b"hello\n")
    with client(way):
        s.submit("sleep 0.5; echo hello\n")
        same("nor with them nothing", read(f"{FAR}/raw/plain/stdout"), b"hello\n")


def words(way):
    """What is in the way is said, and nothing is left of it."""
    os.makedirs(FAR, exist_ok=True)
    os.makedirs(f"{SCRATCH}/no/mount", exist_ok=True)
    for args, what in ((f"{way.host}:{SCRATCH}/no/mount {FAR}", "is no mount of xsbxfs, and no part of one"),
                       (f"{way.host}:{SCRATCH}/nothing {FAR}", "No such file or directory"),
                       (f"{way.host}:{MNT} {SCRATCH}/nowhere", "is no directory"),
                       (f"-n 0 {way.host}:{MNT} {FAR}", "from 1 to 99"),
                       (f"-o nonsense {way.host}:{MNT} {FAR}", "unknown option"),
                       (f"-u {FAR}", "nothing is mounted at")):
        status, text = command(f"{REMOTE} {way.options} {args}", env=way.env)
        ok(f"{args}: fails", status == 1, status)
        has(args, text, what)
        ok("nothing is mounted", not mounted(FAR))
    status, text = command(f"{REMOTE} {way.options} {way.host}", env=way.env)
    same("usage", (status, text.split()[0]), (2, "usage:"))
    with client(way, far=f"{MNT}/raw"):
        status, text = command(f"{REMOTE} {way.options} {way.host}:{MNT} {FAR}", env=way.env)
        has("twice", text, "there is something mounted")


ALL = (runs, talks, files, together, lost, plain_fails, words)


def over(way, *tests):
    """The same, over this way, for main()."""
    def bound(test):
        def run():
            test(way)
        run.__name__ = test.__name__
        return run
    return [bound(test) for test in tests or ALL]
