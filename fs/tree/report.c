/* SPDX-License-Identifier: Apache-2.0 */
/* The `doctor` and `isolation` nodes. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "fs/session/fs.h"
#include "vm/base/turn.h"

#define FUSE_PAGES 256u /* what libfuse and we ask for: 1 MiB */

struct checks {
	struct buf *out;
	bool failed;
	int err;
};

static void check(void *data, const char *name, enum vm_level level, const char *found,
		  const char *fix)
{
	static const char *const words[] = {"ok", "warn", "fail"};
	struct checks *c = data;
	int e;

	_Static_assert(ARRAY_SIZE(words) == VM_NLEVELS, "a word for each level");
	c->failed = c->failed || level == VM_FAIL;
	e = buf_printf(c->out, "%-4s %s: %s%s%s\n", words[level], name, found, fix[0] ? " -- " : "",
		       fix);
	if (e < 0)
		c->err = e;
}

unsigned report_request_timeout(void)
{
	static const char *const paths[] = {"/proc/sys/fs/fuse/default_request_timeout",
					    "/proc/sys/fs/fuse/max_request_timeout"};
	unsigned least = 0;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_file_ FILE *f = fopen(paths[i], "re");
		unsigned v;

		if (f && fscanf(f, "%u", &v) == 1 && v && (!least || v < least))
			least = v;
	}
	return least;
}

/* Checks how many bytes the kernel puts into one request. */
static void check_transfers(struct checks *c)
{
	_cleanup_file_ FILE *f = fopen("/proc/sys/fs/fuse/max_pages_limit", "re");
	char found[128];
	unsigned pages;

	if (!f || fscanf(f, "%u", &pages) != 1)
		return;
	snprintf(found, sizeof(found), "at most %u pages at once", pages);
	check(c, "fuse transfers", pages < FUSE_PAGES ? VM_WARN : VM_OK, found,
	      pages < FUSE_PAGES ? "sysctl fs.fuse.max_pages_limit=256: until then long reads and "
				   "writes take more requests, and more time"
				 : "");
}

static bool has_line(const char *path, const char *want)
{
	_cleanup_file_ FILE *f = fopen(path, "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, " \t\r\n")] = '\0';
		if (strcmp(line, want) == 0)
			return true;
	}
	return false;
}

/* What a user who is not root needs to mount at all, and for others. */
static void check_rights(struct checks *c, const struct conf *conf)
{
	if (geteuid() == 0)
		return;
	if (access("/usr/bin/fusermount3", X_OK) < 0 && access("/bin/fusermount3", X_OK) < 0)
		check(c, "fusermount3", VM_FAIL, "it is not installed",
		      "only root can mount without it: apt-get install fuse3");
	if (has_line("/etc/fuse.conf", "user_allow_other"))
		check(c, "fuse allow_other", VM_OK, "every user may ask for it", "");
	else
		check(c, "fuse allow_other", conf->allow_other ? VM_FAIL : VM_OK,
		      "only root may ask for it",
		      conf->allow_other ? "write a line user_allow_other into /etc/fuse.conf" : "");
}

static void check_fuse(struct checks *c, const struct conf *conf)
{
	unsigned timeout = report_request_timeout();
	char found[128];

	if (access("/dev/fuse", F_OK) < 0)
		check(c, "fuse", VM_FAIL, "there is no /dev/fuse", "modprobe fuse, as root");
	else
		check(c, "fuse", VM_OK, "/dev/fuse is there", "");
	check_transfers(c);
	check_rights(c, conf);
	snprintf(found, sizeof(found), "%u s (0: none)", timeout);
	check(c, "fuse request timeout", timeout ? VM_WARN : VM_OK, found,
	      timeout ? "sysctl fs.fuse.default_request_timeout=0 fs.fuse.max_request_timeout=0: "
			"until then waiting reads are interrupted in time and tried again"
		      : "");
}

/* Free bytes where @dir is, or will be made at the first mount; waits for the disk. Return: or -errno. */
static int64_t look_for_room(const char *dir)
{
	char path[PATH_MAX], *slash;
	struct statvfs st;
	int r;

	snprintf(path, sizeof(path), "%s", dir);
	while ((r = statvfs(path, &st)) < 0 && errno == ENOENT && (slash = strrchr(path, '/')) &&
	       slash > path)
		*slash = '\0';
	return r < 0 ? -errno : (int64_t)(st.f_bavail * st.f_frsize);
}

/* @room: bytes that are free, or -errno. */
static void check_disk(struct checks *c, const struct conf *conf, int64_t room)
{
	char found[256];

	if (room < 0) {
		snprintf(found, sizeof(found), "%s: %s", conf->spool_dir, strerror((int)-room));
		check(c, "spool directory", VM_FAIL, found,
		      "make it, or name another as spool_dir");
		return;
	}
	room >>= 20;
	snprintf(found, sizeof(found), "%lld MiB free in %s", (long long)room, conf->spool_dir);
	check(c, "spool directory", room < 512 ? VM_WARN : VM_OK, found,
	      room < 512 ? "long outputs go there: free some space, or name another as spool_dir"
			 : "");
}

/* Which names of packages may be asked for. */
static void check_lists(struct checks *c, const struct conf *conf)
{
	static const char *const names[] = {
		[PACKAGES_PYTHON] = "of Python's", [PACKAGES_NPM] = "of npm's"};
	char found[128] = "";
	bool empty = false;

	_Static_assert(ARRAY_SIZE(names) == PACKAGES_NKINDS, "a name for each kind");
	for (int i = 0; i < PACKAGES_NKINDS; i++) {
		const struct packages_list *l = &conf->packages.list[i];
		const size_t len = strlen(found);

		empty = empty || (!l->any && !l->n);
		if (l->any)
			snprintf(found + len, sizeof(found) - len, "any %s, ", names[i]);
		else
			snprintf(found + len, sizeof(found) - len, "%zu %s, ", l->n, names[i]);
	}
	snprintf(found + strlen(found) - 2, 32, " may be asked for");
	check(c, "package names", empty ? VM_WARN : VM_OK, found,
	      empty ? "Install the whole package, which has lists of names, or name lists in "
		      "[packages]: python_list, npm_list"
		    : "");
}

/* What sessions may ask for. */
static void check_networks(struct checks *c, const struct conf *conf)
{
	const char *most = conf->limits.max_allow;
	const struct vm_host_ports *ports = &conf->limits.host_ports;
	char found[800];

	if (!conf->allow_network)
		snprintf(found, sizeof(found), "none ([limits] allow_network)");
	else if (most && strcmp(most, "*") == 0)
		snprintf(found, sizeof(found), "to every public host that they name");
	else if (most)
		snprintf(found, sizeof(found), "at most ([limits] max_allow): %.300s",
			 *most ? most : "ports alone");
	else
		snprintf(found, sizeof(found),
			 "to every host that they name, private ones too ([limits] max_allow = "
			 "any)");
	for (unsigned i = 0; conf->allow_network && i < ports->n; i++) {
		const size_t len = strlen(found);

		snprintf(found + len, sizeof(found) - len, "%s%u",
			 i ? " " : "; of this machine, as host.internal, ports ", ports->port[i]);
	}
	if (conf->allow_network && conf->vm.upstream && *conf->vm.upstream) {
		const size_t len = strlen(found);

		snprintf(found + len, sizeof(found) - len, "; by the proxy %.100s",
			 conf->vm.upstream);
	}
	check(c, "networks of sessions", VM_OK, found, "");
}

#define AUDIT_LOW \
	(64 << 20) /* bytes: what it has before it is rotated, unless it is said otherwise */

/* Of one that is in use; a daemon can't try it, for it has no more than that file. */
static void check_audit_used(struct checks *c, const struct audit *a)
{
	char found[400];

	snprintf(found, sizeof(found), "%.200s: %" PRIu64 " lines, %" PRIu64 " were lost",
		 a->file.path, a->lines, a->lost);
	if (a->failing)
		check(c, "audit log", VM_FAIL, found,
		      "it can't be written: the log says why; make room for it, or let the daemon "
		      "have it");
	else if (a->stuck)
		check(c, "audit log", VM_WARN, found,
		      "it can't be rotated, and grows: the log says why");
	else
		check(c, "audit log", a->lost ? VM_WARN : VM_OK, found,
		      a->lost ? "the line behind them says how many; for none to be lost: "
				"audit_required = yes"
			      : "");
}

/* @fs: NULL: there is no mount, and it is looked whether one could begin. */
static void check_audit(struct checks *c, const struct conf *conf, const struct fs *fs)
{
	const char *misplaced = audit_misplaced(conf), *path = conf->audit_file;
	char found[400];
	int64_t room;
	int e;

	if (fs && fs->audit)
		check_audit_used(c, fs->audit);
	if (fs || !path)
		return;
	e = rotated_probe(path);
	room = e < 0 ? 0 : look_for_room(path);
	if (e < 0) {
		snprintf(found, sizeof(found), "%.200s: %s", path, strerror(-e));
		check(c, "audit log", VM_FAIL, found,
		      *misplaced ? misplaced
				 : "no mount begins without: let whoever mounts write there, or "
				   "name another file as audit_file");
	} else if (conf->audit_rotate_mb && (e = rotated_probe_names(path)) < 0) {
		snprintf(found, sizeof(found), "%.200s can be written, but not rotated: %s", path,
			 strerror(-e));
		check(c, "audit log", VM_WARN, found,
		      "let whoever mounts write to its directory, or have it rotated otherwise: "
		      "audit_rotate_mb = 0");
	} else if (room >= 0 && room < AUDIT_LOW) {
		snprintf(found, sizeof(found), "%.200s: %lld MiB free", path,
			 (long long)(room >> 20));
		check(c, "audit log", VM_WARN, found, "make room for it");
	} else {
		snprintf(found, sizeof(found), "%.200s can be written", path);
		check(c, "audit log", VM_OK, found, "");
	}
}

/* What becomes of the mount without the daemon. @fs: NULL: there is none. */
static void check_death(struct checks *c, const struct conf *conf, const struct fs *fs)
{
	static const char name[] = "death of the daemon";

	if (!conf->survive)
		check(c, name, VM_OK, "ends the mount (survive = no)", "");
	else if (conf->keep && conf->vm.key_command)
		check(c, name, VM_OK,
		      "ends the mount (the next one could not have the key of key_command)", "");
	else if (!fs)
		check(c, name, VM_OK, "another one goes on (survive = yes)", "");
	else if (turn_is_on(fs->touched.turn) && !fs->unheld)
		check(c, name, VM_OK,
		      "another one goes on: xsbxfs-spawner starts it, and xsbxfs-holder has the "
		      "descriptors for it",
		      "");
	else if (turn_is_on(fs->touched.turn))
		check(c, name, VM_WARN,
		      "would end the mount: xsbxfs-holder, which had the descriptors for another "
		      "one, has ended",
		      "wait for the next, which is started after a while");
	else
		check(c, name, VM_WARN, "would end the mount, although survive = yes",
		      "see the log for what was in the way; mount again");
}

/* @fs: the mount; or NULL: there is none. @room: on the disk for long outputs. */
static int doctor(struct fs *fs, const struct conf *conf, int64_t room, struct buf *out,
		  bool *ret_failed)
{
	struct checks c = {.out = out};

	check_fuse(&c, conf);
	check_death(&c, conf, fs);
	check_disk(&c, conf, room);
	check_audit(&c, conf, fs);
	vm_doctor(fs ? fs->vm : NULL, &conf->vm, check, &c);
	check_networks(&c, conf);
	check_lists(&c, conf);
	*ret_failed = c.failed;
	return c.err;
}

int report_check(const struct conf *conf, struct buf *out, bool *ret_failed)
{
	return doctor(NULL, conf, look_for_room(conf->spool_dir), out, ret_failed);
}

int report_doctor(const struct node *n, struct buf *out)
{
	struct fs *fs = n->fs;
	bool failed;

	/* The last known room: asking a disk that hangs would stop the loop. */
	return doctor(fs, fs->conf, fs->depot.room, out, &failed);
}

static void isolation_line(void *data, const char *key, const char *value)
{
	(void)buf_printf(data, "%s: %s\n", key, value);
}

/* The other processes of the mount. The daemon can't look at them: it is told here what they are made to be. */
static void tell_processes(const struct fs *fs, struct buf *out)
{
	isolation_line(out, "xsbxfs-spawner",
		       "starts what is needed, by rules of before the first sandbox, with the "
		       "rights of who mounted");
	if (!turn_is_on(fs->touched.turn))
		return;
	isolation_line(
		out, "xsbxfs-holder",
		fs->unheld
			? "none: it has ended, and another one is on its way"
			: "has a copy of the daemon's descriptors, for the next daemon; seccomp: "
			  "sends, receives, waits and closes; capabilities: none");
}

int report_isolation(const struct node *n, struct buf *out)
{
	struct fs *fs = n->fs;
	vm_isolation(fs->vm, isolation_line, out);
	if (fs->tell_confinement)
		fs->tell_confinement(isolation_line, out);
	tell_processes(fs, out);
	isolation_line(out, "mount",
		       fs->conf->allow_other ? "every user; each session is its maker's (mode "
					       "0700, checked by the kernel)"
					     : "only the user who mounted");
	isolation_line(out, "owner", owner_words(fs->shown));
	return 0;
}
