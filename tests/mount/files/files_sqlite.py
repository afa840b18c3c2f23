#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""files/: one SQLite database, written by this host and by the sandbox at once, loses nothing."""
# timeout: 120
# backends: local vm
import signal
import sqlite3
import sys

from xsbx import *

need_language("python")
TRANSACTIONS = int(os.environ.get("TRANSACTIONS", "60"))

# The same on both sides. Each insert is a transaction of its own; what was committed is counted. With @alone
# a connection has the database to itself, for so many transactions; whose turn it is, another file's lock says,
# for two that wait to be alone would wait for each other.
WRITER = """
import contextlib, fcntl, sqlite3
@contextlib.contextmanager
def turn(path, alone):
    if not alone:
        yield
        return
    with open(path + ".turn", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

def insert(path, who, count, timeout=300, alone=0):
    done = 0
    while done < count:
        with turn(path, alone):
            db = sqlite3.connect(path, timeout=timeout, isolation_level=None)
            try:
                if alone:
                    db.execute("pragma locking_mode = exclusive")
                for n in range(min(alone or count, count - done)):
                    db.execute("begin immediate")
                    last = db.execute("select coalesce(max(n), 0) from t").fetchone()[0]
                    db.execute("insert into t values (?, ?, ?)", (last + 1, who, "x" * (n % 700)))
                    db.execute("commit")
                    done += 1
            finally:
                db.close()
    return done
"""

# A program that is killed with one transaction done, left in the log, and one begun.
KILLED = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma locking_mode = exclusive")
for end in "commit", "select 1":
    db.execute("begin immediate")
    db.execute("insert into t values ((select coalesce(max(n), 0) from t) + 1, ?, '')", (sys.argv[2],))
    db.execute(end)
os.kill(os.getpid(), signal.SIGKILL)
"""

exec(WRITER)


def look(path):
    db = sqlite3.connect(path, timeout=300)
    try:
        db.execute("pragma locking_mode = exclusive")
        return (db.execute("pragma integrity_check").fetchone()[0],
                db.execute("select count(*), count(n), max(n) from t").fetchone(),
                db.execute("select count(*) from t where who = 'host'").fetchone()[0])
    finally:
        db.close()


S = None


def setup():
    global S
    S = Session("sqlite", "python", "timeout_s = 3000\n")
    same("the sandbox's functions", S.run(WRITER).err, "")


def database(name, mode):
    got = S.run(f"""
db = sqlite3.connect("{name}", isolation_level=None)
print(db.execute("pragma journal_mode = {mode}").fetchone()[0])
db.execute("create table t (n integer primary key, who text, filler text)")
db.close()
""")
    same(f"{name}: made", (got.out, got.err), (mode + "\n", ""))
    return S / f"files/{name}"


def both_at_once(mode, alone=0):
    """Each transaction takes the next number: had one been lost or doubled, the numbers would show it."""
    half, name = TRANSACTIONS // 2, f"{mode}.db"
    path = database(name, mode)
    S.submit(f"print(insert('{name}', 'sandbox', {half}, alone={alone}))\n")
    mine = insert(path, "host", half, alone=alone)  # noqa: F821
    got = S.result()
    same(f"{mode}: the sandbox's", (got.out, got.err), (f"{half}\n", ""))
    same(f"{mode}: all of them, whole", look(path), ("ok", (2 * half,) * 3, mine))


def rollback():
    for mode in ("delete", "truncate", "persist"):
        both_at_once(mode)


def wal_inside():
    """The sandbox's programs share memory: a write-ahead log is theirs as anywhere."""
    half, path = TRANSACTIONS // 2, database("inside.db", "wal")
    got = S.run(f"""
import os
child = os.fork()
done = insert("inside.db", "child" if child == 0 else "parent", {half})
if child == 0:
    os._exit(done != {half})
print(done, os.waitpid(child, 0)[1])
""")
    same("two programs", (got.out, got.err), (f"{half} 0\n", ""))
    same("all of theirs, whole", look(path), ("ok", (2 * half,) * 3, 0))


def wal_shared():
    """The log's index is shared memory, which two kernels have not: this side is refused, with an error and
    not with a guess, and nothing is lost."""
    path = database("shared.db", "wal")
    S.run("insert('shared.db', 'sandbox', 5)\nkept = sqlite3.connect('shared.db')\n"
          "kept.execute('select count(*) from t').fetchall()\n")
    for what, alone, words in (("beside it", 0, "disk I/O error"), ("alone", 5, "database is locked")):
        try:
            insert(path, "host", 1, timeout=0.5, alone=alone)  # noqa: F821
            fail(what, "a shared index was given")
        except sqlite3.OperationalError as error:
            same(what, str(error), words)
    got = S.run("print(insert('shared.db', 'sandbox', 5))\nkept.close()\n")
    same("the sandbox goes on", (got.out, got.err), ("5\n", ""))
    db = sqlite3.connect(path, timeout=5, isolation_level=None)
    same("alone", db.execute("pragma locking_mode = exclusive").fetchone()[0], "exclusive")
    db.execute("insert into t values (11, 'host', '')")
    got = S.run("try:\n  sqlite3.connect('shared.db', timeout=0.1).execute('select count(*) from t')\n"
                "except sqlite3.OperationalError as e: print(e)\n")
    same("the sandbox is kept out", got.out, "database is locked\n")
    db.close()
    got = S.run("db = sqlite3.connect('shared.db')\nprint(db.execute('select count(*), max(n) from t')"
                ".fetchone(), db.execute('pragma integrity_check').fetchone())\ndb.close()\n")
    same("and sees all of it", (got.out, got.err), ("(11, 11) ('ok',)\n", ""))


def wal_in_turn():
    """Whoever has the database alone needs no index; see insert() for the turns."""
    both_at_once("wal", alone=5)


def wal_killed():
    """What a killed program left in the log is the other side's, if it was committed."""
    path = database("killed.db", "wal")
    killed = subprocess.run([sys.executable, "-c", KILLED, path, "host"], check=False).returncode
    same("killed here", killed, -signal.SIGKILL)
    got = S.run(f"""
import subprocess, sys
print(insert("killed.db", "sandbox", 1))
print(subprocess.run([sys.executable, "-c", {KILLED!r}, "killed.db", "sandbox"]).returncode)
""")
    same("killed inside", (got.out, got.err), ("1\n-9\n", ""))
    same("the log is there", os.path.getsize(f"{path}-wal") > 0, True)
    same("and used here", insert(path, "host", 1, alone=1), 1)  # noqa: F821
    same("whole", look(path), ("ok", (4, 4, 4), 2))


main(setup, rollback, wal_inside, wal_shared, wal_in_turn, wal_killed)
