/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes and handles of the file server. See node.h. */
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ops.h"
#include "agent/core/log.h"
#include "agent/core/util.h"

#define DELETED \
	" (deleted)" /* what the kernel appends to a path that does not lead there any more */

static size_t bucket(uint64_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15u) >> 52) % NODE_BUCKETS;
}

/* Return: the path of an open file, to be freed, or NULL. */
static char *path_of(const struct node_table *t, int fd)
{
	char path[PATH_MAX];
	const ssize_t n = readlinkat(t->proc_fd, files_fd_name(fd).text, path, sizeof(path));

	return n > 0 && (size_t)n < sizeof(path) ? strndup(path, (size_t)n) : NULL;
}

int node_init(struct node_table *t, int root_fd, int proc_fd, size_t limit)
{
	t->root_fd = root_fd;
	t->proc_fd = proc_fd;
	t->limit = limit;
	t->fds_max = MAX(MIN(limit / 4, NODE_FDS_MAX), NODE_FDS_MIN);
	t->handles_max =
		MIN(limit / 16 * 3, HANDLES_MAX); /* with those of their nodes, twice as many */
	t->closed_max = NODES_MAX;
	t->paths_max = PATHS_MAX;
	for (size_t i = 0; i < NODES_NLISTS; i++)
		TAILQ_INIT(&t->lists[i]);
	t->root = path_of(t, root_fd);
	return t->root ? 0 : -ENOENT;
}

/* ---- lists ---- */

static void leave_list(struct node_table *t, struct node *n)
{
	if (n->list != NODES_HELD)
		TAILQ_REMOVE(&t->lists[n->list], n, link);
	t->n[n->list]--;
}

/* To the end of a list, where the last used are. */
static void enter_list(struct node_table *t, struct node *n, enum node_list list)
{
	n->list = list;
	t->n[list]++;
	if (list != NODES_HELD)
		TAILQ_INSERT_TAIL(&t->lists[list], n, link);
}

static void move_to(struct node_table *t, struct node *n, enum node_list list)
{
	leave_list(t, n);
	enter_list(t, n, list);
}

/* Where it belongs, unless it is known to have no path. */
static enum node_list list_of(const struct node *n)
{
	if (n->fd < 0)
		return NODES_CLOSED;
	if (n->handles || n->id == NODE_ROOT)
		return NODES_HELD;
	return n->is.type == S_IFDIR ? NODES_DIRS : NODES_FILES;
}

static void drop_path(struct node_table *t, struct node *n)
{
	t->paths -= n->path ? strlen(n->path) + 1 : 0;
	free(n->path);
	n->path = NULL;
}

static void node_free(struct node_table *t, struct node *n)
{
	struct node **p = &t->by_id[bucket(n->id)];

	while (*p != n)
		p = &(*p)->id_next;
	*p = n->id_next;
	p = &t->by_ino[bucket(n->is.ino)];
	while (*p != n)
		p = &(*p)->ino_next;
	*p = n->ino_next;
	leave_list(t, n);
	close_fd(&n->fd);
	drop_path(t, n);
	free(n);
}

/* The host still counts on it. */
static void drop_oldest(struct node_table *t, enum node_list list)
{
	if (!t->said_dropped)
		log_line("files/: the host holds too many files that %s: the oldest are forgotten "
			 "(ESTALE)",
			 list == NODES_CLOSED ? "it does not use" : "have no name any more");
	t->said_dropped = true;
	node_free(t, TAILQ_FIRST(&t->lists[list]));
}

/* ---- descriptors that are closed, and opened again ---- */

static int identify(int fd, struct node_identity *ret_is)
{
	const unsigned wanted = STATX_TYPE | STATX_INO | STATX_BTIME;
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, wanted, &st) < 0)
		return -errno;
	*ret_is = (struct node_identity){.dev = makedev(st.stx_dev_major, st.stx_dev_minor),
					 .ino = st.stx_ino,
					 .type = st.stx_mode & S_IFMT};
	if (st.stx_mask & STATX_BTIME) {
		ret_is->born = st.stx_btime.tv_sec;
		ret_is->born_ns = st.stx_btime.tv_nsec;
	}
	return 0;
}

/* Return: the path of a node below the root, to be freed, or NULL if it has none. */
static char *find_path(const struct node_table *t, const struct node *n)
{
	const size_t root = strlen(t->root), deleted = strlen(DELETED);
	_cleanup_free_ char *path = path_of(t, n->fd);
	size_t len = path ? strlen(path) : 0;

	if (len <= root + 1 || strncmp(path, t->root, root) != 0 || path[root] != '/' ||
	    (len > deleted && strcmp(path + len - deleted, DELETED) == 0))
		return NULL;
	len -= root;
	memmove(path, path + root + 1, len); /* with its end */
	return steal_ptr(path);
}

/* It gets another time of birth when it is copied up, in a directory that began as the host's. */
static void see_birth(struct node *n)
{
	struct node_identity is = {0};

	if (identify(n->fd, &is) == 0 && is.dev == n->is.dev && is.ino == n->is.ino)
		n->is = is;
}

static void close_oldest(struct node_table *t, enum node_list list)
{
	struct node *n = TAILQ_FIRST(&t->lists[list]);

	n->path = find_path(t, n);
	if (n->path) {
		t->paths += strlen(n->path) + 1;
		see_birth(n);
		close_fd(&n->fd);
	}
	move_to(t, n, n->path ? NODES_CLOSED : NODES_NAMELESS);
}

/* Closes what is too much. */
static void trim(struct node_table *t)
{
	while (t->n[NODES_FILES] + t->n[NODES_DIRS] + t->n[NODES_NAMELESS] > t->fds_max) {
		if (t->n[NODES_NAMELESS] > t->fds_max / 8)
			drop_oldest(t, NODES_NAMELESS);
		else if (t->n[NODES_DIRS] > t->fds_max / 4 * 3)
			close_oldest(t, NODES_DIRS);
		else
			close_oldest(t, NODES_FILES);
	}
	while (t->n[NODES_CLOSED] > t->closed_max || t->paths > t->paths_max)
		drop_oldest(t, NODES_CLOSED);
}

static bool is_same(const struct node_identity *a, const struct node_identity *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->type == b->type && a->born == b->born &&
	       a->born_ns == b->born_ns;
}

/* Opens what a path below the root leads to. No link is followed; names may change meanwhile, so who calls has to see
 * what it is. Return: descriptor or -errno. */
static int walk(int root_fd, const char *path)
{
	char text[PATH_MAX], *rest = text, *name;
	int dir = root_fd, fd = -ENOENT;

	if ((size_t)snprintf(text, sizeof(text), "%s", path) >= sizeof(text))
		return -ENAMETOOLONG;
	while ((name = strsep(&rest, "/"))) {
		fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC | (rest ? O_DIRECTORY : 0));
		if (fd < 0)
			fd = -errno;
		if (dir != root_fd)
			close(dir);
		if (fd < 0)
			return fd;
		dir = fd;
	}
	return fd;
}

static void set_fd(struct node_table *t, struct node *n, int fd)
{
	close_fd(&n->fd);
	n->fd = fd;
	drop_path(t, n);
}

static int reopen(struct node_table *t, struct node *n)
{
	struct node_identity is = {0};
	int fd = walk(t->root_fd, n->path);
	int r = fd < 0 ? fd : identify(fd, &is);

	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || (r == 0 && !is_same(&n->is, &is)))
		r = -ESTALE;
	if (r < 0) {
		close_fd(&fd);
		return r;
	}
	set_fd(t, n, fd);
	return 0;
}

/* ---- nodes ---- */

struct node *node_find(const struct node_table *t, uint64_t id)
{
	struct node *n = t->by_id[bucket(id)];

	while (n && n->id != id)
		n = n->id_next;
	return n;
}

int node_use(struct node_table *t, uint64_t id, struct node **ret_node)
{
	struct node *n = node_find(t, id);
	const int r = !n ? -ESTALE : n->fd < 0 ? reopen(t, n) : 0;

	if (r < 0)
		return r;
	move_to(t, n, n->list == NODES_NAMELESS ? NODES_NAMELESS : list_of(n));
	trim(t);
	*ret_node = n;
	return 0;
}

/* A number that is in use by an open file is no other's; a closed one may be gone, and its number too. */
static struct node *find_file(struct node_table *t, const struct node_identity *is)
{
	struct node *n = t->by_ino[bucket(is->ino)];

	while (n && (n->is.ino != is->ino || n->is.dev != is->dev))
		n = n->ino_next;
	if (!n || n->fd >= 0 || is_same(&n->is, is))
		return n;
	node_free(t, n);
	return NULL;
}

/* Return: a node without a descriptor, or NULL if out of memory. */
static struct node *add(struct node_table *t, const struct node_identity *is)
{
	struct node *n = calloc(1, sizeof(*n)), **slot;

	if (!n)
		return NULL;
	n->id = ++t->last_id;
	n->fd = -1;
	n->is = *is;
	slot = &t->by_ino[bucket(n->is.ino)];
	n->ino_next = *slot;
	*slot = n;
	slot = &t->by_id[bucket(n->id)];
	n->id_next = *slot;
	*slot = n;
	enter_list(t, n, list_of(n));
	return n;
}

int node_get(struct node_table *t, int fd, struct node **ret_node)
{
	struct node_identity is = {0};
	struct node *n;
	int r = identify(fd, &is);

	if (r < 0) {
		close(fd);
		return r;
	}
	n = find_file(t, &is);
	if (!n)
		n = add(t, &is);
	if (!n) {
		close(fd);
		return -ENOMEM;
	}
	/* The newer descriptor is of a name that is there. */
	set_fd(t, n, fd);
	n->lookups++;
	move_to(t, n, list_of(n));
	trim(t);
	*ret_node = n;
	return 0;
}

void node_forget(struct node_table *t, uint64_t id, uint64_t lookups)
{
	struct node *n = node_find(t, id);

	if (!n || id == NODE_ROOT)
		return;
	n->lookups = lookups < n->lookups ? n->lookups - lookups : 0;
	if (!n->lookups)
		node_free(t, n);
}

void node_hold_begin(struct node_table *t)
{
	for (size_t i = 0; i < NODE_BUCKETS; i++)
		for (struct node *n = t->by_id[i]; n; n = n->id_next)
			n->doubted = n->id != NODE_ROOT;
}

void node_hold(struct node_table *t, uint64_t id, uint64_t lookups)
{
	struct node *n = node_find(t, id);

	if (!n || id == NODE_ROOT || !lookups)
		return;
	n->lookups = lookups;
	n->doubted = false;
}

void node_hold_end(struct node_table *t)
{
	for (size_t i = 0; i < NODE_BUCKETS; i++) {
		struct node *n, *next;

		for (n = t->by_id[i]; n; n = next) {
			next = n->id_next;
			if (n->doubted)
				node_free(t, n);
		}
	}
}

/* ---- handles ---- */

int handle_room(struct node_table *t)
{
	if (t->nhandles < t->handles_max)
		return 0;
	if (!t->said_full)
		log_line("files/: the host has %zu files open, and more are refused (ENFILE): "
			 "the agent's limit is %zu descriptors",
			 t->nhandles, t->limit);
	t->said_full = true;
	return -ENFILE;
}

/* A handle of node @id, which may be forgotten, has come, or is going. */
static void count_handle(struct node_table *t, uint64_t id, bool more)
{
	struct node *n = node_find(t, id);

	t->nhandles = more ? t->nhandles + 1 : t->nhandles - 1;
	if (!n)
		return;
	n->handles = more ? n->handles + 1 : n->handles - 1;
	move_to(t, n, list_of(n));
	trim(t);
}

int handle_new(struct node_table *t, int fd, uint64_t node, int is_dir, uint64_t *ret_id)
{
	struct handle *h = calloc(1, sizeof(*h));
	struct handle **slot;

	if (h && is_dir)
		h->dir = calloc(1, sizeof(*h->dir));
	if (!h || (is_dir && !h->dir)) {
		free(h);
		close(fd);
		return -ENOMEM;
	}
	h->id = ++t->last_id;
	h->node = node;
	h->fd = fd;
	slot = &t->handles[bucket(h->id)];
	h->next = *slot;
	*slot = h;
	count_handle(t, node, true);
	*ret_id = h->id;
	return 0;
}

struct handle *handle_find(const struct node_table *t, uint64_t id)
{
	struct handle *h = t->handles[bucket(id)];

	while (h && h->id != id)
		h = h->next;
	return h;
}

void handle_free(struct node_table *t, uint64_t id)
{
	struct handle **p = &t->handles[bucket(id)];
	struct handle *h;

	while (*p && (*p)->id != id)
		p = &(*p)->next;
	h = *p;
	if (!h)
		return;
	*p = h->next;
	count_handle(t, h->node, false);
	close(h->fd);
	free(h->dir);
	free(h);
}

void node_renew(struct node_table *t)
{
	for (size_t i = 0; i < NODE_BUCKETS; i++) {
		struct node *n, *next;

		while (t->handles[i])
			handle_free(t, t->handles[i]->id);
		for (n = t->by_id[i]; n; n = next) {
			next = n->id_next;
			if (n->id != NODE_ROOT)
				node_free(t, n);
		}
	}
}

void node_clear(struct node_table *t)
{
	for (size_t i = 0; i < NODE_BUCKETS; i++) {
		struct node *n, *next;

		for (n = t->by_id[i]; n; n = next) {
			next = n->id_next;
			close_fd(&n->fd);
			free(n->path);
			free(n);
		}
		for (struct handle *h = t->handles[i], *after; h; h = after) {
			after = h->next;
			close(h->fd);
			free(h->dir);
			free(h);
		}
	}
	free(t->root);
	memset(t, 0, sizeof(*t));
}
