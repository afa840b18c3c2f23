#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JavaScript and TypeScript programs, in a table: what is run, and what must come out of it."""
# timeout: 150
# backends: local vm
from tables import *

# name, code, stdout (text, or a pattern), exit status, pattern of stderr ("" means none at all)
CASES = [
    ("hello", "console.log(6*7)", "42\n", 0, ""),
    ("comment", "// nothing", "", 0, ""),
    ("white space", "  \n\t\n", "", 0, ""),
    ("byte order mark", "\ufeffconsole.log('bom')", "bom\n", 0, ""),
    ("unicode", "console.log('café 你好 \U0001f600')", "café 你好 \U0001f600\n", 0, ""),
    ("stderr", "console.error('e')", "", 0, r"^e\n$"),
    ("both", "for (let i = 0; i < 100; i++) { console.log(i); console.error(i) }",
     "".join(f"{i}\n" for i in range(100)), 0, "^0\n.*99\n$"),
    ("process.stdout.write", "process.stdout.write('no newline')", "no newline", 0, ""),
    ("1 MB", "console.log('x'.repeat(1000000))", "x" * 1000000 + "\n", 0, ""),
    ("10,000 lines", "for (let i = 0; i < 10000; i++) console.log(i)",
     re.compile("^0\n.*\n9999\n$", re.S), 0, ""),
    ("binary", "process.stdout.write(Buffer.from([255, 0, 10]))", "\ufffd\0\n", 0, ""),
    # errors and exits
    ("throw", "console.log('before'); throw new Error('boom')", "before\n", 1, r"boom"),
    ("syntax error", "let = = 3", "", 1, r"."),
    ("undefined name", "console.log(nosuch)", "", 1, r"nosuch"),
    ("missing module", "await import('no-such-module')", "", 1, r"no-such-module"),
    ("require of a missing module", "require('./nothing')", "", 1, r"nothing"),
    ("unhandled rejection", "Promise.reject(new Error('rejected'))", "", 1, r"rejected"),
    ("process.exit(3)", "console.log('a'); process.exit(3); console.log('b')", "a\n", 3, ""),
    ("process.exit()", "process.exit()", "", 0, ""),
    ("process.exit(256)", "process.exit(256)", "", 0, ""),
    ("process.exit(-1)", "process.exit(-1)", "", 255, ""),
    ("process.exitCode", "process.exitCode = 4", "", 4, ""),
    ("... does not stick", "console.log('x')", "x\n", 0, ""),
    ("exit in a callback", "setTimeout(() => process.exit(6), 20); await new Promise(() => {})", "", 6,
     None),
    ("caught", "try { null.x } catch (e) { console.log(e instanceof TypeError) }", "true\n", 0, ""),
    ("... and alive", "console.log('alive')", "alive\n", 0, ""),
    # asynchronous
    ("top-level await", "const v = await Promise.resolve(5); console.log(v)", "5\n", 0, ""),
    ("a timer does not hold up the run", "setTimeout(() => { globalThis.fired = 'fired' }, 50); "
     "console.log('now')", "now\n", 0, ""),
    ("... and goes on", "await new Promise(r => setTimeout(r, 200)); console.log(fired)", "fired\n", 0, ""),
    ("await waits", "await new Promise(r => setTimeout(() => { console.log('later'); r() }, 50))",
     "later\n", 0, ""),
    ("async function", "async function f() { await 1; return 7 }; console.log(await f())", "7\n", 0, ""),
    ("Promise.all", "console.log(await Promise.all([1, Promise.resolve(2)]))", "[ 1, 2 ]\n", 0, ""),
    ("performance", "console.log(typeof performance.now())", "number\n", 0, ""),
    # state
    ("const", "const c = 1; let l = 2; var v2 = 3; function fn() { return c + l }; class K { x = 9 }",
     "", 0, ""),
    ("... last", "console.log(c, l, v2, fn(), new K().x)", "1 2 3 3 9\n", 0, ""),
    ("changed", "l = 20; console.log(fn())", "21\n", 0, ""),
    ("... still", "console.log(l)", "20\n", 0, ""),
    ("declared again", "const c = 100; console.log(c)", "100\n", 0, ""),
    ("destructuring", "const {p, q: [r]} = {p: 1, q: [2]}; console.log(p, r)", "1 2\n", 0, ""),
    ("... lasts", "console.log(p + r)", "3\n", 0, ""),
    ("state after an exception", "var kept = 'yes'; throw 1", "", 1, None),
    ("... is kept", "console.log(kept)", "yes\n", 0, ""),
    ("import", "import fs from 'fs'; import { join } from 'path'; console.log(join('a', 'b'))", "a/b\n",
     0, ""),
    ("... lasts", "console.log(typeof fs.readFileSync, join('c', 'd'))", "function c/d\n", 0, ""),
    ("dynamic import", "const os = await import('os'); console.log(typeof os.cpus)", "function\n", 0, ""),
    ("destructured", "const { basename } = await import('path'); console.log(basename('/a/b'))", "b\n", 0,
     ""),
    ("computed specifier", "const m = 'pa' + 'th'; console.log(typeof (await import(m)).join)",
     "function\n", 0, ""),
    ("import in a function", "async function g() { return (await import('path')).sep }\n"
     "console.log(await g())", "/\n", 0, ""),
    ("require", "const u = require('util'); console.log(u.inspect([1]))", "[ 1 ]\n", 0, ""),
    ("import text in a string", "console.log(\"import('x') from 'y'\")", "import('x') from 'y'\n", 0, ""),
    ("a function with import in its name", "function reimport() { return 1 }; console.log(reimport())",
     "1\n", 0, ""),
    # TypeScript
    ("annotation", "const n: number = 5; console.log(n)", "5\n", 0, ""),
    ("interface", "interface P { x: number }\nconst pt: P = { x: 1 }; console.log(pt.x)", "1\n", 0, ""),
    ("... used again", "const pt2: P = { x: 2 }; console.log(pt2.x)", "2\n", 0, ""),
    ("generic function", "function id<T>(x: T): T { return x }; console.log(id<string>('s'))", "s\n", 0,
     ""),
    ("enum", "enum Color { Red, Green = 5 }; console.log(Color.Green, Color[0])", "5 Red\n", 0, ""),
    ("alias", "type N = number | string; const al: N = 'x'; console.log(al)", "x\n", 0, ""),
    ("as", "console.log(('5' as any) * 2)", "10\n", 0, ""),
    ("generic arrow", "const ga = <T,>(x: T): T => x; console.log(ga(3))", "3\n", 0, ""),
    ("optional chaining", "const oc: { a?: { b: number } } = {}; console.log(oc.a?.b ?? 'none')", "none\n",
     0, ""),
    ("types only", "type A1 = string; interface B1 {}", "", 0, ""),
    ("await with types", "const aw: number = await Promise.resolve(3); console.log(aw)", "3\n", 0, ""),
    ("nested generics", "const mm: Map<string, Array<number>> = new Map(); console.log(mm.size)", "0\n", 0,
     ""),
    ("invalid TypeScript", "const x: = 5", "", 1, r"."),
    # standard input
    ("stdin", "console.log(await Bun.stdin.text())", "\n", 0, ""),
    ("process.stdin.read", "console.log(process.stdin.read())", "null\n", 0, ""),
    ("... afterwards", "console.log('fine')", "fine\n", 0, ""),
    # files and processes
    ("files", "require('fs').writeFileSync('f.txt', 'data'); "
     "console.log(require('fs').readFileSync('f.txt', 'utf8'))", "data\n", 0, ""),
    ("child process", "console.log(require('child_process').execSync('echo hi').toString())", "hi\n\n", 0,
     ""),
    ("JSON", "console.log(JSON.stringify({ a: [1, { b: 2 }] }))", '{"a":[1,{"b":2}]}\n', 0, ""),
    ("big integers", "console.log((2n ** 64n).toString())", "18446744073709551616\n", 0, ""),
    # what is written to another file is not code of this one
    ("a program in a text", "await Bun.write('main.c', `int main(void) {\n  int a;\n  init();\n  }\n`)", "", 0, ""),
    ("... as it was", "console.log(await Bun.file('main.c').text())",
     "int main(void) {\n  int a;\n  init();\n  }\n\n", 0, ""),
    # names the driver might use
    ("names", "var code = 1, status = 2, result = 3, nonce = 4, ctl = 5, driver = 6", "", 0, ""),
    ("... are kept", "console.log(code, status, result, nonce, ctl, driver)", "1 2 3 4 5 6\n", 0, ""),
    ("console replaced", "var old = console.log; console.log = () => {}; console.log('hidden')", "", 0, ""),
    ("... and restored", "console.log = old; console.log('shown')", "shown\n", 0, ""),
]


def table():
    need_language("javascript")
    s = Session("table", "javascript")
    run_table(s, CASES)
    write(s / "stdin", b"given\n")
    same("/dev/stdin that was given",
         s.run("console.log(require('fs').readFileSync('/dev/stdin', 'utf8'))").out, "given\n\n")
    if VM:
        same("cwd and HOME", s.run("console.log(process.cwd(), process.env.HOME)").out,
             "/home/user /home/user\n")


main(table)
