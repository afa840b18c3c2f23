/* SPDX-License-Identifier: Apache-2.0 */
/* Determines what machines can run with on this host: QEMU, KVM. */
#include "probe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "vm/jail/cgroup.h"
#include "vm/jail/setup.h"
#include "vm/order/order.h"
#include "qemu_argv.h"
#include "qemu_jail.h"
#include "vm/base/arch.h"
#include "vm/base/problem.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Two things are determined at the start, by running programs: the version of QEMU, and whether KVM is
 * usable. An answer is a fact about this host. That a program was killed, was too slow, or could not be started
 * because memory was short is not; if it were treated as one, there would be no machines until the next mount.
 * So the probe is repeated: a few times at once, while sandboxes that need a machine wait, then in the background.
 *
 * For a daemon that goes on where another one has died they are facts still, and it does not ask again: a trial takes a second of a
 * processor, and machines would wait for it.
 *
 * Facts can change too: QEMU gets installed, permissions of /dev/kvm change. So if there can be no machines, and a
 * sandbox needs one, the probe is repeated.
 */

#define VERSION_MS     5000
#define EAGER_TRIES    3u
#define SOON_MS	       100u
#define LATER_MS       10000u
#define WANTED_MS      3000u /* between two looks for those who need a machine */
#define QEMU_MIN_MAJOR 7
#define QEMU_MIN_MINOR 2

/* Takes "QEMU emulator version 7.2.22 (...)" apart. Return: 0 or -EPROTO. */
static int parse_version(const char *text, char *out, size_t size)
{
	static const char before[] = "QEMU emulator version ";
	const char *v = strstr(text, before);

	if (!v)
		return -EPROTO;
	v += strlen(before);
	snprintf(out, size, "%.*s", (int)MIN(strcspn(v, " \n"), (size_t)32), v);
	return 0;
}

/* What has no numbers is given the chance to work. */
static bool new_enough(const char *version)
{
	return !isdigit((unsigned char)*version) ||
	       qemu_at_least(version, QEMU_MIN_MAJOR, QEMU_MIN_MINOR);
}

/* What is settled by the two answers. */
static void decide(struct probe *p)
{
	const bool undecided = p->kvm.state == KVM_UNDECIDED;
	const bool kvm = p->kvm.state == KVM_USABLE || (p->wish == ACCEL_KVM && undecided);

	p->accel = p->wish != ACCEL_TCG && kvm ? "kvm" : "tcg";
	p->unclear = p->qemu_unclear || (p->wish != ACCEL_TCG && undecided);
	p->fatal = true;
	if (!p->qemu_ok) {
		problem_set(&p->problem, PROBLEM_NO_QEMU,
			    p->qemu_unclear
				    ? "It is asked again soon; if that goes on, see whether the "
				      "host is short of memory or processes."
				    : "Install QEMU (Debian: " ARCH_QEMU_PACKAGE
				      "), or set `qemu` to "
				      "the program; then mount again.",
			    "%s", p->qemu);
	} else if (!new_enough(p->qemu)) {
		problem_set(&p->problem, PROBLEM_OLD_QEMU, "Install QEMU 7.2 or later.",
			    "QEMU %s is too old: 7.2 is needed", p->qemu);
	} else if (p->wish == ACCEL_KVM && !kvm) {
		problem_set(
			&p->problem, PROBLEM_KVM_UNUSABLE,
			p->kvm.state == KVM_DENIED
				? "Give whoever mounts rights on /dev/kvm (usermod -aG kvm USER, "
				  "and "
				  "log in again), or set `accel` to auto or tcg."
				: "Set `accel` to auto or tcg, or mount on a host with a working "
				  "KVM.",
			"the configuration asks for KVM, but: %s", p->kvm.why);
	} else {
		p->fatal = false;
		p->problem.code = PROBLEM_NONE;
	}
}

/* ---- asking ---- */

/* Nothing but the want of something on the host. */
static bool passing(int err)
{
	return err == -EAGAIN || err == -ENOMEM || err == -EMFILE || err == -ENFILE ||
	       err == -EINTR;
}

/* What came of `qemu --version`. */
static void take_version(struct probe *p, const char *output, int err, bool late, int status)
{
	p->qemu_unclear = false;
	p->qemu_ok = !err && status == 0 && parse_version(output, p->qemu, sizeof(p->qemu)) == 0;
	if (p->qemu_ok)
		return;
	if (err) {
		p->qemu_unclear = passing(err);
		snprintf(p->qemu, sizeof(p->qemu), "QEMU could not be run: %s", strerror(-err));
	} else if (late) {
		p->qemu_unclear = true;
		snprintf(p->qemu, sizeof(p->qemu), "QEMU did not tell its version in time");
	} else if (WIFSIGNALED(status)) {
		p->qemu_unclear = true;
		snprintf(p->qemu, sizeof(p->qemu),
			 "QEMU was killed by signal %d (%s) when it was asked for its version",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	} else {
		/* One that ends well and says nothing had nowhere to say it. */
		p->qemu_unclear = status == 0 && !*output;
		snprintf(p->qemu, sizeof(p->qemu), "QEMU did not tell its version (exit status %d)",
			 WEXITSTATUS(status));
	}
}

static void on_closed(uv_handle_t *handle)
{
	struct probe *p = handle->data;

	p->on_closed(p);
}

static void on_timer(uv_timer_t *timer);

/* Soon at first, while machines are held back for it; then less and less often. */
static void settle(struct probe *p)
{
	const bool was_done = p->done, was_fatal = p->fatal;
	const char *const was = p->accel;
	uint64_t ms;

	decide(p);
	p->tries = p->unclear ? p->tries + 1 : 0;
	p->done = was_done || !p->unclear || !p->fatal || p->tries > EAGER_TRIES;
	if (p->unclear) {
		ms = p->done ? LATER_MS << MIN(p->tries - 1, 6u) : SOON_MS << 2 * (p->tries - 1);
		uv_timer_start(&p->timer, on_timer, ms, 0);
	}
	if (!p->done)
		p->accel = was;
	else if (!was_done || was_fatal != p->fatal || strcmp(was, p->accel) != 0)
		p->on_done(p);
}

static void answered(struct probe *p)
{
	if (--p->pending)
		return;
	if (p->closing)
		uv_close((uv_handle_t *)&p->timer, on_closed);
	else
		settle(p);
}

static void on_version(struct program *said)
{
	take_version(said->data, said->output, said->failed, said->late, said->status);
	answered(said->data);
}

static void on_trial(struct program *said)
{
	struct probe *p = said->data;

	if (said->len == sizeof(p->kvm) && !said->late) {
		memcpy(&p->kvm, said->output, sizeof(p->kvm));
		p->kvm.why[sizeof(p->kvm.why) - 1] = '\0';
	} else {
		kvm_verdict_none(&p->kvm, said->late);
		if (passing(said->failed) || WIFSIGNALED(said->status))
			p->kvm.state = KVM_UNDECIDED;
	}
	answered(p);
}

/* Asks what is not known to be good. Return: 0, or -errno if nothing is asked. */
static int ask(struct probe *p)
{
	const struct order version = {.program = ORDER_QEMU_VERSION};
	const struct order trial = {.program = ORDER_KVM_TRIAL};
	int r = 0;

	p->asked_at = uv_now(p->loop);
	p->version = (struct program){.limit_ms = VERSION_MS, .over = on_version, .data = p};
	p->trial = (struct program){.limit_ms = KVM_PROBE_MS, .over = on_trial, .data = p};
	if (!p->qemu_ok || p->fatal) {
		r = program_start(&p->version, p->loop, p->spawner, &version, sizeof(version));
		if (r == 0)
			p->pending++;
		else
			take_version(p, "", r, false, 0);
	}
	if (p->wish == ACCEL_TCG || p->kvm.state == KVM_USABLE)
		return p->pending ? 0 : r;
	if (program_start(&p->trial, p->loop, p->spawner, &trial, sizeof(trial)) == 0)
		p->pending++;
	else
		kvm_verdict_none(&p->kvm, false);
	return p->pending ? 0 : r;
}

static void ask_again(struct probe *p)
{
	if (ask(p) < 0)
		settle(p);
}

static void on_timer(uv_timer_t *timer)
{
	ask_again(timer->data);
}

static void begin(struct probe *p, uv_loop_t *loop, struct spawner *sp, enum accel_wish wish,
		  void (*on_done)(struct probe *p))
{
	p->wish = wish;
	p->accel = "probing";
	p->on_done = on_done;
	p->loop = loop;
	p->spawner = sp;
}

int probe_start(struct probe *p, uv_loop_t *loop, struct spawner *sp, enum accel_wish wish,
		void (*on_done)(struct probe *p))
{
	int r;

	begin(p, loop, sp, wish, on_done);
	r = ask(p);
	if (r < 0)
		return r;
	uv_timer_init(loop, &p->timer);
	p->timer.data = p;
	return 0;
}

/* ---- for the next daemon ---- */

/* Never reuse. */
enum probe_tag {
	TAG_KVM_STATE = 1,
	TAG_KVM_WHY,
	TAG_QEMU,
};

void probe_prepare(struct probe *p, uv_loop_t *loop, struct spawner *sp, enum accel_wish wish,
		   void (*on_done)(struct probe *p))
{
	begin(p, loop, sp, wish, on_done);
	uv_timer_init(loop, &p->timer);
	p->timer.data = p;
}

void probe_go(struct probe *p)
{
	if (!p->loop || p->done || p->pending || p->closing)
		return;
	if (p->known)
		settle(p);
	else
		ask_again(p);
}

bool probe_is_known(const struct probe *p)
{
	return p->done && !p->unclear && !p->fatal && p->qemu_ok;
}

void probe_put(const struct probe *p, struct buf *out)
{
	record_u64(out, TAG_KVM_STATE, p->kvm.state);
	record_str(out, TAG_KVM_WHY, p->kvm.why);
	record_str(out, TAG_QEMU, p->qemu);
}

int probe_get(struct probe *p, struct record_reader fields)
{
	struct record_field f;
	uint32_t state = 0;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_KVM_STATE)
			r = record_get_u32(&f, KVM_USABLE, &state);
		else if (f.tag == TAG_KVM_WHY)
			r = record_get_str(&f, p->kvm.why, sizeof(p->kvm.why));
		else if (f.tag == TAG_QEMU)
			r = record_get_str(&f, p->qemu, sizeof(p->qemu));
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	p->kvm.state = state;
	p->known = p->qemu_ok = p->qemu[0] != '\0';
	return 0;
}

void probe_want(struct probe *p)
{
	if (!p->loop || !p->done || !p->fatal || p->pending || p->closing ||
	    uv_now(p->loop) - p->asked_at < WANTED_MS)
		return;
	uv_timer_stop(&p->timer);
	p->done = false;
	p->tries = 0;
	ask_again(p);
}

void probe_close(struct probe *p, void (*closed)(struct probe *p))
{
	p->closing = true;
	p->on_closed = closed;
	uv_timer_stop(&p->timer);
	if (p->version.nopen)
		child_kill(&p->version.child);
	if (p->trial.nopen)
		child_kill(&p->trial.child);
	if (!p->pending)
		uv_close((uv_handle_t *)&p->timer, on_closed);
}

/* ---- without a loop ---- */

/* Runs `qemu --version` with its output in @out. Return: 0 or -errno. */
static int version_sync(const char *qemu, char *out, size_t size, int *ret_status)
{
	_cleanup_close_ int ours = -1;
	size_t len = 0;
	ssize_t n;
	pid_t pid;
	int p[2];

	*ret_status = 0;
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	ours = p[0];
	pid = fork();
	if (pid == 0) {
		dup2(p[1], STDOUT_FILENO);
		execlp(qemu, qemu, "--version", (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	if (pid < 0)
		return -errno;
	while ((n = read(ours, out + len, size - 1 - len)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	waitpid(pid, ret_status, 0);
	return WIFEXITED(*ret_status) && WEXITSTATUS(*ret_status) == 127 ? -ENOENT : 0;
}

static void not_tied(int data)
{
	(void)data;
}

/* Makes the trial's process, which writes to @fd. Return: its id, or -errno. */
static pid_t fork_trial(const struct jail_spec *spec, struct jail_cell *cell, int fd)
{
	_cleanup_close_ int pidfd = -1;
	struct jail_fault fault;
	int go = -1;
	pid_t pid = jail_clone(spec, cell, &pidfd, &go, &fault);

	if (pid != 0)
		return pid;
	if (jail_join(cell, &fault) == 0 && jail_enter(spec, cell, go, not_tied, 0, &fault) == 0)
		kvm_probe_child(fd);
	_exit(1);
}

/* As the spawner's, without a loop and a spawner. */
static void trial_sync(struct kvm_verdict *ret_verdict, const char *qemu)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	struct pollfd p = {.events = POLLIN};
	struct jail_cell cell = {.into = -1};
	struct jail_fault fault;
	struct qemu_jail jail;
	bool late;
	int fds[2];
	pid_t pid;

	kvm_verdict_none(ret_verdict, false);
	if (qemu_jail(qemu, true, KVM_PROBE_MB, 1, &jail) < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return;
	ours = fds[0];
	theirs = fds[1];
	/* Without a place there may still be the groups that places are made in. */
	pid = jail_place(&jail.spec, &cell, &fault) < 0 ? -1
							: fork_trial(&jail.spec, &cell, theirs);
	close(steal_fd(&theirs));
	if (pid > 0) {
		p.fd = ours;
		late = poll(&p, 1, KVM_PROBE_MS) == 0;
		if (late || read(ours, ret_verdict, sizeof(*ret_verdict)) != sizeof(*ret_verdict))
			kvm_verdict_none(ret_verdict, late);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	jail_release(&cell);
	jail_cgroup_remove_all();
}

void probe_sync(struct probe *p, const char *qemu, const char *wish)
{
	char text[512] = "";
	int status;

	if (accel_wish_parse(wish, &p->wish) < 0)
		p->wish = ACCEL_AUTO;
	do {
		const int r = version_sync(qemu, text, sizeof(text), &status);

		take_version(p, text, r, false, status);
	} while (p->qemu_unclear && ++p->tries < EAGER_TRIES);
	if (p->wish != ACCEL_TCG)
		trial_sync(&p->kvm, qemu);
	decide(p);
	p->done = true;
}

const char *probe_why(const struct probe *p)
{
	if (!p->done)
		return "KVM is being tried out.";
	if (p->wish == ACCEL_TCG)
		return "The configuration asks for emulation.";
	return p->kvm.why;
}
