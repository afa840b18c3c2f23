// SPDX-License-Identifier: Apache-2.0
// JavaScript driver: imports packages in the process that is copied with its machine, before there is a user.
//
// Loaded by repl.mjs when packages are to be imported, once; agent/interp/driver.h is the contract.
//
// They are in all sessions that begin from the snapshot of this machine, also in those that never import
// them: so an import must leave nothing but modules.
import { dlopen } from 'bun:ffi';
import fs from 'node:fs';
import { createRequire } from 'node:module';

const ENDS = 'it ends the program';
const WATCHED_EVENTS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'uncaughtException', 'unhandledRejection'];

const PR_SET_CHILD_SUBREAPER = 36;
const TIMERS = ['setTimeout', 'setInterval'];
const WORKING = /^socket:|^anon_inode:\[?inotify/;
const BEGIN_MS = 100;

// Whether a process whose parent has ended becomes a child of this one: a daemon does not escape then.
function adopt(yes) {
	try {
		const { symbols, close } = dlopen('libc.so.6', {
			prctl: { args: ['i32', 'u64', 'u64', 'u64', 'u64'], returns: 'i32' },
		});
		symbols.prctl(PR_SET_CHILD_SUBREAPER, Number(yes), 0, 0, 0);
		close();
	} catch {
		// another C library: such processes are not seen
	}
}

function hasChildren() {
	return fs.readdirSync('/proc').some((name) => {
		try { // PID (NAME) STATE PARENT
			const [state, parent] = fs.readFileSync(`/proc/${name}/stat`, 'latin1').split(') ').at(-1).split(' ');
			return state !== 'Z' && Number(parent) === process.pid;
		} catch { // no process, or none any more
			return false;
		}
	});
}

function threads() {
	return fs.readdirSync('/proc/self/task').map((name) => {
		try {
			return fs.readFileSync(`/proc/self/task/${name}/comm`, 'latin1').trim();
		} catch { // it has ended
			return '';
		}
	});
}

// How many workers, sockets and watches there are. Those of Bun's own library that it keeps for later do not count.
function countWorking() {
	let names = threads();
	// A thread that begins has no name of its own yet.
	for (let i = 0; i < BEGIN_MS && names.lastIndexOf(names[0]) > 0; i++) {
		Bun.sleepSync(1);
		names = threads();
	}
	const files = fs.readdirSync('/proc/self/fd').filter((name) => {
		try {
			return WORKING.test(fs.readlinkSync(`/proc/self/fd/${name}`));
		} catch { // that of the listing
			return false;
		}
	});
	return files.length + names.filter((name) => name === 'Worker').length;
}

// Note the timers that are set from now on. Return: a function that ends that, and one that tells whether any is left.
function noteTimers() {
	// An `import` of ours would fix what it exports to all others.
	const places = [globalThis, createRequire(import.meta.url)('node:timers')];
	let noted = [];
	const originals = TIMERS.map((name) => globalThis[name]);
	const put = (functions) => TIMERS.forEach((name, i) => places.forEach((place) => place[name] = functions[i]));
	// A package may keep one of these for ever.
	put(originals.map((original) => {
		const noting = { [original.name](...args) {
			const timer = original(...args);
			noted?.push(timer);
			return timer;
		} }[original.name];
		return Object.defineProperties(noting, Object.getOwnPropertyDescriptors(original));
	}));
	return {
		end: () => { noted = null; put(originals); },
		anyLeft: () => noted.some((timer) => !timer._destroyed),
	};
}

function surroundings(driver) {
	return {
		'the current directory': driver.cwd(),
		'the files in it': fs.readdirSync('.').filter((name) => name[0] !== '.').join('/'),
		'global variables': Object.getOwnPropertyNames(globalThis).join('/'),
		'how signals and errors are handled': WATCHED_EVENTS.map(driver.listenerCount).join('/'),
	};
}

// Return: why `name` is not to be imported ahead, or nothing.
async function importPackage(name, before, timers, driver) {
	let found;
	try {
		found = Bun.resolveSync(name, driver.cwd());
	} catch {
		return; // it has types or programs only
	}
	try {
		await import(found);
		await new Promise((resolve) => setImmediate(resolve)); // what is thrown later, but soon
	} catch (error) {
		return driver.ends(error) ? ENDS : driver.describe(error, '<import>');
	}
	if (driver.ends())
		return ENDS;
	if (timers.anyLeft())
		return 'it sets timers';
	if (hasChildren())
		return 'it starts processes';
	if (countWorking() > before.working)
		return 'it starts workers, or opens sockets or watches';
	const after = surroundings(driver);
	const changed = Object.keys(after).find((what) => before[what] !== after[what]);
	return changed && `it changes ${changed}`;
}

// Import what is named. Return: why this process is good for nothing more, or nothing.
export async function importAll(names, driver) {
	adopt(true);
	const before = { ...surroundings(driver), working: countWorking() };
	const timers = noteTimers();
	// What Bun's own library has drawn in a machine that is copied must not be drawn in each copy.
	if (driver.lib.turn_renew(false) < 0)
		return 'this kernel does not tell how to renew randomness';
	for (const name of names) {
		driver.writeText(2, `\x01${name}\n`);
		const why = await importPackage(name, before, timers, driver);
		if (why)
			return why;
	}
	timers.end();
	adopt(false);
	// What it finds is what a seed renews.
	if (driver.lib.turn_renew(false) < 0)
		return 'they draw randomness in too many places';
}

