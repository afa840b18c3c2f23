/* SPDX-License-Identifier: Apache-2.0 */
/* How a machine's end is told: by what QEMU ended with, whatever it had still to answer. And how one is copied: it goes
 * on, whatever becomes of that. */
/* modules: vm/backend/qemu.c vm/backend/qemu_life.c vm/backend/qemu_events.c vm/backend/qemu_copy.c vm/backend/qemu_still.c vm/backend/qemu_point.c vm/base/memory.c vm/base/discard.c vm/base/context.c vm/backend/qmp.c vm/base/reader.c vm/base/lent.c vm/base/buf.c vm/base/fdpass.c vm/base/lines.c vm/base/problem.c vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
/* modules: vm/backend/qemu_record.c vm/base/record.c vm/base/record_table.c vm/base/fdbag.c */
/* modules: vm/checkpoint/point.c vm/order/order.c vm/backend/qemu_argv.c vm/host/tsc.c */
/* libs: uv jansson */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "vm/backend/backend.h"
#include "vm/backend/qemu_argv.h"
#include "vm/base/arch.h"
#include "vm/base/fdbag.h"
#include "vm/base/record.h"
#include "vm/checkpoint/point.h"
#include "vm/image/layer.h"
#include "vm/spawn/child_record.h"
#include "vm/task/ram_copy.h"

static uv_loop_t loop;
static struct context ctx;
static struct backends backends;
static struct backend *machine;
static struct child *child;
static int words, control; /* QEMU's ends */
static int stream, state;
static unsigned ndown, nsaved, ndestroyed;
static struct problem problem;
static struct child *copier; /* of memory, and what it was asked for */
static struct order point_order;
static int talk;
static unsigned npointed;
static int pointed_err;

/* ---- what is not there ---- */

int images_open(struct images *im, const char *name, struct image *ret_image, const char **ret_why)
{
	(void)im;
	(void)name;
	*ret_why = "";
	*ret_image = (struct image){.kernel = -1, .initrd = -1, .rootfs = state};
	return 0;
}

int qemu_describe(struct backends *all, const struct backend_spec *spec, struct buf *out,
		  const char **ret_why)
{
	(void)all;
	(void)spec;
	(void)out;
	*ret_why = "";
	return -ENOTSUP;
}

int child_start(struct spawner *sp, const struct spawn_spec *spec, struct child *c)
{
	(void)sp;
	if (((const struct order *)spec->request)->program == ORDER_POINT) {
		point_order = *(const struct order *)spec->request;
		talk = fcntl(spec->fds[0], F_DUPFD_CLOEXEC, 0);
		copier = c;
		return 0;
	}
	words = fcntl(spec->fds[0], F_DUPFD_CLOEXEC, 0);
	control = fcntl(spec->fds[1], F_DUPFD_CLOEXEC, 0);
	child = c;
	return 0;
}

struct layer *layer_ref(struct layer *l)
{
	return l;
}

struct layer *layer_put(struct layer *l)
{
	(void)l;
	return NULL;
}

void child_kill(struct child *c)
{
	(void)c;
}

void child_put(const struct child *c, struct buf *out, struct fdbag *fds)
{
	(void)c;
	(void)fds;
	record_u64(out, 1, 4711);
}

int child_take(struct spawner *spawner, struct record_reader r, struct fdbag *fds, struct child *c)
{
	struct record_field f;

	(void)spawner;
	(void)fds;
	if (record_field(&r, &f) <= 0 || f.u64 != 4711)
		return -EBADMSG;
	child = c;
	c->state = CHILD_RUNNING;
	return 0;
}

/* ---- what is told ---- */

static void on_none(void *data)
{
	(void)data;
}

static void on_console(void *data, const void *bytes, size_t len)
{
	(void)data;
	(void)bytes;
	(void)len;
}

static void on_down(void *data, const struct problem *p)
{
	(void)data;
	ndown++;
	problem = *p;
}

static void on_destroyed(void *data)
{
	(void)data;
	ndestroyed++;
}

static void on_saved(void *data, const char *error)
{
	(void)data;
	(void)error;
	nsaved++;
}

static const struct backend_events events = {on_none, on_none, on_console, on_down, on_destroyed};

static void begin(enum machine_mode mode)
{
	struct backend_spec spec = {
		.name = "test", .image = "raw", .memory_mb = 64, .cpus = 1, .mode = mode};

	ndown = nsaved = ndestroyed = 0;
	memset(&backends, 0, sizeof(backends));
	backends.ctx = &ctx;
	assert_int_equal(uv_loop_init(&loop), 0);
	ctx.loop = &loop;
	backends.probe.accel = "tcg";
	strcpy(backends.probe.qemu, "9.2.0");
	tsc_sample(&backends.tsc);
	state = open("/dev/null", O_RDWR | O_CLOEXEC);
	spec.ram = spec.state = state;
	assert_int_equal(
		backend_qemu.start(&backends, &spec, &events, NULL, &machine, &stream, &problem),
		0);
}

/* Killed, as a process is: what it had open is closed, and the spawner says so some time later. */
static void killed(bool known_at_once)
{
	assert_int_equal(write(words, "so sorry\n", 9), 9);
	close(words);
	close(control);
	for (int i = 0; i < 5 && !known_at_once; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(ndown, 0);
	assert_int_equal(nsaved, 0);
	child->exited(child, SIGSEGV);
	assert_int_equal(ndown, 1);
	assert_int_equal(nsaved, 0);
	assert_string_equal(problem_code_str(problem.code), "qemu-killed");
	assert_non_null(strstr(problem.cause, "signal 11"));
	assert_non_null(strstr(problem.cause, "it said: so sorry"));
}

static void end(void)
{
	backend_qemu.destroy(machine);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(ndestroyed, 1);
	assert_int_equal(uv_loop_close(&loop), 0);
	close(stream);
	close(state);
}

/* Its commands are not answered yet: that they never will be is not why. */
static void cloned(void **unused)
{
	(void)unused;
	for (int known = 0; known < 2; known++) {
		begin(MACHINE_CLONE);
		killed(known);
		end();
	}
}

static void recorded(void **unused)
{
	(void)unused;
	for (int known = 0; known < 2; known++) {
		begin(MACHINE_RECORD);
		assert_int_equal(backend_qemu.save(machine, on_saved), 0);
		killed(known);
		end();
	}
}

/* What it does answer is told at once. */
static void refused(void **unused)
{
	static const char text[] =
		"{\"QMP\": {}}\n{\"return\": {}, \"id\": 1}\n{\"return\": {}, \"id\": 2}\n"
		"{\"error\": {\"desc\": \"no such format\"}, \"id\": 3}\n";

	(void)unused;
	begin(MACHINE_CLONE);
	assert_int_equal(write(control, text, strlen(text)), strlen(text));
	uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(ndown, 1);
	assert_string_equal(problem_code_str(problem.code), "clone-failed");
	assert_non_null(strstr(problem.cause, "no such format"));
	close(words);
	close(control);
	child->exited(child, 0);
	assert_int_equal(ndown, 1);
	end();
}

static unsigned nstopped, nwent;
static char still_error[64];

static void on_stopped(void *data, const char *error)
{
	(void)data;
	nstopped++;
	snprintf(still_error, sizeof(still_error), "%s", error ? error : "");
}

static void on_went(void *data, const char *error)
{
	(void)data;
	nwent++;
	snprintf(still_error, sizeof(still_error), "%s", error);
}

/* What QEMU is asked for next; "" if for nothing. */
static const char *command(void)
{
	static char text[4096];
	char *at;
	const ssize_t n = recv(control, text, sizeof(text) - 1, MSG_DONTWAIT);

	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "\"execute\":\"");
	if (!at)
		return "";
	at += strlen("\"execute\":\"");
	at[strcspn(at, "\"")] = '\0';
	return at;
}

static void reply(const char *line)
{
	assert_int_equal(write(control, line, strlen(line)), strlen(line));
	uv_run(&loop, UV_RUN_NOWAIT);
}

/* Stops are counted: it goes on when each was undone. */
static void stands_still(void **unused)
{
	(void)unused;
	nstopped = nwent = 0;
	begin(MACHINE_COLD);
	assert_string_equal(command(), "qmp_capabilities");
	assert_int_equal(backend_qemu.stop(machine, on_stopped), 0);
	assert_string_equal(command(), "stop");
	assert_int_equal(nstopped, 0);
	reply("{\"QMP\": {}}\n{\"return\": {}, \"id\": 1}\n{\"return\": {}, \"id\": 2}\n");
	assert_int_equal(nstopped, 1);
	assert_string_equal(still_error, "");
	assert_int_equal(backend_qemu.stop(machine, on_stopped), 0);
	assert_string_equal(command(), "stop");
	assert_int_equal(backend_qemu.cont(machine, on_went), 0);
	assert_string_equal(command(), "");
	assert_int_equal(backend_qemu.cont(machine, on_went), 0);
	assert_string_equal(command(), "cont");
	reply("{\"error\": {\"desc\": \"no\"}, \"id\": 3}\n");
	assert_int_equal(nstopped, 2);
	assert_string_equal(still_error, "no");
	assert_int_equal(nwent, 0);
	reply("{\"error\": {\"desc\": \"never\"}, \"id\": 4}\n");
	assert_int_equal(nwent, 1);
	assert_string_equal(still_error, "never");
	/* Its end comes first: it is not for this that it does not go on. */
	assert_int_equal(backend_qemu.stop(machine, on_stopped), 0);
	killed(false);
	assert_int_equal(backend_qemu.cont(machine, on_went), 0);
	assert_int_equal(nstopped, 2);
	assert_int_equal(nwent, 1);
	end();
}

/* ---- points ---- */

static unsigned nready, nruns;

static void on_ready(void *data)
{
	(void)data;
	nready++;
}

static void on_runs(void *data)
{
	(void)data;
	nruns++;
}

static void on_pointed(void *data, int err)
{
	(void)data;
	npointed++;
	pointed_err = err;
}

static const struct backend_point_events point_events = {on_ready, on_runs, on_pointed};

static void turn(void)
{
	for (int i = 0; i < 5; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static void answer(const char *text)
{
	assert_int_equal(write(control, text, strlen(text)), strlen(text));
	turn();
}

/* What QEMU was told since the last time. */
static const char *told(void)
{
	static char text[4096];
	size_t len = 0;
	ssize_t n;

	/* What comes with a descriptor comes by itself. */
	while ((n = recv(control, text + len, sizeof(text) - 1 - len, MSG_DONTWAIT)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	return text;
}

static int32_t heard(void)
{
	int32_t word = 0;

	return recv(talk, &word, sizeof(word), MSG_DONTWAIT) == sizeof(word) ? word : 0;
}

static void say(int32_t word)
{
	assert_int_equal(write(talk, &word, sizeof(word)), sizeof(word));
	turn();
}

/* Up to where QEMU was told to stop. */
static struct point *begin_point(enum machine_mode mode)
{
	struct point *p = point_new();

	begin(mode);
	npointed = nready = nruns = 0;
	copier = NULL;
	answer("{\"QMP\": {}}\n{\"return\": {}, \"id\": 1}\n");
	assert_int_equal(backend_qemu.point(machine, p, &point_events), 0);
	assert_int_equal(backend_qemu.point(machine, p, &point_events), -EBUSY);
	assert_non_null(strstr(told(), "gpa2hva " ARCH_RAM));
	answer("{\"return\": \"Host virtual address for 0x0 (ram) is 0x7f5a40000000\\r\\n\", "
	       "\"id\": 2}\n");
	assert_non_null(copier);
	assert_int_equal(point_order.point.address, 0x7f5a40000000);
	assert_int_equal(point_order.point.memory_mb, 64);
	assert_string_equal(told(), ""); /* it runs while all is prepared */
	assert_int_equal(nready, 0);
	say(RAM_COPY_READY);
	assert_int_equal(nready, 1);
	assert_string_equal(told(), ""); /* as long as nobody wants it */
	backend_qemu.point_copy(machine);
	turn();
	return p;
}

static void end_point(struct point *p, int err)
{
	copier->exited(copier, err ? 256 : 0);
	turn();
	turn();
	assert_int_equal(npointed, 1);
	assert_int_equal(pointed_err, err);
	assert_int_equal(p->stream >= 0, err == 0);
	if (err == 0)
		assert_true(fcntl(p->stream, F_GET_SEALS) & F_SEAL_WRITE);
	point_unref(p);
	close(talk);
	close(words);
	close(control);
	child->exited(child, 0);
	end();
}

static void pointed(void **unused)
{
	struct point *p = begin_point(MACHINE_COLD);
	const char *text = told();

	(void)unused;
	assert_int_equal(point_order.point.whole, 1);
	assert_true(strstr(text, "add-fd") < strstr(text, "\"stop\""));
	assert_true(strstr(text, "\"stop\"") < strstr(text, "xen-save-devices-state"));
	assert_int_equal(heard(), 0);
	answer("{\"return\": {}, \"id\": 3}\n{\"return\": {}, \"id\": 4}\n");
	assert_int_equal(heard(), RAM_COPY_GO);
	say(RAM_COPY_COPIED);
	assert_string_equal(told(), ""); /* not before the devices are written as well */
	answer("{\"return\": {}, \"id\": 5}\n");
	assert_non_null(strstr(told(), "\"cont\""));
	assert_int_equal(heard(), 0);
	assert_int_equal(nruns, 0);
	answer("{\"return\": {}, \"id\": 6}\n{\"return\": {}, \"id\": 7}\n");
	assert_int_equal(heard(), RAM_COPY_SAVED);
	assert_int_equal(nruns, 1);
	assert_int_equal(npointed, 0);
	end_point(p, 0);
}

/* The copier fails, or QEMU can't save, after the machine was stopped. */
static void not_pointed(void **unused)
{
	struct point *p = begin_point(MACHINE_COLD);

	(void)unused;
	(void)told();
	answer("{\"return\": {}, \"id\": 3}\n{\"return\": {}, \"id\": 4}\n");
	say(-ENOMEM);
	assert_non_null(strstr(told(), "\"cont\""));
	assert_int_equal(npointed, 0);
	answer("{\"return\": {}, \"id\": 5}\n{\"return\": {}, \"id\": 6}\n{\"return\": {}, \"id\": "
	       "7}\n");
	end_point(p, -ENOMEM);

	p = begin_point(MACHINE_COLD);
	(void)told();
	answer("{\"return\": {}, \"id\": 3}\n{\"return\": {}, \"id\": 4}\n"
	       "{\"error\": {\"desc\": \"a device that can't\"}, \"id\": 5}\n");
	assert_non_null(strstr(told(), "\"cont\""));
	answer("{\"return\": {}, \"id\": 6}\n{\"return\": {}, \"id\": 7}\n");
	end_point(p, -EIO);
}

/* A machine is destroyed, or dies, while it is copied: nothing is told of that. */
static void point_of_the_dead(void **unused)
{
	(void)unused;
	for (int dies = 0; dies < 2; dies++) {
		struct point *p = begin_point(MACHINE_COLD);

		if (dies) {
			close(words);
			close(control);
			turn();
			child->exited(child, 0);
		}
		backend_qemu.destroy(machine);
		if (!dies) {
			close(words);
			close(control);
			child->exited(child, 0);
		}
		turn();
		assert_int_equal(ndestroyed, 0);
		copier->exited(copier, 9);
		close(talk);
		uv_run(&loop, UV_RUN_DEFAULT);
		assert_int_equal(ndestroyed, 1);
		assert_int_equal(npointed, 0);
		assert_int_equal(p->stream, -1);
		assert_int_equal(uv_loop_close(&loop), 0);
		close(stream);
		close(state);
		point_unref(p);
	}
}

/* The machine by its record, and what it was is destroyed. Return: the same machine. */
static struct backend *take_over(const struct buf *record, struct fdbag *fds,
				 struct record_reader *ret_fields)
{
	static const struct backend_spec spec = {.name = "test"};
	struct child *was = child;
	struct backend *old = machine, *taken;

	*ret_fields = record_reader(record->data, record->len);
	assert_int_equal(
		backend_qemu.take(&backends, ret_fields, fds, &spec, &events, NULL, &taken), 0);
	backend_qemu.destroy(old);
	was->exited(was, SIGKILL);
	uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(ndestroyed, 1);
	return taken;
}

/* Another process goes on with it: half a line has come, and of what was asked before nothing is waited for. It had been told
 * to stop, of which the record knows nothing: it is told to go on. */
static void taken_over(void **unused)
{
	static const char text[] = "{\"QMP\": {}}\n{\"return\": {}, \"id\": 1}\n{\"ret";
	char rest[256], stop[64];
	const char *asked;
	unsigned long long first;
	const struct backend_spec spec = {.name = "test"};
	struct fdbag fds = {0}, copies = {.owned = true};
	struct record_reader fields;
	struct buf record = {0};

	(void)unused;
	begin(MACHINE_COLD);
	assert_string_equal(command(), "qmp_capabilities");
	assert_int_equal(write(control, text, strlen(text)), strlen(text));
	uv_run(&loop, UV_RUN_NOWAIT);
	backend_qemu.put(machine, &record, &fds);
	nstopped = 0;
	assert_int_equal(backend_qemu.stop(machine, on_stopped), 0);
	assert_string_equal(command(), "stop");
	for (size_t i = 0; i < fds.n; i++)
		assert_int_equal(fdbag_put(&copies, fcntl(fds.fd[i], F_DUPFD_CLOEXEC, 0)), i + 1);
	machine = take_over(&record, &copies, &fields);
	ndestroyed = nstopped = nwent = 0;
	assert_string_equal(command(), "");
	assert_int_equal(backend_qemu.go(machine, false, on_went), 0);
	asked = told();
	assert_non_null(strstr(asked, "\"cont\""));
	assert_int_equal(sscanf(strstr(asked, "\"id\""), "\"id\":%llu", &first), 1);
	snprintf(rest, sizeof(rest),
		 "urn\": {}, \"id\": 2}\n{\"return\": {}, \"id\": 3}\n"
		 "{\"error\": {\"desc\": \"no\"}, \"id\": %llu}\n{\"return\": {}, \"id\": %llu}\n",
		 first, first + 1);
	snprintf(stop, sizeof(stop), "{\"return\": {}, \"id\": %llu}\n", first + 2);
	assert_int_equal(backend_qemu.stop(machine, on_stopped), 0);
	assert_string_equal(command(), "stop");
	reply(rest);
	assert_int_equal(nstopped + nwent, 0);
	reply(stop);
	assert_int_equal(nstopped, 1);
	assert_int_equal(backend_qemu.cont(machine, on_went), 0);
	assert_string_equal(command(), "cont");
	ndown = 0;
	killed(false);
	end();
	/* And of what makes no sense there is nothing. */
	fields.end -= 3;
	assert_int_equal(
		backend_qemu.take(&backends, &fields, &copies, &spec, &events, NULL, &machine),
		-EBADMSG);
	buf_clear(&record);
	fdbag_clear(&fds);
	fdbag_clear(&copies);
}

/* One that stands still is left alone, and goes on when it is told to. */
static void taken_over_still(void **unused)
{
	static const char text[] = "{\"QMP\": {}}\n{\"return\": {}, \"id\": 1}\n"
				   "{\"return\": {}, \"id\": 2}\n";
	const struct backend_spec spec = {.name = "test"};
	struct fdbag fds = {0}, copies = {.owned = true};
	struct record_reader fields;
	struct buf record = {0};
	struct backend *old;
	struct child *was;

	(void)unused;
	for (int lost = 0; lost < 2; lost++) {
		begin(MACHINE_COLD);
		assert_int_equal(backend_qemu.stop(machine, on_stopped), 0);
		(void)told();
		reply(text);
		if (lost)
			reply("nonsense\n");
		backend_qemu.put(machine, &record, &fds);
		copies = (struct fdbag){.owned = true};
		for (size_t i = 0; i < fds.n; i++)
			fdbag_put(&copies, fcntl(fds.fd[i], F_DUPFD_CLOEXEC, 0));
		old = machine;
		was = child;
		fields = record_reader(record.data, record.len);
		assert_int_equal(backend_qemu.take(&backends, &fields, &copies, &spec, &events,
						   NULL, &machine),
				 0);
		backend_qemu.destroy(old);
		was->exited(was, SIGKILL);
		uv_run(&loop, UV_RUN_NOWAIT);
		ndestroyed = 0;
		/* Without control it could not be let go on. */
		assert_int_equal(backend_qemu.go(machine, true, on_went), lost ? -EPIPE : 0);
		assert_null(strstr(told(), "\"cont\""));
		if (!lost) {
			assert_int_equal(backend_qemu.cont(machine, on_went), 0);
			assert_string_equal(command(), "cont");
		}
		ndown = 0;
		killed(false);
		end();
		buf_clear(&record);
		fdbag_clear(&fds);
		fdbag_clear(&copies);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cloned),	    cmocka_unit_test(recorded),
		cmocka_unit_test(refused),	    cmocka_unit_test(pointed),
		cmocka_unit_test(not_pointed),	    cmocka_unit_test(point_of_the_dead),
		cmocka_unit_test(stands_still),	    cmocka_unit_test(taken_over),
		cmocka_unit_test(taken_over_still),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
