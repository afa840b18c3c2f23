#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""files/: one SQLite database, written by this host and by the sandbox at once, loses nothing."""
# timeout: 120
# backends: local vm
import sqlite3

from xsbx import *

need_language("python")
TRANSACTIONS = int(os.environ.get("TRANSACTIONS", "60"))

# The same on both sides. Each insert is a transaction of its own; what was committed is counted.
WRITER = """
import sqlite3
def insert(path, who, count, timeout=300):
    done, db = 0, sqlite3.connect(path, timeout=timeout, isolation_level=None)
    try:
        for n in range(count):
            db.execute("begin immediate")
            last = db.execute("select coalesce(max(n), 0) from t").fetchone()[0]
            db.execute("insert into t values (?, ?, ?)", (last + 1, who, "x" * (n % 700)))
            db.execute("commit")
            done += 1
    finally:
        db.close()
    return done
"""

exec(WRITER)


def look(path):
    db = sqlite3.connect(path, timeout=300)
    try:
        return (db.execute("pragma integrity_check").fetchone()[0],
                db.execute("select count(*), count(n), max(n) from t").fetchone(),
                db.execute("select count(*) from t where who = 'host'").fetchone()[0])
    finally:
        db.close()


def database(name, mode):
    s = Session(name, "python", "timeout_s = 3000\n")
    got = s.run(WRITER + f"""
db = sqlite3.connect("d.db", isolation_level=None)
print(db.execute("pragma journal_mode = {mode}").fetchone()[0])
db.execute("create table t (n integer primary key, who text, filler text)")
db.close()
""")
    same(f"{mode}: made", (got.out, got.err), (mode + "\n", ""))
    return s


def both_at_once(mode):
    """Each transaction takes the next number: had one been lost or doubled, the numbers would show it."""
    s, half = database(mode, mode), TRANSACTIONS // 2
    path = s / "files/d.db"
    s.submit(f"print(insert('d.db', 'sandbox', {half}))\n")
    mine = insert(path, "host", half)  # noqa: F821
    same(f"{mode}: the sandbox's", s.result().out, f"{half}\n")
    same(f"{mode}: all of them, whole", look(path), ("ok", (2 * half,) * 3, mine))
    s.remove()


def rollback():
    for mode in ("delete", "truncate", "persist"):
        both_at_once(mode)


def wal():
    """A write-ahead log has an index in shared memory. Two kernels have none: this side is refused, in words,
    and nothing is lost; alone, without the index, it may."""
    s = database("wal", "wal")
    path = s / "files/d.db"
    s.run("insert('d.db', 'sandbox', 5)\nkept = sqlite3.connect('d.db')\n"
          "kept.execute('select count(*) from t').fetchone()\n")
    try:
        insert(path, "host", 1, timeout=0.5)  # noqa: F821
        fail("a shared index was given")
    except sqlite3.OperationalError:
        pass
    got = s.run("print(insert('d.db', 'sandbox', 5))\nkept.close()\n")
    same("the sandbox goes on", (got.out, got.err), ("5\n", ""))
    db = sqlite3.connect(path, timeout=5, isolation_level=None)
    same("alone", db.execute("pragma locking_mode = exclusive").fetchone()[0], "exclusive")
    db.execute("insert into t values (11, 'host', '')")
    got = s.run("try:\n  sqlite3.connect('d.db', timeout=0.1).execute('select count(*) from t')\n"
                "except sqlite3.OperationalError as e: print(e)\n")
    same("the sandbox is kept out", got.out, "database is locked\n")
    db.close()
    got = s.run("db = sqlite3.connect('d.db')\nprint(db.execute('select count(*), max(n) from t')"
                ".fetchone(), db.execute('pragma integrity_check').fetchone())\n")
    same("and sees all of it", (got.out, got.err), ("(11, 11) ('ok',)\n", ""))


main(rollback, wal)
