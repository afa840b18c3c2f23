/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of Python: a function that receives turns and has repl.py run them. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "turn.h"

/*
 * Theory of operation
 * -------------------
 * repl.py "imports" turn.so, which leaves a function in `sys` and then fails by design: a module of
 * its own would need structures that differ between versions of Python. That function is the
 * loop. It is in C so that the wait for requests is one instruction at one depth of the stack,
 * whatever Python makes of calls from one of its functions to another, and so that nonces are in no
 * frame, object or variable of Python's.
 *
 * For each request it calls repl.py with
 *
 *	(type, number of the turn, code, seed, place)	both are empty if there is none
 *
 * and gets the status; of a copy, which is made here, it hears afterwards, as (DRIVER_COPY, 0, ...).
 * An exception that comes out of there ends the interpreter. One that a signal's handler raises where no
 * code of the user's runs is forgotten, unless it is SystemExit; a run that is there already gets to see it.
 * So while a request is seen to signals are held back, but for the user's code, which repl.py has called
 * from here (let_in). With threads that is not all: another one may take a signal, and the handler runs
 * in the main thread nevertheless.
 *
 * What sys.stdout and sys.stderr write goes through put(), which stands in for the method `write` of the
 * raw file below each, and writes a record (turn_record) or has the method do it. Of many writes in a row to one of
 * them, it would have the method do each: then it steps aside there until the other one is written, or the next run.
 *
 * Python's symbols are declared here and not taken from its headers, of which each version has its
 * own: these are all of its stable interface. They are weak so that the object can be loaded into
 * other processes.
 */

/* --- what we use of Python -------------------------------------------------------------------- */

typedef struct object PyObject;
typedef struct thread PyThreadState;
typedef PyObject *python_fn(PyObject *self, PyObject *args);

struct python_method {
	const char *name;
	python_fn *function;
	int flags;
	const char *doc;
};

#define METH_VARARGS 1
#define METH_O	     8
#define FILE_INPUT   257 /* Py_file_input */

/* Py_buffer */
struct python_buffer {
	void *data;
	PyObject *object;
	ssize_t len, itemsize;
	int readonly, ndim;
	char *format;
	ssize_t *shape, *strides, *suboffsets;
	void *internal;
};

#define PYTHON extern __attribute__((weak))

PYTHON PyObject *PyExc_OSError, *PyExc_SystemExit;
PYTHON PyObject *PyCFunction_NewEx(struct python_method *method, PyObject *self, PyObject *module);
PYTHON int PySys_SetObject(const char *name, PyObject *value);
PYTHON int PyArg_ParseTuple(PyObject *args, const char *format, ...);
PYTHON PyObject *Py_CompileString(const char *text, const char *name, int start);
PYTHON PyObject *PyObject_CallFunction(PyObject *callable, const char *format, ...);
PYTHON PyObject *PyObject_CallFunctionObjArgs(PyObject *callable, ...);
PYTHON PyObject *PyBytes_FromStringAndSize(const char *data, ssize_t len);
PYTHON int PyObject_GetBuffer(PyObject *object, struct python_buffer *ret_buffer, int flags);
PYTHON void PyBuffer_Release(struct python_buffer *buffer);
PYTHON PyObject *PyLong_FromLong(long value);
PYTHON long PyLong_AsLong(PyObject *number);
PYTHON void Py_DecRef(PyObject *object);
PYTHON PyObject *PyObject_GetAttrString(PyObject *object, const char *name);
PYTHON PyObject *PyDict_GetItemString(PyObject *dict, const char *key);
PYTHON int PyDict_SetItemString(PyObject *dict, const char *key, PyObject *value);
PYTHON int PyDict_DelItemString(PyObject *dict, const char *key);
PYTHON PyObject *PyErr_SetFromErrno(PyObject *type);
PYTHON void PyErr_SetObject(PyObject *type, PyObject *value);
PYTHON PyObject *PyErr_Occurred(void);
PYTHON int PyErr_ExceptionMatches(PyObject *type);
PYTHON void PyErr_Clear(void);
PYTHON void PyErr_WriteUnraisable(PyObject *where);
PYTHON int PyErr_CheckSignals(void);
PYTHON PyObject *PyObject_CallObject(PyObject *callable, PyObject *args);
PYTHON PyThreadState *PyEval_SaveThread(void);
PYTHON void PyEval_RestoreThread(PyThreadState *state);
PYTHON void PyOS_BeforeFork(void), PyOS_AfterFork_Parent(void), PyOS_AfterFork_Child(void);

/* --- signals ---------------------------------------------------------------------------------- */

#define LATE_MAX 16 /* handlers that raise, of signals that came before they were held back */

static sigset_t users_mask;
static bool held;

/* But those of errors, which end a process that blocks them whatever it has set. */
static void hold_signals(void)
{
	static const int errors[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
	sigset_t all;

	if (held)
		return;
	sigfillset(&all);
	for (size_t n = 0; n < sizeof(errors) / sizeof(*errors); n++)
		sigdelset(&all, errors[n]);
	held = pthread_sigmask(SIG_BLOCK, &all, &users_mask) == 0;
}

static void release_signals(void)
{
	if (held)
		(void)pthread_sigmask(SIG_SETMASK, &users_mask, NULL);
	held = false;
}

/* let_in(function): call what runs user code, with signals let in. What is raised at its very edges is
 * forgotten. A process that the code has forked gets them from then on. */
static PyObject *let_in(PyObject *self, PyObject *args)
{
	pid_t pid = getpid();
	PyObject *function, *result;

	(void)self;
	if (!PyArg_ParseTuple(args, "O", &function))
		return NULL;
	release_signals();
	result = PyObject_CallObject(function, NULL);
	if (getpid() == pid)
		hold_signals();
	if (result)
		Py_DecRef(result);
	else
		PyErr_Clear();
	for (int n = 0; n < LATE_MAX && PyErr_CheckSignals() < 0; n++)
		PyErr_Clear();
	return PyLong_FromLong(0);
}

/* compile_text(code, name): what the builtin compile() makes of bytes without a zero, for which that one first makes the
 * types of all nodes of a syntax tree, which cost as much as a tenth of Python's start. */
static PyObject *compile_text(PyObject *self, PyObject *args)
{
	const char *code, *name;

	(void)self;
	if (!PyArg_ParseTuple(args, "ys", &code, &name))
		return NULL;
	return Py_CompileString(code, name, FILE_INPUT);
}

/* --- output ----------------------------------------------------------------------------------- */

/* Of the raw files of both. */
static struct detour {
	PyObject *attributes; /* what the file has of its own; only there is its `write` ours */
	PyObject *method;     /* put() */
	bool away;	      /* it has stepped aside */
} detours[2];

static void step_aside(struct detour *d)
{
	/* User code may have put something in front of it. */
	if (d->away || PyDict_GetItemString(d->attributes, "write") != d->method)
		return;
	d->away = PyDict_DelItemString(d->attributes, "write") == 0;
	PyErr_Clear();
}

static void step_back(struct detour *d)
{
	if (!d->away)
		return;
	d->away = false;
	if (!PyDict_GetItemString(d->attributes, "write"))
		(void)PyDict_SetItemString(d->attributes, "write", d->method);
	PyErr_Clear();
}

/* The method `write` of a raw file; @self is the original. */
static PyObject *put(int fd, PyObject *self, PyObject *data)
{
	const int at = fd == STDERR_FILENO;
	struct python_buffer b;
	size_t n;

	step_back(&detours[!at]);
	if (turn_is_steady(fd)) {
		step_aside(&detours[at]);
		return PyObject_CallFunctionObjArgs(self, data, NULL);
	}
	if (PyObject_GetBuffer(data, &b, 0) < 0)
		return NULL;
	n = turn_record(fd, b.data, (size_t)b.len);
	PyBuffer_Release(&b);
	return n ? PyLong_FromLong((long)n) : PyObject_CallFunctionObjArgs(self, data, NULL);
}

static PyObject *put_stdout(PyObject *self, PyObject *data)
{
	return put(STDOUT_FILENO, self, data);
}

static PyObject *put_stderr(PyObject *self, PyObject *data)
{
	return put(STDERR_FILENO, self, data);
}

/* ordered(FD, raw): have the raw file's writes keep the order of both outputs. */
static PyObject *ordered(PyObject *self, PyObject *args)
{
	static struct python_method methods[] = {{"write", put_stdout, METH_O, NULL},
						 {"write", put_stderr, METH_O, NULL}};
	PyObject *raw, *original;
	struct detour new = {.away = true}, old, *d;
	int fd;

	(void)self;
	if (!PyArg_ParseTuple(args, "iO", &fd, &raw))
		return NULL;
	d = &detours[fd == STDERR_FILENO];
	original = PyObject_GetAttrString(raw, "write");
	if (!original)
		return NULL;
	new.method = PyCFunction_NewEx(&methods[fd == STDERR_FILENO], original, NULL);
	Py_DecRef(original);
	new.attributes = new.method ? PyObject_GetAttrString(raw, "__dict__") : NULL;
	if (!new.attributes)
		return NULL;
	old = *d;
	*d = new;
	if (old.method) {
		Py_DecRef(old.method);
		Py_DecRef(old.attributes);
	}
	step_back(d);
	return PyLong_FromLong(0);
}

/* --- the loop --------------------------------------------------------------------------------- */

/* The types by which repl.py knows a DRIVER_RUN with DRIVER_RUN_IMPORT, and one with DRIVER_RUN_TRIAL. */
enum { TYPE_IMPORT = 9, TYPE_TRIAL };

static PyObject *handler;
static const char *version;

static void send_ready(void)
{
	const struct driver_msg ready = {
		.type = DRIVER_READY,
		.status = DRIVER_CAN_COPY | DRIVER_CAN_SEED | DRIVER_CAN_PROVE | DRIVER_CAN_ORDER |
			  DRIVER_CAN_IMPORT | DRIVER_CAN_PLACE | DRIVER_CAN_PREPARE};

	(void)turn_send(&ready, version);
}

/* Have repl.py see to a request. Return: the status, or -1 with an exception set. */
static int handle(uint32_t type, const struct driver_msg *msg)
{
	bool seeded =
		type == DRIVER_SEED || (type == DRIVER_RUN && (msg->status & DRIVER_RUN_SEED));
	const char *code = NULL, *words = NULL;
	PyObject *result, *text, *seed, *place;
	size_t len = 0, words_len = 0;
	long status;

	if (type == DRIVER_RUN) {
		code = turn_code(&len);
		words = turn_place(&words_len);
		step_back(&detours[0]);
		step_back(&detours[1]);
	}
	text = PyBytes_FromStringAndSize(code, (ssize_t)len);
	seed = PyBytes_FromStringAndSize((const char *)msg->seed,
					 seeded ? (ssize_t)sizeof(msg->seed) : 0);
	place = PyBytes_FromStringAndSize(words, (ssize_t)words_len);
	if (!text || !seed || !place)
		return -1;
	if (type == DRIVER_RUN && (msg->status & DRIVER_RUN_IMPORT))
		type = TYPE_IMPORT;
	else if (type == DRIVER_RUN && (msg->status & DRIVER_RUN_TRIAL))
		type = TYPE_TRIAL;
	result = PyObject_CallFunction(handler, "IIOOO", type, msg->turn, text, seed, place);
	Py_DecRef(text);
	Py_DecRef(seed);
	Py_DecRef(place);
	if (!result)
		return -1;
	status = PyLong_AsLong(result);
	Py_DecRef(result);
	return PyErr_Occurred() ? -1 : (int)(status & 255);
}

/* Return: 0 if there is a copy of this process, 1 if there is none, -1 with an exception set; or -2
 * in the copy. */
static int copy(const struct driver_msg *msg)
{
	int r;

	PyOS_BeforeFork();
	r = turn_copy();
	if (r != 0) {
		PyOS_AfterFork_Parent();
		return r < 0;
	}
	PyOS_AfterFork_Child();
	if (handle(DRIVER_COPY, msg) < 0)
		return -1;
	send_ready();
	return -2;
}

/* Wait for a request; other threads go on meanwhile. */
static int receive(struct driver_msg *ret_msg)
{
	PyThreadState *state = PyEval_SaveThread();
	int r = turn_receive(ret_msg, 0);

	PyEval_RestoreThread(state);
	return r;
}

/* Was that the exception of a signal's handler? Then nobody was there to catch it, and it shall not cost
 * the session its state. Return: 0 if it was put aside, -1 if the interpreter is to end. */
static int put_aside(int request)
{
	if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_SystemExit))
		return -1;
	if (request == DRIVER_RUN)
		PyErr_WriteUnraisable(NULL);
	else
		PyErr_Clear(); /* nobody reads what is written between runs */
	return 0;
}

/* Run the handlers of signals that have come. Return: 0, or -1 if the interpreter is to end. */
static int run_handlers(int request)
{
	return PyErr_CheckSignals() < 0 ? put_aside(request) : 0;
}

static bool has_no_answer(int request)
{
	return request == DRIVER_TIDY || request == DRIVER_PREPARE;
}

/* Answer one request. Return: 0, or -1 if there are no more, perhaps with an exception set. */
static int serve_one(void)
{
	struct driver_msg msg;
	int status, r = receive(&msg);

	if (r == -EBADMSG)
		return 0;
	if (r <= 0 && r != -EINTR)
		return -1;
	hold_signals();
	if (run_handlers(r) < 0)
		return -1;
	if (r == -EINTR)
		return 0;
	status = r == DRIVER_COPY ? copy(&msg) : handle((uint32_t)r, &msg);
	if (status == -1)
		return has_no_answer(r) ? put_aside(r) : -1;
	if (status < 0 || has_no_answer(r))
		return 0;
	msg.type = DRIVER_DONE;
	msg.status = status;
	memset(msg.seed, 0, sizeof(msg.seed));
	if (turn_send(&msg, "") == 0)
		return 0;
	/* User code has closed the channel: then the status is how we end. */
	PyErr_SetObject(PyExc_SystemExit, PyLong_FromLong(status));
	return -1;
}

/* serve(CTL, handler, version): answer requests until there are no more. */
static PyObject *serve(PyObject *self, PyObject *args)
{
	int ctl, r;

	(void)self;
	if (handler || !PyArg_ParseTuple(args, "iOs", &ctl, &handler, &version))
		return NULL;
	r = turn_open(ctl);
	if (r < 0) {
		errno = -r;
		return PyErr_SetFromErrno(PyExc_OSError);
	}
	(void)pthread_atfork(NULL, NULL, turn_close);
	send_ready();
	do {
		release_signals();
		r = serve_one();
	} while (r == 0);
	release_signals();
	return PyErr_Occurred() ? NULL : PyLong_FromLong(0);
}

/** PyInit_turn() - The place of Python's initialisation: leaves functions in `sys`, and fails. */
void *PyInit_turn(void);

void *PyInit_turn(void)
{
	static struct python_method methods[] = {
		{"_xsbx_serve", serve, METH_VARARGS, NULL},
		{"_xsbx_let_in", let_in, METH_VARARGS, NULL},
		{"_xsbx_compile_text", compile_text, METH_VARARGS, NULL},
		{"_xsbx_ordered", ordered, METH_VARARGS, NULL}};

	for (size_t n = 0; n < sizeof(methods) / sizeof(*methods); n++) {
		PyObject *function = PyCFunction_NewEx(&methods[n], NULL, NULL);

		if (!function)
			break;
		(void)PySys_SetObject(methods[n].name, function);
		Py_DecRef(function);
	}
	return NULL;
}
