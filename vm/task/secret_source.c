/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches the value of a secret, and hands it on without anybody else seeing it. */
#include "secret_source.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vm/base/allow.h"
#include "vm/base/ms.h"
#include "vm/base/path.h"
#include "vm/base/secret_file.h"
#include "vm/base/secret_list.h"
#include "vm/base/secret_use.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A child of the spawner, for one value: it reads a file, or runs a command, with the rights of whoever has written that down,
 * and writes what comes of it into a pipe of which the other end is in the network's filter. The daemon gets words only. Nothing
 * here has to be quick, or to live long; it ends with exit status 0, and whether there is a value the filter sees for itself.
 *
 * A file is no link, regular, of root or of whoever mounts (of the owner himself, if it is named in his own file), and nobody
 * else may read it. An owner's own file of secrets names commands: it must not lie where a sandbox, or a daemon that was taken
 * over, could have written it.
 */

#define WORDS_MAX	64
#define SAID_MAX	2048
#define OUTPUT_MAX	(SECRET_VALUE_MAX + 256)
#define SECRET_PART_MIN 4 /* bytes of a value that say something of it */

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

static void say(const char *kind, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
static void say(const char *kind, const char *fmt, va_list ap)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "%s ", kind);

	n += vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	n = MIN(n, (int)sizeof(text) - 2);
	for (int i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = ' ';
	text[n] = '\n';
	(void)!write(SECRET_SOURCE_WORDS, text, (size_t)n + 1);
}

static void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
static void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("failed", fmt, ap);
	va_end(ap);
	_exit(0);
}

static void tell(const char *kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void tell(const char *kind, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(kind, fmt, ap);
	va_end(ap);
}

static void hand_over(const char *bytes, size_t len)
{
	while (len > 0) {
		const ssize_t n = write(SECRET_SOURCE_VALUE, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0); /* nobody wants it any more */
		bytes += n;
		len -= (size_t)n;
	}
}

/* ---- what is asked for ---- */

struct request {
	char text[SECRET_SOURCE_REQUEST_MAX + 1];
	const char *file, *places;
};

static void read_request(struct request *r)
{
	const ssize_t n = pread(SECRET_SOURCE_REQUEST, r->text, SECRET_SOURCE_REQUEST_MAX, 0);
	const char *zero = n > 0 ? memchr(r->text, '\0', (size_t)n) : NULL;

	if (!zero || r->text[n - 1] || zero == r->text + n - 1)
		fail("the request is malformed");
	r->file = r->text;
	r->places = zero + 1;
}

/* Does an entry of the secret's hosts cover that of a place? Both have a port. */
static bool covers(const struct allow_entry *most, const struct allow_entry *e)
{
	const bool port = most->port == e->port;

	switch (most->kind) {
	case ALLOW_NAME: return port && e->kind == ALLOW_NAME && !strcmp(e->name, most->name);
	case ALLOW_ADDRESS: return port && e->kind == ALLOW_ADDRESS && e->address == most->address;
	case ALLOW_BELOW:
		return port && ((e->kind == ALLOW_BELOW && !strcmp(e->name, most->name)) ||
				((e->kind == ALLOW_NAME || e->kind == ALLOW_BELOW) &&
				 allow_is_below(e->name, most->name)));
	case ALLOW_ALL: break;
	}
	return false;
}

/* It goes to all of the places, or nowhere. */
static void check_hosts(const struct vm_secret *s, const char *places)
{
	struct allow hosts, wanted;
	char why[128];

	if (allow_parse(s->hosts, strlen(s->hosts), &hosts, why) < 0 ||
	    allow_parse(places, strlen(places), &wanted, why) < 0)
		fail("its hosts: %s", why);
	for (size_t i = 0; i < wanted.nentries; i++) {
		const struct allow_entry *e = &wanted.entries[i];
		bool covered = false;

		for (size_t k = 0; k < hosts.nentries; k++)
			covered = covered || (e->port && covers(&hosts.entries[k], e));
		if (!covered)
			fail("it may not be sent to %s: its hosts are %s", e->name, s->hosts);
	}
	allow_fini(&hosts);
	allow_fini(&wanted);
}

/* ---- files ---- */

static int open_private(const char *path, uid_t owner, bool root)
{
	char why[SECRET_FILE_WHY];
	const int fd = secret_file_open(path, owner, root, why);

	if (fd < 0)
		fail("%s", why);
	return fd;
}

/* Return: how much, at most @size. */
static size_t read_all(int fd, char *to, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size && (n = read(fd, to + len, size - len)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			fail("it cannot be read: %s", strerror(errno));
		len += (size_t)n;
	}
	return len;
}

static void hand_over_file(const char *path, uid_t owner, bool root)
{
	static char bytes[OUTPUT_MAX];
	const int fd = open_private(path, owner, root);
	const size_t len = read_all(fd, bytes, sizeof(bytes));

	if (!len)
		fail("%s is empty", path);
	hand_over(bytes, len);
	explicit_bzero(bytes, sizeof(bytes));
}

/* ---- the owner's own ---- */

/* For good. */
static void become(uid_t owner, gid_t group)
{
	const struct passwd *pw;

	if (owner == getuid())
		return;
	pw = getpwuid(owner);
	group = pw ? pw->pw_gid : group;
	if ((pw ? initgroups(pw->pw_name, group) : setgroups(0, NULL)) < 0 ||
	    setresgid(group, group, group) < 0 || setresuid(owner, owner, owner) < 0)
		fail("the rights of uid %u cannot be taken: %s", owner, strerror(errno));
}

/* Nobody but the owner can have written it. */
static void check_place(int fd, const char *file, const char *const *written)
{
	char link[64], path[PATH_MAX];
	struct statfs fs;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0 || fstatfs(fd, &fs) < 0)
		fail("%s: %s", file, strerror(errno));
	path[n] = '\0';
	if (fs.f_type == FUSE_SUPER_MAGIC)
		fail("%s is in a file system of a program: it has to be on the host's own", file);
	for (; *written; written++) {
		char real[PATH_MAX];

		if (path_is_below(path, *written) ||
		    (realpath(*written, real) && path_is_below(path, real)))
			fail("%s is below %s, where sandboxes can write", file, *written);
	}
}

static const struct vm_secret *find_own(const struct secret_source *w, const char *file)
{
	static char text[SECRET_FILE_MAX + 1];
	static struct vm_secrets list;
	char why[128];
	int fd;

	if (!*file)
		return NULL;
	/* With his eyes: what he cannot open is not there. */
	if (setegid(w->owner == getuid() ? getegid() : w->group) < 0 || seteuid(w->owner) < 0)
		fail("the rights of uid %u cannot be taken: %s", w->owner, strerror(errno));
	fd = open_private(file, w->owner, false);
	check_place(fd, file, w->written);
	if (secret_list_parse(text, read_all(fd, text, sizeof(text)), &list, why) < 0)
		fail("%s: %s", file, why);
	close(fd);
	if (seteuid(getuid()) < 0 || setegid(getgid()) < 0)
		fail("the rights of before cannot be taken again: %s", strerror(errno));
	return secret_list_find(&list, w->name);
}

/* ---- commands ---- */

struct command {
	pid_t pid;
	int out, err;
	char output[OUTPUT_MAX], said[SAID_MAX];
	size_t len, nsaid;
	int status;
};

/* Words without quotes. */
static void split(char *text, char *argv[WORDS_MAX + 1])
{
	size_t n = 0;

	for (char *word; n < WORDS_MAX && (word = strsep(&text, " \t"));)
		if (*word)
			argv[n++] = word;
	argv[n] = NULL;
}

static void start(struct command *c, const char *line, const char *const *envp)
{
	char *argv[WORDS_MAX + 1];
	int out[2], err[2];
	char *copy = strdup(line);

	if (!copy || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
		fail("%s", strerror(errno));
	split(copy, argv);
	if (!argv[0])
		fail("there is no command");
	c->pid = fork();
	if (c->pid < 0)
		fail("%s", strerror(errno));
	if (c->pid == 0) {
		const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setsid();
		if (null < 0 || dup2(null, 0) < 0 || dup2(out[1], 1) < 0 || dup2(err[1], 2) < 0)
			_exit(126);
		execve(argv[0], argv, (char *const *)envp);
		dprintf(2, "%s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	free(copy);
	close(out[1]);
	close(err[1]);
	c->out = out[0];
	c->err = err[0];
	fcntl(c->out, F_SETFL, O_NONBLOCK);
	fcntl(c->err, F_SETFL, O_NONBLOCK);
}

/* What is there by now; what is too much is thrown away. Return: may more come? */
static bool take(int fd, char *to, size_t size, size_t *len)
{
	char rest[512] = {0};

	for (;;) {
		const bool room = *len < size;
		const ssize_t n =
			read(fd, room ? to + *len : rest, room ? size - *len : sizeof(rest));

		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		if (room)
			*len += (size_t)n;
	}
}

static void await(struct command *c)
{
	const int64_t end = ms_now(CLOCK_MONOTONIC) + SECRET_SOURCE_MS;
	bool out = true, err = true;
	pid_t gone = 0;

	while (!gone || out || err) {
		struct pollfd p[] = {{.fd = out ? c->out : -1, .events = POLLIN},
				     {.fd = err ? c->err : -1, .events = POLLIN}};
		const int64_t left = end - ms_now(CLOCK_MONOTONIC);

		if (left <= 0) {
			kill(-c->pid, SIGKILL);
			fail("the command did not end in %d s", SECRET_SOURCE_MS / 1000);
		}
		(void)poll(p, 2, gone ? 0 : (int)MIN(left, (int64_t)50));
		if (!gone)
			gone = waitpid(c->pid, &c->status, WNOHANG);
		out = out && take(c->out, c->output, sizeof(c->output), &c->len);
		err = err && take(c->err, c->said, sizeof(c->said), &c->nsaid);
		if (gone)
			break; /* what it has left running says nothing that counts */
	}
}

/* Overwrites its value in what it has said. */
static void mask(struct command *c)
{
	const char *newline = memchr(c->output, '\n', c->len);
	const size_t n = newline ? (size_t)(newline - c->output) : c->len;
	char *at = c->said, *hit;

	if (n == 0)
		return;
	while ((hit = memmem(at, (size_t)(c->said + c->nsaid - at), c->output, n))) {
		memset(hit, '*', n);
		at = hit + n;
	}
	/* Of one at the end only the beginning may have been taken. */
	for (; at < c->said + c->nsaid; at++) {
		const size_t left = (size_t)(c->said + c->nsaid - at);

		if (left >= MIN(n, (size_t)SECRET_PART_MIN) && left < n &&
		    !memcmp(at, c->output, left)) {
			memset(at, '*', left);
			return;
		}
	}
}

static void hand_over_command(const char *line, const char *const *envp)
{
	static struct command c;

	start(&c, line, envp);
	await(&c);
	mask(&c);
	while (c.nsaid > 0 && strchr("\n ", c.said[c.nsaid - 1]))
		c.nsaid--;
	if (c.nsaid)
		tell("said", "%.*s", (int)MIN(c.nsaid, (size_t)800), c.said);
	if (WIFSIGNALED(c.status))
		fail("the command was killed by signal %d", WTERMSIG(c.status));
	if (WEXITSTATUS(c.status))
		fail("the command failed: exit status %d", WEXITSTATUS(c.status));
	if (!c.len)
		fail("the command printed nothing");
	hand_over(c.output, c.len);
	explicit_bzero(&c, sizeof(c));
}

/* Of somebody who is not the one who mounts. */
static const char *const *env_of(uid_t uid)
{
	static char home[PATH_MAX + 8], user[300], logname[300];
	static const char *env[5];
	const struct passwd *pw = getpwuid(uid);
	size_t n = 0;

	env[n++] = "PATH=/usr/local/bin:/usr/bin:/bin";
	if (pw) {
		snprintf(home, sizeof(home), "HOME=%s", pw->pw_dir);
		snprintf(user, sizeof(user), "USER=%.280s", pw->pw_name);
		snprintf(logname, sizeof(logname), "LOGNAME=%.280s", pw->pw_name);
		env[n++] = home;
		env[n++] = user;
		env[n++] = logname;
	}
	return env;
}

void secret_source_serve(const struct secret_source *w)
{
	static struct request request;
	const struct vm_secret *s;
	bool own;

	prctl(PR_SET_DUMPABLE, 0);
	signal(SIGPIPE, SIG_DFL);
	read_request(&request);
	s = find_own(w, request.file);
	own = s;
	if (own)
		become(w->owner, w->group);
	else
		s = w->secret;
	if (!s)
		fail("there is no secret of this name");
	check_hosts(s, request.places);
	tell("refresh", "%u",
	     s->from == VM_SECRET_ENV ? 0
	     : s->refresh_s	      ? s->refresh_s
				      : SECRET_REFRESH_S);
	switch (s->from) {
	case VM_SECRET_FILE: hand_over_file(s->argument, own ? w->owner : w->mounter, !own); break;
	case VM_SECRET_COMMAND:
		hand_over_command(s->argument,
				  own && w->owner != w->mounter ? env_of(w->owner) : w->envp);
		break;
	case VM_SECRET_ENV:
		if (!w->value)
			fail("the variable %s was not set, or empty, when the mount began",
			     s->argument);
		hand_over(w->value, strlen(w->value));
		break;
	case VM_SECRET_NOWHERE: fail("it comes from nowhere");
	}
	_exit(0);
}
