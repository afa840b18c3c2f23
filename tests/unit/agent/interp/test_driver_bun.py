#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The driver of JavaScript, images/drivers/repl.mjs, without a sandbox. Usage: see driver_fixture.py."""

import fcntl
import os
import socket
import struct
import sys
import tempfile
import termios
import time

from driver_fixture import DEADLINE, SCRATCH, WARM, DriverCase, buns, main


class BunCases(DriverCase):
    """Everything about repl.mjs."""

    bell = True

    def test_basics(self):
        s = self.session()
        self.assertRegex(s.version, r'^Bun 1\.')
        self.expect(s, '', '', 0, '')
        self.expect(s, '// comment only', '', 0, '')
        self.expect(s, 'console.log(6*7)', '42\n', 0, '')
        self.expect(s, '6*7', '', 0, '')
        self.expect(s, '\ufeffconsole.log("bom")', 'bom\n')
        self.expect(s, '#!/usr/bin/env bun\nconsole.log("sharp")', 'sharp\n')
        self.expect(s, 'console.log("caf\u00e9 \u4f60\u597d\\t\\x1b[31m\\0")', 'café 你好\t\x1b[31m\0\n')
        self.expect(s, 'const é = 1; console.log(é, typeof performance.now())', '1 number\n')
        self.expect(s, 'console.log("a"); console.error("b"); console.log({x: [1]})', 'a\n{\n  x: [ 1 ],\n}\n',
                    0, b'b\n')

    def test_state_is_kept(self):
        s = self.session()
        self.expect(s, 'let x = 1; const y = 2; var z = 3; function f() { return x } class C { v = 5 }')
        self.expect(s, 'x++; console.log(x, y, z, f(), new C().v)', '2 2 3 2 5\n')
        self.expect(s, 'let x = 10; const y = 20; class C { v = 6 }; console.log(f(), y, new C().v)', '10 20 6\n')
        self.expect(s, 'throw new Error("no")', status=1)
        self.expect(s, 'x += 1; process.exit(3); x += 100', status=3)
        self.expect(s, 'x = = 1', status=1)
        self.expect(s, 'console.log(x)', '11\n')
        self.expect(s, 'const {a, b: [c, ...d]} = {a: 1, b: [2, 3, 4]}', '')
        self.expect(s, 'console.log(a, c, d.join())', '1 2 3,4\n')
        self.expect(s, 'import fs, { readFileSync as rf } from "fs"; import * as path from "node:path"')
        self.expect(s, 'console.log(typeof fs.statSync, typeof rf, path.join("a", "b"))', 'function function a/b\n')
        self.expect(s, 'const os = require("os"); process.chdir("/usr"); process.env.A = "b"')
        self.expect(s, 'console.log(os.EOL === "\\n", process.cwd(), process.env.A)', 'true /usr b\n')

    def test_functions_are_global(self):
        s = self.session()
        self.expect(s, 'function parse() { return "old" }\nfunction main() { return parse() }')
        self.expect(s, 'function parse() { return "new" }\nconsole.log(main())', 'new\n')
        self.expect(s, 'await 1; function parse() { return "newer" }\nconsole.log(main())', 'newer\n')
        self.expect(s, 'await 1\nasync function tick() { return `\n  }\n${parse()}` }\n'
                    'function* gen() { yield 1 }\nasync function* agen() { yield 2 }\nlate()\n'
                    'function late() { console.log("hoisted", [...gen()]) }', 'hoisted [ 1 ]\n')
        self.expect(s, 'await 1; function parse() { return "newest" }\nconsole.log(await tick())', '\n  }\nnewest\n')
        self.expect(s, 'console.log(this === globalThis, typeof arguments)', 'true undefined\n')

    def test_values_are_awaited(self):
        s = self.session()
        self.expect(s, 'const sleep = (ms: number) => new Promise(r => setTimeout(r, ms))')
        self.expect(s, 'await sleep(20); console.log("after")', 'after\n')
        self.expect(s, 'sleep(50).then(() => console.log("then"))', 'then\n')
        self.expect(s, 'main()\nasync function main() { await sleep(50); console.log("main") }', 'main\n')
        self.expect(s, 'async function main2() {\n  await sleep(50); console.log("main2")\n}\nmain2();', 'main2\n')
        self.expect(s, 'for await (const v of [sleep(5).then(() => 1), 2]) console.log(v)', '1\n2\n')
        self.expect(s, 'const r = await Promise.all([1, sleep(10).then(() => 2)]); console.log(r)', '[ 1, 2 ]\n')
        self.expect(s, 'console.log(r.length)', '2\n')
        self.expect(s, 'await (async () => { throw new Error("inner") })()', status=1, err='inner')

    def test_declarations_are_not_awaited(self):
        s = self.session()
        self.expect(s, 'const never = () => new Promise(() => {}), after = (ms: number) => Bun.sleep(ms)')
        for code in ('const loop = never()', 'let loop: Promise<any> = never();', 'var a = 1, loop = never()', 'await 1\nconst loop = never()',
                     'const loop = never()\nfunction f() {}', 'await 1; const loop = never()\nfunction f() {}',
                     'export const loop = never()', 'const loop = never(); export { loop }',
                     'const loop = (async () => {\n  for (;;) {\n    await Bun.sleep(50)\n  }\n})()',
                     'const a = {\n  x: 1\n}, loop = never()', 'const {\n  loop,\n  a\n} = { loop: never(), a: 1, then() {} }',
                     'const { loop } = { loop: never(), then() {} }', 'const loop = never(/*!\nconst\n*/), b: number = 2',
                     'const text = `\nloop = never()\n`, loop = never()'):
            self.expect(s, code, '', 0, '')
            self.expect(s, 'console.log(loop instanceof Promise)', 'true\n')
        for code in ('let done; done = after(50).then(() => console.log("done"))', 'done = after(50).then(() => console.log("done"))',
                     'let q; ({ q } = after(50).then(() => console.log("done")))',
                     'let done = 1\ndone = after(50).then(() => console.log("done"))',
                     'await 1\nlet done\ndone = after(50).then(() => console.log("done"))'):
            self.expect(s, code, 'done\n', 0, '')
        self.expect(s, 'const name = () => 1\nfunction f() {}')
        self.expect(s, 'console.log(name.name)', 'name\n')

    def test_texts_are_left_alone(self):
        """Lines of a text that look like what the transpiler puts out."""
        s = self.session()
        s.run('const texts = []; const say = (text: string) => { texts.push(text) }')
        texts = ('#include <stdio.h>\n  int main(void) {\n    printf("hi");\n  }\n  init();\n',
                 'a\n  function f() {\n  }\n  this.f = f;\n  async function g() {\n  }\n  f();',
                 '  export const x = 1\n\n  export default x\n  default x\n  export {\n  a\n  };\nexport y',
                 '\n  return {\n    __proto__: null,\n    value: 1\n  };\n  init();\n  };\n',
                 '\n  __dirname = "";\n  __filename = "input.ts";\n  say();',
                 '\n  \\`\\`\\`\n  say();\n  \\`\\`\\`\n  // /*\n  say();\n  ${1}\n  say();')
        for text in texts:
            for before in '', 'await 1\n', '__dirname\n':
                for code in ('say(`#`)', 'if (true) {\n  say(`#`)\n}', 'page()\nfunction page() {\n  say(`#`)\n}',
                             'const text = `#`; say(text)\nfunction other() {}', 'export const copy = `#`\nsay(copy)',
                             'for (const text of [`#`])\n  say(text)\nexport function other() { return `\n  other();` }',
                             'const copy = (say(`#`), `#`)', 'say(`${ `#` }`)\nsay(`x`); texts.pop()\nexport { say }'):
                    code = before + code.replace('#', text.replace('${1}', '${ (() => {\nreturn `\n  say();\n` })() }'))
                    self.expect(s, code, '', 0, '')
                    want = text.replace('\\`', '`').replace('${1}', '\n  say();\n')
                    self.expect(s, 'process.stdout.write(texts.pop() + texts.length)', want + '0')
        self.expect(s, '/*!\nsay("a");\nfunction f() {\n}\n*/\nsay("b")\nfunction h() {}')
        self.expect(s, r"await 1; say('long\n  say();\n  more\n'); console.log(texts.join())", 'b,long\n  say();\n  more\n\n')
        self.expect(s, 'if (!texts) say(`\n`)\nelse console.log(`x\ny`)\nconsole.log("z")\nfunction h() {}', 'x\ny\nz\n')

    def test_large_texts(self):
        s = self.session()
        for line in '  say("12345678901234567890");', '  <p>${ 6 * 7 }`${"`"}</p>', '  \\`\\`\\`js':
            text = '\n'.join([line.replace('`$', '\\`$')] * 8000)
            before = s.cpu_time()
            self.expect(s, f'const say = 1; const large = `{text}`\nfunction size() {{ return large.split("\\n").length }}')
            self.expect(s, 'console.log(size())', '8000\n')
            self.assertLess(s.cpu_time() - before, 10)

    def test_typescript(self):
        s = self.session()
        for code, out in (
                ('let n: number = 1; console.log(n)', '1'),
                ('interface P { x: number } const p: P = { x: 1 }; console.log(p.x)', '1'),
                ('const q: P = { x: 2 }; console.log(q.x)', '2'),
                ('function id<T>(v: T): T { return v } console.log(id<string>("g"))', 'g'),
                ('enum E { A = 1, B } console.log(E.B, E[1])', '2 A'), ('console.log(E.A)', '1'),
                ('type S = string | undefined; const s1: S = "s" as S; console.log(s1!.length)', '1'),
                ('const ga = <T,>(x: T): T => x; console.log(ga(3))', '3'),
                ('const o: { a?: { b: number } } = {}; console.log(o.a?.b ?? "none")', 'none'),
                ('declare const nothing: number; type X = {}; interface Y {}', None),
                ('const arr: Array<Map<string, number[]>> = []; console.log(arr.length)', '0'),
                ('const t: number = await Promise.resolve<number>(4); console.log(t)', '4'),
                ('class A1 { constructor(private x: number, public readonly y = 2) {} get z() { return this.x } }\n'
                 'console.log(new A1(1).z, new A1(1).y)', '1 2'),
                ('abstract class B1 { abstract f(): void } namespace N { export const v = 1 } console.log(N.v)', '1'),
                ('console.log(typeof (1 as any), (<any>2))', 'number 2'),
                ('function over(a: string): void;\nfunction over(a: any) { console.log("over", a) }\nover(1)', 'over 1'),
                ('let x1 = { a: 1 } satisfies object; console.log(x1.a)', '1'),
                ('export const ex = 1; export function ef() { return 2 } export default class ED {}\n'
                 'console.log(ex, ef())', '1 2')):
            self.expect(s, code, '' if out is None else out + '\n', 0, '')
        self.expect(s, 'let bad: = 1', '', 1, '<run')
        self.expect(s, 'const dup = 1; const dup = 2', '', 1, 'already been declared')

    def test_imports(self):
        s = self.session()
        for name, text in (('side.mjs', 'export const v = 7; export default "def"'), ('data.json', '{"k": [1]}'),
                           ('typed.ts', 'export const t: number = 3'), ('common.cjs', 'module.exports = { c: 9 }')):
            with open(f'{s.home}/{name}', 'w') as f:
                f.write(text)
        self.expect(s, 'import d, { v } from "./side.mjs"; import j from "./data.json"; console.log(d, v, j.k[0])',
                    'def 7 1\n')
        self.expect(s, 'const m = await import("./typed.ts"); console.log(m.t)', '3\n')
        self.expect(s, 'const { join } = await import("path"); console.log(join("a", "b"))', 'a/b\n')
        self.expect(s, 'const [a, b] = await Promise.all([import("os"), import("fs")]); console.log(!!a.EOL, !!b.statSync)',
                    'true true\n')
        self.expect(s, 'const load = (n: string) => import(n); const m2 = await load("p" + "ath"); console.log(!!m2.sep)',
                    'true\n')
        self.expect(s, 'console.log("import(\\"x\\")"); function reimport(x) { return x } console.log(reimport(1))',
                    'import("x")\n1\n')
        self.expect(s, 'console.log((await load("fs")).default === fs2); var fs2 = require("fs")', None, 0)
        self.expect(s, 'console.log(require("./common.cjs").c, require("./data.json").k)', '9 [ 1 ]\n')
        self.expect(s, 'await import("./missing.mjs")', status=1, err='missing.mjs')
        self.expect(s, 'import x from "./missing.mjs"', status=1, err='missing.mjs')
        self.expect(s, 'import("./missing2.mjs"); console.log("on")', 'on\n', 1, 'missing2.mjs')
        self.expect(s, 'require("./missing.cjs")', status=1, err='missing.cjs')
        self.expect(s, 'console.log(import.meta.main, import.meta.dir === process.cwd(), __dirname === process.cwd())',
                    'true true true\n')

    def test_errors(self):
        s = self.session()
        self.expect(s, '// first\ninterface Foo {\n  a: number\n}\n\nfunction boo(a: Foo) {\n  throw new TypeError("hm")\n}')
        r = self.expect(s, 'const text = `\n  lines\n`\nlet q: number = 1\n\nboo({ a: q })', '', 1)
        self.assertIn('TypeError: hm', r.err.decode())
        self.assertIn('  throw new TypeError("hm")\n', r.err.decode())
        self.assertRegex(r.err.decode(), r'at boo \(<run 1>:7:')
        self.assertRegex(r.err.decode(), r'at .*<run 2>:6:')
        for bad in b'repl.mjs', b'runInThisContext', b'node:vm':
            self.assertNotIn(bad, r.err)
        self.expect(s, 'undefined_name', '', 1, 'undefined_name')
        self.expect(s, 'await 1\n\n\nboo(null)', '', 1, '<run 4>:4')
        self.expect(s, 'throw 5', '', 1, '5')
        self.expect(s, 'throw null', '', 1, 'null')
        self.expect(s, 'throw { toString() { throw 1 } }', '', 1)
        self.expect(s, 'console.log("text"); let x = ;', '', 1, '<run 8>:1:')
        self.expect(s, 'Promise.reject(new Error("nobody")); console.log("on")', 'on\n', 1, 'nobody')
        self.expect(s, 'setTimeout(() => { throw new Error("timer") }, 5); await new Promise(() => {})', '', 1, 'timer')
        self.expect(s, 'function deep() { deep() } deep()', '', 1, 'RangeError')
        self.expect(s, 'console.log(new Error("shown").stack.includes("<run 12>:1:"))', 'true\n', 0)
        self.expect(s, 'JSON.parse("{")', '', 1, 'SyntaxError')
        self.expect(s, 'new Function("let x = ;")', '', 1, 'SyntaxError')

    def test_exit_statuses(self):
        s = self.session()
        self.expect(s, 'var kept = 1')
        for code, status in (('process.exit()', 0), ('process.exit(0)', 0), ('process.exit(9)', 9), ('process.exit(256)', 0),
                             ('process.exit(-1)', 255), ('process.exit(137)', 137), ('process.exitCode = 4', 4),
                             ('process.exitCode = 5; process.exit()', 5), ('1', 0),
                             ('await 1; process.exit(6)', 6), ('setTimeout(() => process.exit(7), 1); await new Promise(() => {})', 7),
                             ('Promise.resolve().then(() => process.exit(8)); await new Promise(() => {})', 8),
                             ('try { process.exit(3) } catch {} console.log("caught")', 3),
                             ('process.on("exit", () => 1); (() => process.exit(2))()', 2)):
            self.expect(s, code, None, status, '')
        self.expect(s, 'console.log(kept)', '1\n')
        self.expect_gone(self.session(), 'console.log("kept"); process.kill(process.pid, "SIGKILL")', 137, 'kept\n')
        self.expect_gone(self.session(), 'process.kill(process.pid, "SIGSEGV"); await new Promise(() => {})', 139)
        self.expect_gone(self.session(), 'process.abort()', 134)

    def test_event_loop_goes_on(self):
        s = self.session()
        self.expect(s, 'var ticks = 0; setInterval(() => ticks++, 5)', '', 0, '')
        time.sleep(.2)
        self.expect(s, 'console.log(ticks > 5)', 'true\n')
        self.expect(s, 'const server = Bun.serve({ port: 0, fetch: () => new Response("served") })')
        self.expect(s, 'console.log(await (await fetch(`http://127.0.0.1:${server.port}/`)).text())', 'served\n')
        self.expect(s, 'setTimeout(() => { throw new Error("between") }, 300)', '', 0, '')
        time.sleep(.5)
        self.expect(s, 'console.log("alive")', 'alive\n', 0, '')
        self.expect(s, 'const child = require("child_process").spawn("sleep", ["100"]); console.log(child.pid > 0)', 'true\n')
        self.expect(s, 'child.kill(); server.stop(true); console.log(require("child_process").execSync("echo sub").toString())',
                    'sub\n\n')

    def test_stdin(self):
        s = self.session()
        self.expect(s, 'console.log(process.stdin.read())', 'null\n')
        self.expect(s, 'console.log(require("fs").readFileSync(0, "utf8"))', 'sync\n', stdin=b'sync')
        self.expect(s, 'let all = ""; for await (const c of process.stdin) all += c; console.log(all)', 'async\n', stdin=b'async')
        self.expect(s, 'let all = ""; for await (const c of process.stdin) all += c; console.log([all])', '[ "" ]\n')
        self.expect(s, 'process.stdin.setEncoding("utf8"); process.stdin.on("data", d => console.log("data", d));\n'
                    'await new Promise(r => process.stdin.on("end", r))', 'data events\n', stdin=b'events')
        self.expect(s, 'const rl = require("readline").createInterface({ input: process.stdin }); const got = [];\n'
                    'for await (const line of rl) got.push(line); console.log(got.join("|"))', 'a|b\n', stdin=b'a\nb\n')
        self.expect(s, 'console.log(await Bun.stdin.text())', 'bun\n', stdin=b'bun')
        self.expect(s, 'console.log(await Bun.stdin.text())', 'again\n', stdin=b'again')
        self.expect(s, 'console.log(await new Response(Bun.stdin.stream()).text())', 'stream\n', stdin=b'stream')
        self.expect(s, 'console.log(process.stdin.isTTY, process.stdin.fd)', 'undefined 0\n')
        big = os.urandom(300000).hex().encode()
        self.expect(s, 'let n = 0; for await (const c of process.stdin) n += c.length; console.log(n)', '600000\n', stdin=big)

    def test_stdin_pipe(self):
        s = self.session()
        for text in b'first', b'second':
            pending = s.start('for await (const c of process.stdin) console.log("got", String(c))', stdin=None)
            time.sleep(.1)
            os.write(pending[3], text)
            os.close(pending[3])
            r = s.finish(pending[:3] + (None,))
            self.compare(r, '', f'got {text.decode()}\n', 0, '')

    def test_streams(self):
        s = self.session()
        r = self.expect(s, 'for (let i = 0; i < 20; i++) { console.log("o" + i); console.error("e" + i); '
                        'process.stdout.write("w" + i + "\\n"); process.stderr.write("x" + i + "\\n") }', joined=True)
        self.assertEqual(r.out.decode(), ''.join(f'o{i}\ne{i}\nw{i}\nx{i}\n' for i in range(20)))
        for code in ('console.log("x".repeat(50 << 20))', 'process.stdout.write("x".repeat(50 << 20) + "\\n")',
                     'await Bun.write(Bun.stdout, "x".repeat(50 << 20) + "\\n")',
                     'require("fs").writeSync(1, "x".repeat(50 << 20) + "\\n")',
                     'for (let i = 0; i < 800; i++) process.stdout.write("x".repeat(1 << 16)); console.log()'):
            r = self.expect(s, code)
            self.assertEqual((len(r.out), r.out[-2:]), ((50 << 20) + 1, b'x\n'), code)
        r = self.expect(s, 'for (let i = 0; i < 20000; i++) console.log(i)')
        self.assertEqual(r.out.decode(), ''.join(f'{i}\n' for i in range(20000)))
        r = self.expect(s, 'process.stdout.write(Buffer.from([0, 255, 128])); process.stdout.write("no newline")')
        self.assertEqual(r.out, b'\0\xff\x80no newline')
        self.expect_live(s, 'console.log("one"); await new Promise(r => process.stdin.once("data", r)); '
                         'console.log("two")', 'one\n', 'two\n')
        self.expect(s, 'process.stdout.end("ended"); process.stdout = null; process.stdin.destroy()', 'ended')
        self.expect(s, 'process.stdout.write("back\\n"); console.log(process.stdout.fd)', 'back\n1\n')
        self.expect(s, 'const fs = require("fs"); fs.closeSync(1); fs.closeSync(0)')
        self.expect(s, 'console.log("open", fs.readFileSync(0).length)', 'open 0\n')
        self.expect(s, 'require("stream").pipeline(require("stream").Readable.from(["p", "q"]), process.stdout, () => {}); '
                    'await Bun.sleep(20)', 'pq')

    def test_interrupt(self):
        s = self.session()
        r = self.interrupted(s, 'var v = 5; console.log("go"); while (true) {}')
        self.compare(r, '', 'go\n', 130, None)
        self.expect(s, 'console.log(v++)', '5\n')
        r = self.interrupted(s, 'console.log("go"); await new Promise(() => {})')
        self.compare(r, '', 'go\n', 130, None)
        r = self.interrupted(s, 'function spin() { for (;;) { try { v++ } catch {} } } await null; console.log("go"); spin()')
        self.compare(r, '', 'go\n', 130, None)
        r = self.interrupted(s, 'process.once("SIGINT", () => console.log("mine")); console.log("go"); await Bun.sleep(500)')
        self.compare(r, '', 'go\nmine\n', 0, None)
        r = self.interrupted(s, 'console.log("go"); while (true) console.error("spam")')
        self.compare(r, '', 'go\n', 130, None)
        for _ in range(10):
            s.interrupt()
        time.sleep(.05)
        self.expect(s, 'process.removeAllListeners("SIGINT"); process.removeAllListeners(); console.log(v > 5)', 'true\n')
        for _ in range(3):
            s.interrupt()
            self.expect(s, 'console.log("still")', None, None)
        self.expect(s, 'console.log("still")', 'still\n')

    def test_interrupted_at_once(self):
        """However early a SIGINT comes once the request was read, it is that run's."""
        s = self.session()
        code = '//' + 'x' * 200000 + '\nfor (;;) {}'
        for i in range(60):
            turn = s.start(code)
            while struct.unpack('i', fcntl.ioctl(s.ctl, termios.TIOCOUTQ, bytes(4)))[0]:
                pass
            time.sleep(i * .0002)
            s.interrupt()
            r = s.finish(turn, None, DEADLINE / 3)
            self.assertEqual(r.status, 130, f'interrupt {i}')
        self.expect(s, 'console.log("still")', 'still\n')

    def test_ends_of_bent_worlds(self):
        """Whatever user code has bent, the run that did so is answered, and the next one runs."""
        for code in ('Array.prototype[Symbol.iterator] = null',
                     'process.listeners = null; Array.prototype.includes = null',
                     'Object.preventExtensions(globalThis)',
                     'Object.defineProperty(globalThis, "__watched__", { value: 1 })'):
            s = self.session()
            self.expect(s, code, status=None)
            self.expect(s, 'console.log("ok")', 'ok\n', 0)

    def test_driver_survives_user_code(self):
        s = self.session()
        for code in ('globalThis.process = undefined', 'var process = 5, Bun = 6, console2 = 7',
                     'Promise.race = null; Object.entries = null; JSON.stringify = null; setImmediate = null',
                     'Object.defineProperty(Object.prototype, "polluted", { value: 1, configurable: true })',
                     'globalThis.require = null; var exports = 1, module = 2',
                     'Error.prepareStackTrace = () => { throw 1 }', 'Error.stackTraceLimit = 0',
                     'Symbol.iterator = 5; var current = 1, exitStatus = 2, lib = 3, message = 4',
                     'delete globalThis.TextEncoder; delete globalThis.Uint8Array; Array.prototype.map = 1',
                     'RegExp.prototype.exec = () => { throw 1 }; String.prototype.split = 1; Array.prototype.includes = 1'):
            self.expect(s, code, status=None)
            self.expect(s, 'let a: number = 1; const b = 2; console.log("ok")', 'ok\n', 0)

    def test_channel_is_out_of_the_way(self):
        s = self.session()
        self.expect(s, 'console.log(Object.keys(globalThis).filter(k => /xsbx|nonce|driver|lib/i.test(k)).length, process.argv.length)',
                    '0 2\n')
        self.expect(s, 'console.log(require("child_process").execSync("ls /proc/self/fd").toString().split("\\n").join())',
                    '0,1,2,3,\n')
        self.expect(s, 'try { require("fs").writeSync(1000, "forged") } catch {} console.log("on")', 'on\n')

    def test_warm_and_seed(self):
        s = self.session()
        self.assertEqual(s.simple(WARM), 0)
        self.expect(s, 'console.log(typeof x, typeof f)', 'undefined undefined\n')
        self.seeds_decide(s, 'console.log(Math.random())')

    def test_rapid_and_big(self):
        s = self.session()
        self.expect(s, 'let n = 0')
        for i in range(300):
            self.expect(s, 'console.log(++n)', f'{i + 1}\n')
        self.expect(s, '//' + 'x' * ((1 << 20) - 100) + '\nconsole.log("big")', 'big\n')
        code = ''.join(f'const v{i}: number = {i};\nfunction f{i}(a: string) {{ return v{i} }}\n' for i in range(8000))
        before = s.cpu_time()
        self.expect(s, code + 'console.log(f7999(""))', '7999\n')
        self.assertLess(s.cpu_time() - before, 10)

    def test_files_of_the_user_stop_nothing(self):
        home = tempfile.mkdtemp(dir=SCRATCH)
        for name in 'bunfig.toml', 'tsconfig.json', 'package.json', '.env':
            with open(f'{home}/{name}', 'w') as f:
                f.write('{{ this is = bad')
        s = self.session(cwd=home)
        self.expect(s, 'console.log(1)', '1\n')

    def test_end_of_channel(self):
        s = self.session()
        self.expect(s, 'process.on("exit", () => require("fs").writeFileSync("end", ""))')
        s.ctl.shutdown(socket.SHUT_RDWR)
        os.close(s.bell)
        s.bell = None
        self.assertEqual(s.process.wait(DEADLINE), 0)
        self.assertTrue(os.path.exists(s.home + '/end'))

    def packages(self, **sources):
        """An interpreter with packages."""
        modules = tempfile.mkdtemp(dir=SCRATCH)
        for name, source in sources.items():
            os.mkdir(f'{modules}/{name}')
            with open(f'{modules}/{name}/index.js', 'w', encoding='utf-8') as file:
                file.write(source)
        os.mkdir(f'{modules}/types')
        with open(f'{modules}/types/package.json', 'w', encoding='utf-8') as file:
            file.write('{"name": "types", "types": "index.d.ts"}')
        return self.session(env={'NODE_PATH': modules})

    def test_imports(self):
        s = self.packages(left='console.log("noise"); module.exports = { born: Math.random() }',
                          right='export const side = "right"; import left from "left"; export { left }')
        result = s.imports('left', 'types', 'right')
        self.assertEqual((result.status, result.err), (0, b'\x01left\n\x01types\n\x01right\n'))
        self.assertEqual(s.simple(WARM), 0)
        result = s.run('import { left, side } from "right"; console.log(left === require("left"), side)')
        self.assertEqual((result.status, result.out), (0, b'true right\n'))

    def test_imports_that_clean_up(self):
        s = self.packages(alpha='clearInterval(setInterval(() => 0, 1e6)); await new Promise((done) => setTimeout(done, 5));'
                                'export default await require("fs").promises.readFile("/proc/self/stat")',
                          beta='require("child_process").execSync("true"); const s = require("net").createServer().listen(0);'
                               's.close(); exports.later = setTimeout',
                          gamma='require("util").promisify(setTimeout)')
        result = s.imports('alpha', 'beta', 'gamma')
        self.assertEqual((result.status, result.err), (0, b'\x01alpha\n\x01beta\n\x01gamma\n'))
        self.assertEqual(s.simple(WARM), 0)
        self.expect(s, 'await require("util").promisify(setTimeout)(1); setTimeout(() => console.log(1), 1);'
                       'await new Promise((done) => require("beta").later(done, 50))', '1\n')

    def test_imports_that_are_refused(self):
        for source, words in (('throw new Error("so bad")', b'so bad'), ('process.exit(0)', b'ends the program'),
                              ('setImmediate(() => process.exit(1))', b'ends the program'),
                              ('globalThis.left = 1', b'global variables'), ('process.chdir("/")', b'current directory'),
                              ('process.on("SIGINT", () => 0)', b'signals'),
                              ('require("fs").writeFileSync("left", "")', b'files in it'),
                              ('setInterval(() => 0, 1000)', b'timers'),
                              ('require("timers").setTimeout(() => 0, 1e6).unref()', b'timers'),
                              ('const { setTimeout } = require("node:timers"); setTimeout(() => 0, 1e6)', b'timers'),
                              ('import { setInterval as s } from "node:timers"; s(() => 0, 1e6)', b'timers'),
                              ('require("child_process").spawn("sleep", ["60"]).unref()', b'processes'),
                              ('require("child_process").execSync("setsid sleep 60 >/dev/null 2>&1 &")', b'processes'),
                              ('new Worker("data:text/javascript,setInterval(() => 0, 1000)")', b'workers'),
                              ('require("net").createServer().listen(0)', b'sockets'),
                              ('require("dgram").createSocket("udp4").bind(0)', b'sockets'),
                              ('Bun.serve({ port: 0, fetch() {} })', b'sockets'),
                              ('require("fs").watch("/")', b'watches')):
            s = self.packages(bad=source)
            result = s.imports('bad')
            self.assertEqual((result.status, result.out, result.err[:5]), (1, b'', b'\x01bad\n'), source)
            self.assertIn(words, result.err, source)


if __name__ == '__main__':
    sys.exit(main(buns, BunCases))
