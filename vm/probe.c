/* SPDX-License-Identifier: Apache-2.0 */
/* What this host can run machines with. */
#include "probe.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "jail_internal.h"
#include "order.h"
#include "qemu_cpu.h"
#include "qemu_jail.h"
#include "trouble.h"
#include "util.h"

#define VERSION_MS     5000
#define AGAIN_MS       60000u
#define NS_PER_MS      1000000ull
#define QEMU_MIN_MAJOR 7
#define QEMU_MIN_MINOR 2

static const char *const wish_str[] = {
	[ACCEL_AUTO] = "auto", [ACCEL_KVM] = "kvm", [ACCEL_TCG] = "tcg"};
static_assert(ARRAY_SIZE(wish_str) == ACCEL_NWISHES, "a name for each wish");

int accel_wish_parse(const char *name, enum accel_wish *ret_wish)
{
	for (unsigned i = 0; i < ACCEL_NWISHES; i++) {
		if (strcmp(name, wish_str[i]) == 0) {
			*ret_wish = i;
			return 0;
		}
	}
	return -EINVAL;
}

int probe_parse_version(const char *text, char *out, size_t size)
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
	const bool kvm = p->kvm.state == KVM_USABLE ||
			 (p->wish == ACCEL_KVM && p->kvm.state == KVM_UNDECIDED);

	p->accel = p->wish != ACCEL_TCG && kvm ? "kvm" : "tcg";
	if (!p->qemu_ok) {
		p->fatal = true;
		trouble_set(&p->problem, "no-qemu",
			    "Install QEMU (Debian: qemu-system-x86), or set `qemu` to the program.",
			    "%s", p->qemu);
	} else if (!new_enough(p->qemu)) {
		p->fatal = true;
		trouble_set(&p->problem, "old-qemu", "Install QEMU 7.2 or later.",
			    "QEMU %s is too old: 7.2 is needed", p->qemu);
	} else if (p->wish == ACCEL_KVM && !kvm) {
		p->fatal = true;
		trouble_set(&p->problem, "kvm-unusable",
			    "Set `accel` to auto or tcg, or mount on a host with a working KVM.",
			    "the configuration asks for KVM, but: %s", p->kvm.why);
	}
}

static void answered(struct probe *p)
{
	if (--p->pending)
		return;
	decide(p);
	p->again_at = uv_hrtime() + AGAIN_MS * NS_PER_MS;
	p->done = true;
	p->on_done(p);
}

static void on_version(struct capture *c)
{
	struct probe *p = c->data;

	p->qemu_ok = !c->failed && c->status == 0 &&
		     probe_parse_version(c->output, p->qemu, sizeof(p->qemu)) == 0;
	if (p->qemu_ok)
		;
	else if (c->failed)
		snprintf(p->qemu, sizeof(p->qemu), "QEMU could not be run: %s",
			 strerror(-c->failed));
	else
		snprintf(p->qemu, sizeof(p->qemu), "QEMU did not tell its version%s",
			 c->late ? " in time" : "");
	answered(p);
}

static void on_trial(struct capture *c)
{
	struct probe *p = c->data;

	if (c->len == sizeof(p->kvm) && !c->late) {
		memcpy(&p->kvm, c->output, sizeof(p->kvm));
		p->kvm.why[sizeof(p->kvm.why) - 1] = '\0';
	} else {
		kvm_verdict_none(&p->kvm, c->late);
	}
	answered(p);
}

/* Return: 0 or -errno. */
static int start_trial(struct probe *p)
{
	const struct order trial = {.program = ORDER_KVM_TRIAL};
	int r;

	p->trial = (struct capture){.data = p};
	r = capture_start(&p->trial, p->loop, p->spawner, &trial, sizeof(trial), KVM_PROBE_MS,
			  on_trial);
	if (r == 0)
		p->pending++;
	return r;
}

int probe_start(struct probe *p, uv_loop_t *loop, struct spawner *sp, enum accel_wish wish,
		void (*on_done)(struct probe *p))
{
	const struct order version = {.program = ORDER_QEMU_VERSION};
	int r;

	p->wish = wish;
	p->accel = "probing";
	p->loop = loop;
	p->spawner = sp;
	p->on_done = on_done;
	p->version.data = p;
	r = capture_start(&p->version, loop, sp, &version, sizeof(version), VERSION_MS, on_version);
	if (r < 0)
		return r;
	p->pending = 1;
	if (wish != ACCEL_TCG && start_trial(p) < 0)
		kvm_verdict_none(&p->kvm, false);
	return 0;
}

bool probe_again(struct probe *p)
{
	return p->done && !p->pending && !p->fatal && p->wish == ACCEL_AUTO &&
	       p->kvm.state == KVM_UNDECIDED && uv_hrtime() >= p->again_at && start_trial(p) == 0;
}

/* Runs `qemu --version` with its output in @out. Return: 0 or -errno. */
static int version_sync(const char *qemu, char *out, size_t size)
{
	_cleanup_close_ int ours = -1;
	int p[2], status = 0;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

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
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? -ENOENT : 0;
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

/* As start_trial(), without a loop and a spawner. */
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
	if (jail_place(&jail.spec, &cell, &fault) < 0)
		return;
	pid = fork_trial(&jail.spec, &cell, theirs);
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
	jail_release_all();
}

void probe_sync(struct probe *p, const char *qemu, const char *wish)
{
	char text[512];
	int r;

	if (accel_wish_parse(wish, &p->wish) < 0)
		p->wish = ACCEL_AUTO;
	r = version_sync(qemu, text, sizeof(text));
	p->qemu_ok = r == 0 && probe_parse_version(text, p->qemu, sizeof(p->qemu)) == 0;
	if (!p->qemu_ok)
		snprintf(p->qemu, sizeof(p->qemu), "%s could not be run: %s", qemu,
			 r < 0 ? strerror(-r) : "it did not tell its version");
	if (p->wish != ACCEL_TCG)
		trial_sync(&p->kvm, qemu);
	decide(p);
	p->done = true;
}

void probe_cut(struct probe *p)
{
	capture_kill(&p->version);
	if (p->wish != ACCEL_TCG)
		capture_kill(&p->trial);
}

const char *probe_why(const struct probe *p)
{
	if (!p->done)
		return "KVM is being tried out.";
	if (p->wish == ACCEL_TCG)
		return "The configuration asks for emulation.";
	return p->kvm.why;
}
