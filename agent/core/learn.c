/* SPDX-License-Identifier: Apache-2.0 */
/* Which files user code tries to use. See learn.h. */
#include "learn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conn.h"
#include "filter.h"
#include "guest_env.h"
#include "log.h"
#include "proc.h"
#include "reach.h"
#include "util.h"
#include "vm/base/hash.h"
#include "vm/base/util.h"

#define STACK	      (256u << 10)
#define BATCH	      (16u << 10)
#define SAMPLE_US     20000u	 /* between two looks at how much is used */
#define WAIT_KILLABLE (1ul << 5) /* SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV */
#define NONE	      0xffu	 /* no such argument */
#define BUCKETS	      (2u * LEARN_PATHS)

/* What a call does with a file. */
enum use { LOOKS, OPENS, WRITES };

/* Which arguments are the directory, the path, and the flags. */
static const struct call {
	int nr;
	uint8_t dir, path, flags;
	enum use use;
} calls[] = {
#ifdef __x86_64__
	{SYS_open, NONE, 0, 1, OPENS},	       {SYS_creat, NONE, 0, NONE, WRITES},
	{SYS_stat, NONE, 0, NONE, LOOKS},      {SYS_lstat, NONE, 0, NONE, LOOKS},
	{SYS_access, NONE, 0, NONE, LOOKS},    {SYS_readlink, NONE, 0, NONE, LOOKS},
	{SYS_mkdir, NONE, 0, NONE, WRITES},    {SYS_rmdir, NONE, 0, NONE, WRITES},
	{SYS_unlink, NONE, 0, NONE, WRITES},   {SYS_rename, NONE, 1, NONE, WRITES},
	{SYS_symlink, NONE, 1, NONE, WRITES},  {SYS_chmod, NONE, 0, NONE, WRITES},
#endif
	{SYS_openat, 0, 1, 2, OPENS},	       {SYS_openat2, 0, 1, NONE, OPENS},
	{SYS_newfstatat, 0, 1, NONE, LOOKS},   {SYS_statx, 0, 1, NONE, LOOKS},
	{SYS_faccessat, 0, 1, NONE, LOOKS},    {SYS_faccessat2, 0, 1, NONE, LOOKS},
	{SYS_readlinkat, 0, 1, NONE, LOOKS},   {SYS_execve, NONE, 0, NONE, LOOKS},
	{SYS_execveat, 0, 1, NONE, LOOKS},     {SYS_chdir, NONE, 0, NONE, LOOKS},
	{SYS_truncate, NONE, 0, NONE, WRITES}, {SYS_mkdirat, 0, 1, NONE, WRITES},
	{SYS_unlinkat, 0, 1, NONE, WRITES},    {SYS_renameat2, 2, 3, NONE, WRITES},
	{SYS_symlinkat, 1, 2, NONE, WRITES},   {SYS_linkat, 2, 3, NONE, WRITES},
	{SYS_fchmodat, 0, 1, NONE, WRITES},    {SYS_utimensat, 0, 1, NONE, WRITES},
};

/* What every sandbox has of its own, or sees. */
static const char *const own[] = {"/home/user",
				  "/var/tmp",
				  "/proc",
				  "/sys",
				  "/dev",
				  "/run",
				  "/usr",
				  "/bin",
				  "/sbin",
				  "/lib",
				  "/lib32",
				  "/lib64",
				  "/etc/ld.so.cache"};

static struct {
	pthread_t thread;
	int sock, child;	  /* the thread's end, where listeners come from, and the other */
	pthread_mutex_t lock;	  /* of what follows */
	char *text[LEARN_PATHS];  /* the kind, and the path */
	uint16_t bucket[BUCKETS]; /* place in `text`, from 1 */
	size_t n, told, bytes;
	uint32_t processes;
	uint64_t memory_kib;
	bool news;
	uint64_t sampled; /* the thread's */
} learn = {.sock = -1, .child = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what is known ---- */

static void add(enum proto_learned kind, const char *path)
{
	char text[PATH_MAX + 1];
	uint32_t at;

	text[0] = (char)kind;
	snprintf(text + 1, sizeof(text) - 1, "%s", path);
	pthread_mutex_lock(&learn.lock);
	at = hash_str(text) % BUCKETS;
	while (learn.bucket[at] && strcmp(learn.text[learn.bucket[at] - 1], text) != 0)
		at = (at + 1) % BUCKETS;
	if (!learn.bucket[at] && learn.n < LEARN_PATHS && learn.bytes + strlen(text) < LEARN_TEXT &&
	    (learn.text[learn.n] = strdup(text))) {
		learn.bytes += strlen(text);
		learn.bucket[at] = (uint16_t)++learn.n;
	}
	pthread_mutex_unlock(&learn.lock);
}

/* How many processes there are but us, and what they take. The agent's own lists are its other thread's. */
static void sample(void)
{
	_cleanup_dir_ DIR *dir = NULL;
	const struct dirent *e;
	uint32_t processes = 0;
	uint64_t kib = 0;

	if (now_us() - learn.sampled < SAMPLE_US)
		return;
	learn.sampled = now_us();
	dir = opendir("/proc");
	while (dir && (e = readdir(dir))) {
		const pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid <= 0 || pid == getpid())
			continue;
		processes++;
		kib += proc_private_kib(pid);
	}
	pthread_mutex_lock(&learn.lock);
	learn.news = learn.news || processes > learn.processes || kib > learn.memory_kib;
	learn.processes = MAX(learn.processes, processes);
	learn.memory_kib = MAX(learn.memory_kib, kib);
	pthread_mutex_unlock(&learn.lock);
}

/* ---- names ---- */

static bool is_within(const char *path, const char *dir)
{
	const size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* What is below /tmp is the sandbox's own as well, unless something is shown there. */
static bool is_temporary(const char *path)
{
	char up[PATH_MAX], *slash;
	struct stat top, st;

	if (!is_within(path, "/tmp"))
		return false;
	snprintf(up, sizeof(up), "%s", path);
	while (lstat(up, &st) < 0 && (slash = strrchr(up, '/')) && slash != up)
		*slash = '\0';
	return lstat("/tmp", &top) < 0 || lstat(up, &st) < 0 || st.st_dev == top.st_dev;
}

static bool is_own(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		if (is_within(path, own[i]))
			return true;
	}
	return strcmp(path, "/") == 0 || is_temporary(path);
}

/* Takes out "." and "..", as if there were no links. @path: absolute */
static void normalize(const char *path, char ret[PATH_MAX])
{
	size_t at = 0;

	while (*path) {
		const size_t skip = strspn(path, "/"), len = strcspn(path + skip, "/");

		path += skip;
		if (len == 2 && path[0] == '.' && path[1] == '.') {
			while (at && ret[--at] != '/')
				;
		} else if (len && !(len == 1 && *path == '.') && at + len + 2 < PATH_MAX) {
			ret[at++] = '/';
			memcpy(ret + at, path, len);
			at += len;
		}
		path += len;
	}
	if (!at)
		ret[at++] = '/';
	ret[at] = '\0';
}

static bool read_link(char ret[PATH_MAX], const char *path)
{
	const ssize_t n = readlink(path, ret, PATH_MAX - 1);

	if (n <= 0)
		return false;
	ret[n] = '\0';
	return *ret == '/';
}

/* Is it there, where does it really lie, and is it a directory? */
static bool find(const char *path, char ret_real[PATH_MAX], bool *ret_dir)
{
	const int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;
	char link[32];
	bool found;

	if (fd < 0)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	found = read_link(ret_real, link) && fstat(fd, &st) == 0;
	*ret_dir = found && S_ISDIR(st.st_mode);
	close(fd);
	return found;
}

/* The directory is told, and not each file in it; but at the top, where that would be very much. */
static void add_read(const char *path)
{
	char dir[PATH_MAX], *slash;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash && memchr(dir + 1, '/', (size_t)(slash - dir)))
		*slash = '\0';
	add(PROTO_LEARNED_READ, dir);
}

static void note(const char *path, enum use use)
{
	const bool write = use == WRITES;
	char real[PATH_MAX], *slash;
	bool dir;

	if (is_own(path))
		return;
	if (find(path, real, &dir)) {
		if (write && !is_own(real))
			add(PROTO_LEARNED_WROTE, real);
		else if (!is_own(real) && dir)
			add(use == OPENS ? PROTO_LEARNED_READ : PROTO_LEARNED_SEEN, real);
		else if (!is_own(real))
			add_read(real);
		if (strcmp(real, path) != 0)
			add_read(path);
		return;
	}
	snprintf(real, sizeof(real), "%s", path);
	slash = strrchr(real, '/');
	if (write && slash && slash != real) {
		*slash = '\0';
		if (access(real, F_OK) == 0) { /* what it would make is made there */
			add(PROTO_LEARNED_WROTE, real);
			return;
		}
	}
	add(PROTO_LEARNED_MISSED, path);
}

/* ---- calls ---- */

static const struct call *call_of(int nr)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (calls[i].nr == nr)
			return &calls[i];
	}
	return NULL;
}

/* Of memory that may end behind it. */
static bool read_path(pid_t pid, uint64_t at, char ret[PATH_MAX])
{
	size_t got = 0;
	bool whole = false;

	while (!whole && got < PATH_MAX - 1) {
		const size_t page = 4096 - (at + got) % 4096,
			     len = MIN(page, (size_t)PATH_MAX - 1 - got);
		const ssize_t n = reach_read(pid, at + got, ret + got, len);

		if (n <= 0)
			break;
		whole = memchr(ret + got, '\0', (size_t)n);
		got += (size_t)n;
	}
	return whole;
}

/* How it is used by this call. */
static enum use use_of(const struct call *c, const struct seccomp_data *d)
{
	const int flags = c->flags == NONE ? 0 : (int)d->args[c->flags];

	return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) ? WRITES : c->use;
}

static void look(int listener, const struct seccomp_notif *n)
{
	const struct call *c = call_of(n->data.nr);
	char path[PATH_MAX], whole[2 * PATH_MAX], plain[PATH_MAX], base[PATH_MAX], link[48];
	const pid_t pid = (pid_t)n->pid;
	int dir;

	if (!c || !read_path(pid, n->data.args[c->path], path) || !*path)
		return;
	dir = c->dir == NONE ? AT_FDCWD : (int)n->data.args[c->dir];
	if (*path == '/') {
		snprintf(whole, sizeof(whole), "%s", path);
	} else {
		snprintf(link, sizeof(link), dir == AT_FDCWD ? "/proc/%d/cwd" : "/proc/%d/fd/%d",
			 (int)pid, dir);
		if (!read_link(base, link))
			return;
		snprintf(whole, sizeof(whole), "%s/%s", base, path);
	}
	if (!filter_still_waits(listener, n->id))
		return;
	normalize(whole, plain);
	note(plain, use_of(c, &n->data));
}

/* Return: false if there is nobody any more who could ask. */
static bool serve(int listener)
{
	struct seccomp_notif n = {0};
	struct seccomp_notif_resp resp = {0};

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
		return errno == EINTR || errno == ENOENT || errno == EAGAIN;
	look(listener, &n);
	sample();
	resp.id = n.id;
	resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
	return true;
}

/* ---- the thread ---- */

static int take_listener(void)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	int fd = -1;

	if (recvmsg(learn.sock, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) <= 0 || !CMSG_FIRSTHDR(&m))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static void *learn_thread(void *arg)
{
	struct pollfd p[1 + LEARN_FDS] = {{.fd = learn.sock, .events = POLLIN}};
	nfds_t n = 1;

	for (;;) {
		if (poll(p, n, -1) < 0 && errno != EINTR)
			return arg;
		for (nfds_t i = n - 1; i > 0; i--) {
			const bool gone =
				(p[i].revents & POLLIN) ? !serve(p[i].fd) : p[i].revents != 0;

			if (gone) {
				close(p[i].fd);
				p[i] = p[--n];
			}
		}
		if (p[0].revents & POLLIN) {
			const int fd = take_listener();

			if (fd >= 0 && n < ARRAY_SIZE(p))
				p[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
			else if (
				fd >=
				0) /* its calls fail with ENOSYS; better that than a wait for ever */
				close(fd);
		}
	}
}

static int start_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	(void)pthread_attr_setstacksize(&attr, STACK);
	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&learn.thread, &attr, learn_thread, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -r;
}

int learn_fd(void)
{
	return learn.child;
}

int learn_begin(const struct guest_env *env)
{
	int fds[2], r;

	if (learn.child >= 0)
		return 0;
	if (!env->jail)
		return -EOPNOTSUPP;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	learn.sock = fds[0];
	r = start_thread();
	if (r < 0) {
		close(fds[0]);
		close(fds[1]);
		return r;
	}
	learn.child = fds[1];
	return 0;
}

/* ---- the child ---- */

static int send_listener(int to, int listener)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.head), &listener, sizeof(listener));
	return sendmsg(to, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

int learn_enter(int fd)
{
	struct sock_filter code[3 * ARRAY_SIZE(calls)];
	struct sock_fprog prog = {.filter = code};
	unsigned short n = 0;
	long listener;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 (uint32_t)calls[i].nr, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	prog.len = n;
	/* Who waits is not woken by signals, of which some programs send themselves many; kernels before 5.19 can't. */
	listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			   SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE, &prog);
	if (listener < 0 && errno == EINVAL)
		listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				   SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	if (listener < 0 || send_listener(fd, (int)listener) < 0)
		return -1;
	close((int)listener);
	return 0;
}

/* ---- what is told ---- */

static struct frame *begin_frame(void)
{
	struct frame *f = frame_new(PROTO_LEARNED, 0, BATCH);

	if (!f)
		return NULL;
	put_u32(&f->out, learn.processes);
	put_u64(&f->out, learn.memory_kib);
	return f;
}

void learn_tell(struct conn *c)
{
	struct frame *f = NULL;

	if (learn.sock < 0)
		return;
	pthread_mutex_lock(&learn.lock);
	if (learn.news || learn.told < learn.n)
		f = begin_frame();
	learn.news = learn.news && !f;
	while (f && learn.told < learn.n) {
		const char *text = learn.text[learn.told];

		if (f->out.cap - f->out.len < strlen(text) + 8) {
			conn_send(c, frame_trim(f));
			f = begin_frame();
			continue;
		}
		put_u8(&f->out, (uint8_t)text[0]);
		put_str(&f->out, proto_cstr(text + 1));
		learn.told++;
	}
	pthread_mutex_unlock(&learn.lock);
	if (f)
		conn_send(c, frame_trim(f));
}
