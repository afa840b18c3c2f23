/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of Python: a function that receives turns and has repl.py run them. */
#include <errno.h>
#include <pthread.h>
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
 *	(type, number of the turn, code, seed)		seed is empty if there is none
 *
 * and gets the status; of a copy, which is made here, it hears afterwards, as (DRIVER_COPY, 0, ...).
 * An exception that comes out of there, or out of a signal's handler while it waits, ends the
 * interpreter.
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

#define PYTHON	     extern __attribute__((weak))

PYTHON PyObject *PyExc_OSError, *PyExc_SystemExit;
PYTHON PyObject *PyCFunction_NewEx(struct python_method *method, PyObject *self, PyObject *module);
PYTHON int PySys_SetObject(const char *name, PyObject *value);
PYTHON int PyArg_ParseTuple(PyObject *args, const char *format, ...);
PYTHON PyObject *PyObject_CallFunction(PyObject *callable, const char *format, ...);
PYTHON PyObject *PyBytes_FromStringAndSize(const char *data, ssize_t len);
PYTHON PyObject *PyLong_FromLong(long value);
PYTHON long PyLong_AsLong(PyObject *number);
PYTHON void Py_DecRef(PyObject *object);
PYTHON PyObject *PyErr_SetFromErrno(PyObject *type);
PYTHON void PyErr_SetObject(PyObject *type, PyObject *value);
PYTHON PyObject *PyErr_Occurred(void);
PYTHON int PyErr_CheckSignals(void);
PYTHON PyThreadState *PyEval_SaveThread(void);
PYTHON void PyEval_RestoreThread(PyThreadState *state);
PYTHON void PyOS_BeforeFork(void), PyOS_AfterFork_Parent(void), PyOS_AfterFork_Child(void);

/* --- the loop --------------------------------------------------------------------------------- */

static PyObject *handler;
static const char *version;

static void send_ready(void)
{
	const struct driver_msg ready = {.type = DRIVER_READY,
					 .status = DRIVER_CAN_COPY | DRIVER_CAN_SEED |
						   DRIVER_CAN_PROVE};

	(void)turn_send(&ready, version);
}

/* Have repl.py see to a request. Return: the status, or -1 with an exception set. */
static int handle(uint32_t type, const struct driver_msg *msg)
{
	bool seeded = type == DRIVER_SEED || (type == DRIVER_RUN && msg->status);
	const char *code = NULL;
	PyObject *result, *text, *seed;
	size_t len = 0;
	long status;

	if (type == DRIVER_RUN)
		code = turn_code(&len);
	text = PyBytes_FromStringAndSize(code, (ssize_t)len);
	seed = PyBytes_FromStringAndSize((const char *)msg->seed,
					 seeded ? (ssize_t)sizeof(msg->seed) : 0);
	if (!text || !seed)
		return -1;
	result = PyObject_CallFunction(handler, "IIOO", type, msg->turn, text, seed);
	Py_DecRef(text);
	Py_DecRef(seed);
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

/* Answer one request. Return: 0, or -1 if there are no more, perhaps with an exception set. */
static int serve_one(void)
{
	struct driver_msg msg;
	int status, r = receive(&msg);

	if (r == -EINTR)
		return PyErr_CheckSignals();
	if (r == -EBADMSG)
		return 0;
	if (r <= 0)
		return -1;
	status = r == DRIVER_COPY ? copy(&msg) : handle((uint32_t)r, &msg);
	if (status == -1)
		return -1;
	if (status < 0 || r == DRIVER_TIDY)
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
	while (serve_one() == 0)
		;
	return PyErr_Occurred() ? NULL : PyLong_FromLong(0);
}

/** PyInit_turn() - The place of Python's initialisation: leaves `sys._xsbx_serve`, and fails. */
void *PyInit_turn(void);

void *PyInit_turn(void)
{
	static struct python_method method = {"serve", serve, METH_VARARGS, NULL};
	PyObject *function = PyCFunction_NewEx(&method, NULL, NULL);

	if (function) {
		(void)PySys_SetObject("_xsbx_serve", function);
		Py_DecRef(function);
	}
	return NULL;
}
