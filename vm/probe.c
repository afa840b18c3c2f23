/* SPDX-License-Identifier: Apache-2.0 */
/* What this host can run machines with. */
#include "probe.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#include "order.h"
#include "qemu_cpu.h"
#include "trouble.h"
#include "util.h"

#define VERSION_MS     5000
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
	p->accel = p->wish != ACCEL_TCG && p->kvm.usable ? "kvm" : "tcg";
	if (!p->qemu_ok) {
		p->fatal = true;
		trouble_set(&p->problem, "no-qemu",
			    "Install QEMU (Debian: qemu-system-x86), or set `qemu` to the program.",
			    "%s", p->qemu);
	} else if (!new_enough(p->qemu)) {
		p->fatal = true;
		trouble_set(&p->problem, "old-qemu", "Install QEMU 7.2 or later.",
			    "QEMU %s is too old: 7.2 is needed", p->qemu);
	} else if (p->wish == ACCEL_KVM && !p->kvm.usable) {
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

int probe_start(struct probe *p, uv_loop_t *loop, struct spawner *sp, enum accel_wish wish,
		void (*on_done)(struct probe *p))
{
	const struct order version = {.program = ORDER_QEMU_VERSION};
	const struct order trial = {.program = ORDER_KVM_TRIAL};
	int r;

	p->wish = wish;
	p->accel = "probing";
	p->on_done = on_done;
	p->version.data = p->trial.data = p;
	p->pending = 1;
	r = capture_start(&p->version, loop, sp, &version, sizeof(version), VERSION_MS, on_version);
	if (r < 0 || wish == ACCEL_TCG)
		return r;
	p->pending++;
	r = capture_start(&p->trial, loop, sp, &trial, sizeof(trial), KVM_PROBE_MS, on_trial);
	if (r < 0) {
		p->pending--;
		kvm_verdict_none(&p->kvm, false);
	}
	return 0;
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
		kvm_probe_sync(&p->kvm);
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
