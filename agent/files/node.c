/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes and handles of the file server: two hash tables of pinned descriptors. */
#include "node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t bucket(uint64_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15u) >> 52) % NODE_BUCKETS;
}

struct node *node_find(const struct node_table *t, uint64_t id)
{
	struct node *n = t->by_id[bucket(id)];

	while (n && n->id != id)
		n = n->id_next;
	return n;
}

int node_get(struct node_table *t, int fd, struct node **ret_node)
{
	struct node *n, **slot;
	struct stat st;

	if (fstat(fd, &st) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	slot = &t->by_ino[bucket(st.st_ino)];
	for (n = *slot; n; n = n->ino_next) {
		if (n->ino == st.st_ino && n->dev == st.st_dev) {
			close(fd);
			n->lookups++;
			*ret_node = n;
			return 0;
		}
	}
	n = calloc(1, sizeof(*n));
	if (!n) {
		close(fd);
		return -ENOMEM;
	}
	n->id = ++t->last_id;
	n->fd = fd;
	n->dev = st.st_dev;
	n->ino = st.st_ino;
	n->type = st.st_mode & S_IFMT;
	n->lookups = 1;
	n->ino_next = *slot;
	*slot = n;
	slot = &t->by_id[bucket(n->id)];
	n->id_next = *slot;
	*slot = n;
	*ret_node = n;
	return 0;
}

static void node_free(struct node_table *t, struct node *n)
{
	struct node **p = &t->by_id[bucket(n->id)];

	while (*p != n)
		p = &(*p)->id_next;
	*p = n->id_next;
	p = &t->by_ino[bucket(n->ino)];
	while (*p != n)
		p = &(*p)->ino_next;
	*p = n->ino_next;
	close(n->fd);
	free(n);
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

int handle_new(struct node_table *t, int fd, int is_dir, uint64_t *ret_id)
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
	h->fd = fd;
	slot = &t->handles[bucket(h->id)];
	h->next = *slot;
	*slot = h;
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
	close(h->fd);
	free(h->dir);
	free(h);
}

void node_clear(struct node_table *t)
{
	for (size_t i = 0; i < NODE_BUCKETS; i++) {
		struct node *n, *next;

		for (n = t->by_id[i]; n; n = next) {
			next = n->id_next;
			close(n->fd);
			free(n);
		}
		for (struct handle *h = t->handles[i], *after; h; h = after) {
			after = h->next;
			close(h->fd);
			free(h->dir);
			free(h);
		}
	}
	memset(t, 0, sizeof(*t));
}
