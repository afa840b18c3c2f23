// SPDX-License-Identifier: Apache-2.0
// JavaScript and TypeScript driver: runs one piece of code after another in one Bun, for the agent.
//
// Started as `bun repl.mjs CTL BELL`; agent/interp/driver.h is the contract, turn.c does the system calls.
//
// Theory of operation
// -------------------
// Code runs in Bun's own global scope, as a script would, and not in a context of node:vm: there,
// errors and arrays of built-in modules would be of foreign classes. Bun's transpiler erases the
// types and, in its mode for interactive use, turns `let`, `const`, `class` and `import` at the top
// level into assignments to global variables, so that they last and may be declared again. What
// it puts out is reshaped in three ways (see `prepare`):
//
// * It wraps everything in an arrow function, in which functions would be local: one that is
//   defined anew in a later run would not reach its earlier callers. Without top-level `await` the
//   wrapper is taken off; with it, the functions are taken out, and declared before.
// * Lines are put back to where they were in the source, so that every stack trace tells the truth.
// * A call in the last line counts as the last expression, also if only functions follow; and a
//   declaration does not, of which the transpiler makes one.
//
// A run ends when its top level and the promise of its last expression are done, at an uncaught
// exception or unhandled rejection, at process.exit, and at SIGINT. Whatever else is going on in the
// event loop goes on. SIGINT breaks synchronous code too, as far as it belongs to the top level or
// to promises that were ready; a busy loop in a timer or after a real wait can only be killed.
//
// The event loop never blocks on the socket: a byte on the pipe BELL tells that there is a request.
import { dlopen } from 'bun:ffi';
import { drainMicrotasks, getProtectedObjects, setRandomSeed } from 'bun:jsc';
import { createRequire } from 'node:module';
import vm from 'node:vm';

const READY = 1, RUN = 2, DONE = 3, WARM = 4, SEED = 5, TIDY = 7, TIMERS = 10;
const CAN_SEED = 2, CAN_PROVE = 4, CAN_IMPORT = 16, CAN_PLACE = 32, CAN_TELL = 64;
const RUN_SEED = 1, RUN_TRIAL = 2, RUN_IMPORT = 4, RUN_PLACE = 8;
const WARMUP_TURN = 4294967294; // PROTO_RUN_ID_WARMUP in agent/protocol.h
const EAGAIN = 11, EINTR = 4, EBADMSG = 74, MSG_DONTWAIT = 0x40;
const INTERRUPTED = 130;
const STEPS_MAX = 2000; // differences after which line numbers are no longer followed
const AHEAD_BYTES = 256; // Bun draws 2 KiB ahead, for requests that are no longer than this
const AHEAD_TIMES = 16;
const SOURCES_MAX = 16 << 20; // characters of source kept for error messages

const { symbols: lib } = dlopen(`${import.meta.dir}/turn.so`, {
	turn_open: { args: ['i32'], returns: 'i32' },
	turn_raise: { args: ['i32'], returns: 'i32' },
	turn_receive: { args: ['ptr', 'i32'], returns: 'i32' },
	turn_copy_code: { args: ['ptr'], returns: 'void' },
	turn_place_size: { args: [], returns: 'usize' },
	turn_copy_place: { args: ['ptr'], returns: 'void' },
	turn_send: { args: ['ptr', 'ptr'], returns: 'i32' },
	turn_note_interrupts: { args: [], returns: 'void' },
	turn_was_interrupted: { args: [], returns: 'i32' },
	turn_write: { args: ['i32', 'ptr', 'usize'], returns: 'i32' },
	turn_renew: { args: ['bool'], returns: 'i32' },
});

// User code may replace what it likes: these are ours.
const OWN = import.meta.path;
const { process, Bun, Promise, Uint8Array, TextDecoder, Number, Object, Buffer } = globalThis;
const require = createRequire(`${process.cwd()}/`);
const realExit = process.exit;
const cwd = process.cwd.bind(process);
const chdir = process.chdir.bind(process);
const listenerCount = process.listenerCount.bind(process);
const listeners = process.listeners.bind(process);
const includes = Function.prototype.call.bind(Array.prototype.includes);
const inspect = Bun.inspect;
const later = setImmediate;
const getRandomValues = crypto.getRandomValues.bind(crypto);
const define = Object.defineProperty;
const prototypeOf = Object.getPrototypeOf;
const Timeout = prototypeOf(noTimer());
const encoder = new TextEncoder();
const { Script } = vm;
const watchScript = new Script('__watched__()');
const resolveSync = Bun.resolveSync;
const { stringify } = JSON;

function noTimer() {
	const timer = setTimeout(() => {}, 0);
	clearTimeout(timer);
	return timer;
}

// --- standard streams ---------------------------------------------------------------------------

// Bun's own process.stdout keeps to the pipe that it saw first, and writes behind its own back.
// These write at once, as console.log does, so that the order is right and nothing is left over.
const streams = {};

function writeText(fd, text) {
	const bytes = encoder.encode(text);
	if (bytes.length > 0)
		lib.turn_write(fd, bytes, bytes.length);
}

function makeOutput(fd) {
	const { Writable } = require('node:stream');
	const stream = new Writable({
		write(chunk, encoding, done) {
			if (chunk.length > 0)
				lib.turn_write(fd, chunk, chunk.length);
			done();
		},
	});
	return Object.assign(stream, { fd, _type: 'pipe', _isStdio: true });
}

function makeInput() {
	const { Readable } = require('node:stream');
	let reader = null;
	const stream = new Readable({
		read() {
			reader ??= Bun.file(0).stream().getReader();
			reader.read().then(({ done, value }) => this.push(done ? null : Buffer.from(value)),
				(error) => this.destroy(error));
		},
	});
	return Object.assign(stream, { fd: 0, isRaw: false, setRawMode: () => stream, ref() {}, unref() {} });
}

// A new standard input for each run; outputs stay, unless user code has ended them.
function bindStreams() {
	streams.stdin = null;
	for (const name of ['stdout', 'stderr'])
		if (streams[name] && (streams[name].writableEnded || streams[name].destroyed))
			streams[name] = null;
	for (const name of ['stdin', 'stdout', 'stderr']) {
		define(process, name, {
			configurable: true,
			enumerable: true,
			get: () => streams[name] ??= name === 'stdin' ? makeInput() : makeOutput(name === 'stdout' ? 1 : 2),
			set: (value) => define(process, name, { value, configurable: true, enumerable: true, writable: true }),
		});
	}
}

// --- from source to script ----------------------------------------------------------------------

const TYPESCRIPT = {
	loader: 'ts',
	target: 'node',
	define: { 'import.meta.main': 'true', 'import.meta': '__importMeta' },
};
const typescript = new Bun.Transpiler({ ...TYPESCRIPT, replMode: true });
const asModule = new Bun.Transpiler(TYPESCRIPT);
const plain = new Bun.Transpiler({ loader: 'js' });

// Return: the words and signs of a text, and the line of each.
function tokenize(text) {
	const words = [], lines = [];
	let line = 1;
	for (const [word] of text.matchAll(/\n|[\w$]+|[^\s\w$]/g)) {
		if (word === '\n') {
			line++;
			continue;
		}
		words.push(word === "'" ? '"' : word);
		lines.push(line);
	}
	return { words, lines };
}

// Return: the smallest step after which two lists of words agree again for three words, or null.
// Far away only the second list is searched: what is skipped there is types and functions.
const NEAR = 48, FAR = 20000;

function resync(a, i, b, j) {
	const same = (x, y) => a[x] === b[y] && a[x + 1] === b[y + 1] && a[x + 2] === b[y + 2];
	for (let sum = 1; sum < NEAR; sum++)
		for (let x = 0; x <= sum; x++)
			if (i + x < a.length && same(i + x, j + sum - x))
				return [x, sum - x];
	for (let y = NEAR; y < FAR && j + y < b.length; y++)
		if (same(i, j + y))
			return [0, y];
	return null;
}

// Move the lines of a script to where their words stand in the source. Where that would change
// its meaning, as in a text of many lines, leave it as it is.
function relayout(head, script, source) {
	const from = tokenize(script), to = tokenize(source);
	const target = [];
	for (let i = 0, j = 0, steps = 0; i < from.words.length && steps < STEPS_MAX;) {
		if (from.words[i] === to.words[j]) {
			target[from.lines[i]] ??= to.lines[j];
			i++, j++;
			continue;
		}
		steps++;
		const step = resync(from.words, i, to.words, j);
		i += step ? step[0] : 1;
		j += step ? step[1] : 0;
	}
	let result = head.replaceAll('\n', ' '), line = 1;
	script.split('\n').forEach((text, index) => {
		const goal = target[index + 1] ?? line;
		if (index > 0 && goal <= line)
			result += ' ';
		for (; line < goal; line++)
			result += '\n';
		result += text;
	});
	try {
		if (plain.transformSync(result) === plain.transformSync(head + script))
			return result;
	} catch {
		// not what it was
	}
	return head + script;
}

function parses(text) {
	try {
		new Script(text);
		return true;
	} catch {
		return false;
	}
}

const STATEMENT = /^ {2}(?!else\b|while \(.*\);$)[^\s})\]]/;
const FUNCTION = /^ {2}(?:async )?function ?\*? ?([\w$]+)\(/;
const TEXT = /(?<!\\)(?:\\\\)*`|\/\*|\*\//; // may begin or end one of several lines
const PARSE_MAX = 16 << 20; // characters parsed to find out what lies in texts

// A script exports nothing, but code that was written as a module may be run as it is.
function dropExport(lines, i) {
	if (/^ {2}export \{[^}]*$/.test(lines[i]))
		while (!lines[i].includes('}') && i + 1 < lines.length)
			lines.splice(i, 2, `${lines[i]}${lines[i + 1]}`);
	lines[i] = lines[i]
		.replace(/^ {2}export (?:\{[^}]*\};|\* from .*|default (?=(?:async )?function\*? \w))?/, '  ')
		.replace(/^ {2}default class (\w+)/, '  this.$1 = class $1')
		.replace(/^ {2}default /, '  void ');
}

// Find where the statements of a wrapper's top level begin, and take the exports out of them. Texts of
// several lines, and some comments, are put out as they are, and their lines may look like anything:
// a line that may be one of these is told by what stands before it, which is not complete then.
function findStatements(lines) {
	const starts = [];
	let start = 0, left = PARSE_MAX, doubt = false, news = false;
	for (let i = 0; i < lines.length; i++) {
		if (STATEMENT.test(lines[i]) && news) {
			const before = lines.slice(start, i).join('\n');
			left -= before.length;
			if (left < 0)
				throw new RangeError('this would take too long');
			doubt = !parses(`(async () => {${before}\n})`);
			news = false;
		}
		if (STATEMENT.test(lines[i]) && !doubt) {
			start = i;
			dropExport(lines, i);
			if (lines[i].trim())
				starts.push(i);
		}
		if (TEXT.test(lines[i]))
			doubt = news = true;
	}
	return starts;
}

// Make the functions declared at the top level of a wrapper's lines global. Each one follows a line
// `this.NAME = NAME;` and ends with the first line that makes it complete. They stay where they
// are if `keep`, to be at the top level when the wrapper is off.
// Return: the other lines, where statements begin in them, and the text of the functions taken out.
function cutFunctions(lines, starts, keep) {
	const names = new Set(starts.map((i) => FUNCTION.exec(lines[i])?.[1])), begins = new Set(starts);
	const rest = [], left = [];
	let cut = '';
	for (let i = 0; i < lines.length; i++) {
		const name = begins.has(i) && /^ {2}this\.([\w$]+) = \1;$/.exec(lines[i])?.[1];
		if (name && names.has(name))
			continue;
		let last = keep || !begins.has(i) || !FUNCTION.test(lines[i]) ? lines.length : i;
		while (last < lines.length && !(lines[last].endsWith('}') && parses(lines.slice(i, last + 1).join('\n'))))
			last++;
		if (last === lines.length) {
			if (begins.has(i))
				left.push(rest.length);
			rest.push(lines[i]);
			continue;
		}
		cut += lines.slice(i, last + 1).join('\n') + '\n';
		i = last;
	}
	return [rest, left, cut];
}

// Is what the transpiler made an assignment a declaration in the source? As a module, it is put out
// with the same words, behind `const`.
function isDeclared(text, source) {
	const first = text.split('\n', 1)[0];
	if (!/^(?:[^\s.([]+ = |[{[])/.test(first))
		return false;
	for (const line of asModule.transformSync(source).split('\n').reverse()) {
		const at = line.indexOf(first), before = line.slice(0, at);
		if (at === 0 || (at > 0 && before === '('))
			return false;
		if (at > 0 && /^(?:(?:export )?(?:const|let|var) (?:.*, )?|[})\]`].*, )$/.test(before))
			return true;
	}
	return false;
}

const VALUE = '  return {\n    __proto__: null,\n    value: ', VALUE_END = '\n  };';

// Make the last thing that is done the value of all: an expression that the transpiler says is it, or a
// call that only functions follow. A declaration, for which it says so too, has none.
function reshapeLast(lines, starts, isAsync, source) {
	const which = starts.findLastIndex((start) => !/^ {2}(?:(?:async )?function\b|\/[/*])/.test(lines[start]));
	if (which < 0)
		return;
	const at = starts[which], end = starts[which + 1] ?? lines.length;
	const text = lines.slice(at, end).join('\n').trimEnd();
	const isValue = text.startsWith(VALUE) && text.endsWith(VALUE_END);
	const value = isValue ? text.slice(VALUE.length, -VALUE_END.length) : text.trim().replace(/;$/, '');
	if (isDeclared(value, source))
		lines.splice(at, end - at, `  ;(${value}); void 0;`);
	else if (isValue || (/^ {2}[\w$][\w$.]*\(.*\);$/.test(text) && parses(text)))
		lines.splice(at, end - at, isAsync ? `${VALUE}${value}${VALUE_END}` : `  ;({ __proto__: null, value: ${value} });`);
}

// Turn what the transpiler puts out into scripts to be run one after the other.
function reshape(output, source) {
	const head = /^(?:var [^\n]*\n)*/.exec(output)[0];
	const wrapped = /^\((async )?\(\) => \{\n([^]*)\n\}\)\(\);\n?$/.exec(output.slice(head.length));
	if (!wrapped)
		return [output];
	const [, isAsync, body] = wrapped;
	const lines = body.split('\n');
	const starts = findStatements(lines);
	for (const i of starts)
		if (lines[i] === '  __dirname = "";')
			lines[i] = `  __dirname = ${stringify(cwd())};`;
		else if (lines[i] === '  __filename = "input.ts";')
			lines[i] = `  __filename = ${stringify(`${cwd()}/index.ts`)};`;
	const whole = `${head}(${isAsync ?? ''}() => {\n${lines.join('\n')}\n})();`;
	const [rest, begins, functions] = cutFunctions(lines, starts, !isAsync);
	reshapeLast(rest, begins, isAsync, source);
	const text = rest.join('\n');
	const scripts = isAsync ? [[head, functions], ['(async () => {', `${text}\n})();`]] : [[head, text]];
	if (!scripts.every((parts) => parses(parts.join(''))))
		return [whole];
	return scripts.map(([first, script]) => relayout(first, script, source));
}

// Return: the scripts that a source amounts to; throws what the transpiler says about errors.
function prepare(source) {
	if (source.startsWith('#!'))
		source = `//${source}`;
	const output = typescript.transformSync(source);
	try {
		return reshape(output, source);
	} catch { // user code has bent what this is made of, or is too large to be sure of
		return [output];
	}
}

// --- one run ------------------------------------------------------------------------------------

let current = null; // { end(status) } of the run that is going on
let exitStatus = null; // of process.exit in this run
const EXIT = Object.freeze({ __proto__: null }); // thrown by it

const sources = new Map(); // run name -> lines of its source
let sourcesSize = 0;

function remember(name, source) {
	sources.set(name, source.split('\n'));
	sourcesSize += source.length;
	for (const [old, lines] of sources) {
		if (sourcesSize <= SOURCES_MAX || old === name)
			break;
		sources.delete(old);
		sourcesSize -= lines.reduce((sum, line) => sum + line.length + 1, -1);
	}
}

// Bun shows lines of the script that ran: put those of the source in their place.
function showSource(lines) {
	const place = lines.map((line) => /^\s+at (?:.* \()?(<run \d+>|<warmup>):\d+/.exec(line)).find(Boolean);
	const source = place && sources.get(place[1]);
	if (!source)
		return lines;
	return lines.flatMap((line) => {
		const frame = /^(\s*(\d+) \| )/.exec(line);
		if (/^\s+\^$/.test(line))
			return [];
		return frame ? [frame[1] + (source[frame[2] - 1] ?? '')] : [line];
	});
}

function describe(error, name) {
	let text;
	try {
		text = error?.name === 'BuildMessage' || error instanceof Error ? inspect(error)
			: error instanceof AggregateError ? error.errors.map((one) => inspect(one)).join('\n')
			: `error: ${inspect(error)}`;
	} catch {
		text = 'error';
	}
	try {
		let lines = text.replaceAll('input.ts:', `${name}:`).split('\n');
		if (error?.name !== 'BuildMessage')
			lines = showSource(lines);
		return lines.filter((line) => !(/^\s+at /.test(line) && (line.includes(OWN) ||
			/\bat (runInThisContext|Script) \(|\(?node:vm[:)]/.test(line)))).join('\n').trimEnd() + '\n';
	} catch { // user code has bent what this is made of
		return `${text}\n`;
	}
}

function report(error, name) {
	writeText(2, describe(error, name));
}

function exit(code = process.exitCode ?? 0) {
	exitStatus = Number(code) & 255;
	throw EXIT;
}

function onUncaught(event) {
	return (error) => {
		if (error === EXIT) {
			current?.end(exitStatus);
		} else if (listenerCount(event) === 1) {
			report(error, '<run>');
			current?.end(1);
		}
	};
}

const onException = onUncaught('uncaughtException');
const onRejection = onUncaught('unhandledRejection');

function onInterrupt() {
	if (listenerCount('SIGINT') === 1)
		current?.end(INTERRUPTED);
}

// What tracebacks call it.
function nameOf(number) {
	return number === WARMUP_TURN ? '<warmup>' : `<run ${number}>`;
}

// What user code may have taken away or bent, for the next run.
function setUp(number) {
	bindStreams();
	exitStatus = null;
	process.exitCode = 0;
	process.exit = process.reallyExit = exit;
	process.argv = [process.execPath, `${cwd()}/${nameOf(number)}`];
	process.off('uncaughtException', onException).on('uncaughtException', onException);
	process.off('unhandledRejection', onRejection).on('unhandledRejection', onRejection);
	if (!includes(listeners('SIGINT'), onInterrupt))
		process.on('SIGINT', onInterrupt);
	lib.turn_note_interrupts(); // Bun has set its own handler
}

// A script in a run imports relative to the working directory.
function importModule(name, script, attributes) {
	const found = /^(node|bun|data):/.test(name) ? name : resolveSync(name, cwd());
	return import(found, { with: attributes });
}

const HOW = { displayErrors: false };
const WATCHED = { displayErrors: false, breakOnSigint: true };

let watched; // what the outer script calls
define(globalThis, '__watched__', { get: () => watched });

// All that SIGINT can break. When the outer script ends, Bun's own handler of SIGINT is in place again.
function evaluate(scripts, filename) {
	let value;
	watched = () => {
		watched = undefined;
		if (lib.turn_was_interrupted())
			exit(INTERRUPTED);
		for (let i = 0; i < scripts.length; i++) {
			const script = new Script(scripts[i], { filename, importModuleDynamically: importModule });
			value = script.runInThisContext(HOW);
		}
		// What is ready to go on, such as code after an `await` of something known, belongs to
		// this part.
		drainMicrotasks();
	};
	watchScript.runInThisContext(WATCHED);
	return value;
}

// Run a source, and end the run unless something else has ended it.
async function perform(source, name, self) {
	self.end(await outcome(source, name));
}

// What a run comes to by itself. Return: a promise of its status.
async function outcome(source, name) {
	try {
		let value = evaluate(prepare(source), name);
		value = await value;
		await value?.value;
		// A rejection that nobody awaits shows in the next round of the loop.
		await new Promise((resolve) => later(resolve));
		return exitStatus ?? (Number(process.exitCode ?? 0) & 255);
	} catch (error) {
		if (error === EXIT)
			return exitStatus;
		if (error?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED')
			return INTERRUPTED;
		report(error, name);
		return 1;
	}
}

function run(number, source) {
	try {
		setUp(number);
		remember(nameOf(number), source);
	} catch {
		// user code has frozen or bent something of its own
	}
	return new Promise((resolve) => {
		current = { end: resolve };
		perform(source, nameOf(number), current);
	});
}

// --- requests that are not runs -----------------------------------------------------------------

// What programs use most, bought once, before the template of all sandboxes is frozen.
const USUAL = 'fs path os util events stream buffer url crypto child_process http zlib readline assert timers';

// What programs do most. An emulated processor translates code when it first comes to it, in each clone
// of a machine anew, so this is done in each before anybody waits for it.
const EXERCISE = `(async (x: number) => {
	class A { constructor(public x: number) {} get y() { return this.x } }
	const words = [...Array(3).keys()].map((i) => \`a\${i}\`);
	for (const i of [1, 2, 3])
		x += i;
	try { null.x } catch (error) { words.push(String(error), String(new A(x).y)) }
	words.push(JSON.stringify(JSON.parse('{"a":[1,2.5,null]}')), 'a-b'.replace(/-/g, '+'));
	require('node:util').inspect({ words, a: 1 });
	await x;
	return words.join();
})(1)`;

async function warm() {
	for (const name of USUAL.split(' '))
		require(`node:${name}`);
	await evaluate(prepare(EXERCISE), '<warm>');
	bindStreams();
	describe(new Error('warm'), '<warm>');
	Bun.gc(true);
}

// --- packages that are imported before there is a user ------------------------------------------

const ENDS = 'it ends the program';

function importPackages(text) {
	return new Promise((resolve) => {
		let why; // the first reason counts
		const end = (status, words = exitStatus === null ? '' : ENDS) => {
			writeText(2, why === undefined ? words : '');
			why ??= words;
			resolve(status);
		};
		current = { end };
		const has = { lib, writeText, describe, cwd, listenerCount, ends: (error) => error === EXIT || exitStatus !== null };
		import('./repl.imports.mjs')
			.then(({ importAll }) => importAll(text.split('\n').filter(Boolean), has))
			.then((reason) => end(reason ? 1 : 0, reason), (error) => end(1, describe(error, '<import>')));
	});
}

// --- the socket ---------------------------------------------------------------------------------

const message = new Uint8Array(64);
const fields = new DataView(message.buffer);
const little = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

function answer(nonce, status) {
	message.fill(0);
	fields.setUint32(0, DONE, little);
	message.set(nonce, 8);
	fields.setInt32(28, status, little);
	return lib.turn_send(message, encoder.encode('\0'));
}

// What a run has of its own: its directory, in which we are already, but for what Bun makes of that, and variables.
// Return: what puts back what was there before.
function enter() {
	const place = new Uint8Array(Number(lib.turn_place_size()));
	lib.turn_copy_place(place);
	const [directory, ...words] = new TextDecoder().decode(place).split('\0').slice(0, -1);
	const env = process.env, before = [];
	for (const word of words) {
		const at = word.indexOf('='), name = word.slice(0, at);
		before.push([name, env[name]]);
		env[name] = word.slice(at + 1);
	}
	const home = cwd(); // as Bun has it still
	if (directory)
		chdir(directory);
	return () => {
		for (const [name, value] of before)
			if (value === undefined)
				delete env[name];
			else
				env[name] = value;
		try {
			if (directory)
				chdir(home);
		} catch { // it is gone; turn.c goes back by its descriptor
		}
	};
}

let hasRun = false; // code that nobody knows

// The machine was copied: what has been drawn ahead must not be used in each copy. turn.c has done the rest.
function reseed() {
	setRandomSeed(fields.getUint32(32, little));
	for (let i = 0; hasRun && i < AHEAD_TIMES; i++)
		getRandomValues(new Uint8Array(AHEAD_BYTES));
}

// Timers that have not fired are objects that Bun protects; also those of Bun.sleep and node:timers/promises.
// A signal of AbortSignal.timeout is none, and may be late.
function countTimers() {
	const all = getProtectedObjects();
	let n = 0;
	for (let i = 0; i < all.length; i++)
		if (all[i] !== null && typeof all[i] === 'object' && prototypeOf(all[i]) === Timeout)
			n++;
	return n;
}

function tellTimers() {
	message.fill(0);
	fields.setUint32(0, TIMERS, little);
	fields.setInt32(28, countTimers(), little);
	lib.turn_send(message, encoder.encode('\0'));
}

async function handle(type) {
	if (type === TIMERS) {
		tellTimers();
		return;
	}
	const nonce = message.slice(8, 24);
	const number = fields.getUint32(4, little);
	let status = 0;
	const how = fields.getInt32(28, little);
	if (type === SEED || (type === RUN && how & RUN_SEED))
		reseed();
	if (type === RUN) {
		hasRun ||= !(how & RUN_TRIAL) || Boolean(how & RUN_IMPORT);
		const code = new Uint8Array(fields.getUint32(24, little) + 1);
		lib.turn_copy_code(code);
		const text = new TextDecoder().decode(code.subarray(0, -1));
		const leave = how & RUN_PLACE ? enter() : null;
		status = await (how & RUN_IMPORT ? importPackages(text) : run(number, text));
		leave?.();
		current = null;
	} else if (type === WARM) {
		await warm();
	}
	// Until the next run's code is watched: an event of SIGINT would come after that code.
	lib.turn_note_interrupts();
	if (type !== TIDY && answer(nonce, status) < 0)
		realExit.call(process, status);
}

// Take all requests that there are.
async function drain() {
	for (;;) {
		const type = lib.turn_receive(message, MSG_DONTWAIT);
		if (type === -EAGAIN)
			return;
		if (type > 0)
			await handle(type);
		else if (type !== -EINTR && type !== -EBADMSG)
			realExit.call(process, type < 0 ? 1 : 0);
	}
}

async function main() {
	const [ctl, bell] = process.argv.slice(2).map(Number);
	lib.turn_open(ctl);
	const reader = Bun.file(lib.turn_raise(bell)).stream().getReader();
	for (const [name, value] of Object.entries({
		require, module: { exports: {} }, exports: {}, __importMeta: {
			dir: cwd(), dirname: cwd(), path: `${cwd()}/index.ts`, filename: `${cwd()}/index.ts`,
			file: 'index.ts', url: `file://${cwd()}/index.ts`, main: true, env: process.env, require,
			resolve: (name) => Bun.resolveSync(name, cwd()),
		},
	}))
		define(globalThis, name, { value, configurable: true, enumerable: false, writable: true });
	setUp(0);
	fields.setUint32(0, READY, little);
	fields.setInt32(28, CAN_SEED | CAN_PROVE | CAN_IMPORT | CAN_PLACE | CAN_TELL, little);
	lib.turn_send(message, encoder.encode(`Bun ${Bun.version}\0`));
	for (;;) {
		const { done } = await reader.read();
		await drain();
		if (done)
			realExit.call(process, 0);
	}
}

main();
