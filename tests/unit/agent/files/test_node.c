/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of files/ with few descriptors: closed, opened again, and never another file. */
/* modules: agent/files/node.c agent/files/number.c agent/files/inodes.c agent/files/ops.c agent/core/log.c */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/core/log.h"
#include "agent/core/util.h"
#include "agent/files/node.h"

#define FDS   32u /* of nodes: the least there may be */
#define FILES 500u

static struct node_table table;
static char top[64]; /* the root is below, so that there is an outside */
static int proc_fd, root_fd;

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

/* A LOOKUP. Return: the node's number. */
static uint64_t look(const char *path)
{
	struct node *n;

	assert_int_equal(
		node_get(&table, openat(root_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC), &n), 0);
	assert_true(n->fd >= 0);
	return n->id;
}

static int setup(void **state)
{
	char root[80];

	(void)state;
	memset(&table, 0, sizeof(table));
	snprintf(top, sizeof(top), "%s/test_node.XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(top));
	snprintf(root, sizeof(root), "%s/root", top);
	assert_int_equal(mkdir(root, 0755), 0);
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(node_init(&table, root_fd, proc_fd, 4 * FDS), 0);
	assert_int_equal(table.fds_max, FDS);
	assert_int_equal(look("."), NODE_ROOT);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	node_clear(&table);
	close(proc_fd);
	close(root_fd);
	return nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- what user code does ---- */

static void make(const char *name)
{
	int fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	close(fd);
}

static void make_dir(const char *name)
{
	assert_int_equal(mkdirat(root_fd, name, 0755), 0);
}

static void rename_to(const char *from, const char *to)
{
	assert_int_equal(renameat(root_fd, from, root_fd, to), 0);
}

/* ---- what the host does ---- */

/* Return: 0 if the node can be used, and is what it has always been; -errno. */
static int use(uint64_t id)
{
	struct node *n;
	struct stat st;
	int r = node_use(&table, id, &n);

	if (r < 0)
		return r;
	assert_int_equal(n->id, id);
	assert_int_equal(fstat(n->fd, &st), 0);
	assert_int_equal(st.st_ino, n->is.ino);
	assert_int_equal(st.st_dev, n->is.dev);
	assert_int_equal(st.st_mode & S_IFMT, n->is.type);
	return 0;
}

static bool is_open(uint64_t id)
{
	return node_find(&table, id)->fd >= 0;
}

static size_t count_open(void)
{
	return table.n[NODES_FILES] + table.n[NODES_DIRS] + table.n[NODES_NAMELESS];
}

/* Looks other files up until the descriptors of all those before are closed. */
static void push_out(void)
{
	static unsigned serial;
	char name[32];

	for (unsigned i = 0; i < FDS; i++) {
		snprintf(name, sizeof(name), "other%u", serial++);
		make(name);
		look(name);
	}
}

static uint64_t closed_file(const char *name)
{
	uint64_t id = look(name);

	push_out();
	assert_false(is_open(id));
	return id;
}

static void many(void **state)
{
	uint64_t ids[FILES];
	char name[32];

	(void)state;
	make_dir("d");
	make_dir("d/e");
	look("d");
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "%sf%u", i % 2 ? "d/e/" : "", i);
		make(name);
		ids[i] = look(name);
		assert_true(count_open() <= FDS);
	}
	for (int round = 0; round < 2; round++) {
		for (unsigned i = 0; i < FILES; i++) {
			assert_int_equal(use(ids[i]), 0);
			assert_true(count_open() <= FDS);
		}
	}
	for (unsigned i = 0; i < FILES; i++)
		node_forget(&table, ids[i], 1);
	assert_int_equal(table.n[NODES_CLOSED], 0);
	assert_int_equal(use(ids[0]), -ESTALE);
}

/* Used in turn with others, one stays open: what was not used for longest is closed. */
static void last_used(void **state)
{
	uint64_t id;

	(void)state;
	make("often");
	id = look("often");
	for (unsigned i = 0; i < 4 * FDS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "f%u", i);
		make(name);
		look(name);
		assert_true(is_open(id));
		assert_int_equal(use(id), 0);
	}
}

static void directories_stay(void **state)
{
	uint64_t dirs[2 * FDS];
	unsigned open_dirs = 0;
	char name[32];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(name, sizeof(name), "d%u", i);
		make_dir(name);
		dirs[i] = look(name);
	}
	push_out();
	push_out();
	for (unsigned i = 0; i < ARRAY_SIZE(dirs); i++)
		open_dirs += is_open(dirs[i]);
	assert_int_equal(open_dirs, FDS / 4 * 3);
	for (unsigned i = 0; i < ARRAY_SIZE(dirs); i++)
		assert_int_equal(use(dirs[i]), 0);
}

static void renamed(void **state)
{
	uint64_t early, late, other;

	(void)state;
	make("early");
	make("late");
	make("other");
	early = look("early");
	late = look("late");
	other = look("other");
	rename_to("early", "moved");
	push_out();
	assert_false(is_open(early) || is_open(late));
	assert_int_equal(use(early), 0); /* its path was asked for when it was closed */
	rename_to("late", "gone");
	assert_int_equal(use(late), -ESTALE);
	assert_int_equal(use(other), 0);
	assert_int_equal(look("gone"), late);
	assert_int_equal(use(late), 0);
	push_out();
	assert_int_equal(use(late), 0);
}

static void replaced(void **state)
{
	uint64_t file, dir, below;

	(void)state;
	make("file");
	make_dir("dir");
	make("dir/below");
	below = closed_file("dir/below");
	file = closed_file("file");
	dir = look("dir");
	make("new");
	rename_to("new", "file");
	assert_int_equal(use(file), -ESTALE);
	assert_int_not_equal(look("file"), file);
	rename_to("dir", "dir2");
	make_dir("dir");
	make("dir/below");
	assert_int_equal(use(below), -ESTALE);
	assert_int_equal(use(dir), 0); /* which has its descriptor */
	assert_int_equal(look("dir2/below"), below);
	assert_int_equal(use(below), 0);
}

/* Not even to the file itself. */
static void links_are_not_followed(void **state)
{
	char outside[96];
	uint64_t file, below;

	(void)state;
	make("file");
	make_dir("dir");
	make("dir/below");
	file = closed_file("file");
	below = closed_file("dir/below");
	rename_to("file", "moved");
	assert_int_equal(symlinkat("moved", root_fd, "file"), 0);
	assert_int_equal(use(file), -ESTALE);
	snprintf(outside, sizeof(outside), "%s/outside", top);
	assert_int_equal(renameat(root_fd, "dir", AT_FDCWD, outside), 0);
	assert_int_equal(symlinkat("../outside", root_fd, "dir"), 0);
	assert_int_equal(use(below), -ESTALE);
}

/* A number that another file has got meanwhile. */
static void reborn(void **state)
{
	uint64_t id;

	(void)state;
	make("file");
	id = closed_file("file");
	node_find(&table, id)->is.born--;
	assert_int_equal(use(id), -ESTALE);
	assert_int_not_equal(look("file"), id);
	assert_null(node_find(&table, id));
}

static uint64_t look_and_unlink(void)
{
	static unsigned serial;
	char name[32];
	uint64_t id;

	snprintf(name, sizeof(name), "unlinked%u", serial++);
	make(name);
	id = look(name);
	assert_int_equal(unlinkat(root_fd, name, 0), 0);
	return id;
}

static void unlinked(void **state)
{
	const size_t nameless = FDS / 8;
	uint64_t first, late, ids[2 * FDS / 8];
	char text[256] = "";

	(void)state;
	make("first");
	make("late");
	make("x (deleted)");
	first = look("first");
	look("x (deleted)");
	assert_int_equal(unlinkat(root_fd, "first", 0), 0);
	push_out();
	assert_true(is_open(first));
	assert_int_equal(use(first), 0);
	late = closed_file("late");
	assert_int_equal(unlinkat(root_fd, "late", 0), 0);
	assert_int_equal(use(late), -ESTALE);
	assert_int_equal(use(first), 0);
	assert_int_equal(log_pending(), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		ids[i] = look_and_unlink();
	push_out();
	push_out();
	assert_true(table.n[NODES_NAMELESS] <= nameless);
	assert_int_equal(use(first), -ESTALE);
	assert_int_equal(use(ids[0]), -ESTALE);
	assert_int_equal(use(ids[ARRAY_SIZE(ids) - 1]), 0);
	log_take(text, sizeof(text) - 1);
	assert_non_null(strstr(text, "have no name any more"));
}

/* Of two names, the one by which it was found last is what counts. */
static void linked(void **state)
{
	uint64_t id;

	(void)state;
	make("one");
	assert_int_equal(linkat(root_fd, "one", root_fd, "two", 0), 0);
	id = look("one");
	assert_int_equal(look("two"), id);
	assert_int_equal(unlinkat(root_fd, "one", 0), 0);
	push_out();
	assert_false(is_open(id));
	assert_int_equal(use(id), 0);
}

static void handles(void **state)
{
	uint64_t id, other, h, all[FDS];
	char text[256] = "";
	unsigned n = 0;

	(void)state;
	make("open");
	make("late");
	id = look("open");
	other = closed_file("late");
	assert_int_equal(use(id), 0);
	assert_int_equal(
		handle_new(&table, openat(root_fd, "open", O_RDONLY | O_CLOEXEC), id, 0, &h), 0);
	assert_int_equal(unlinkat(root_fd, "open", 0), 0);
	for (unsigned i = 0; i < FDS; i++)
		look_and_unlink();
	for (int i = 0; i < 10; i++)
		push_out();
	assert_int_equal(use(id), 0);
	handle_free(&table, h);
	assert_int_equal(use(id), 0);
	while (handle_room(&table) == 0) {
		assert_true(n < ARRAY_SIZE(all));
		assert_int_equal(use(other), 0);
		assert_int_equal(handle_new(&table, openat(root_fd, "late", O_RDONLY | O_CLOEXEC),
					    other, 0, &all[n++]),
				 0);
	}
	assert_int_equal(handle_room(&table), -ENFILE);
	assert_int_equal(n, 4 * FDS / 16 * 3);
	log_take(text, sizeof(text) - 1);
	assert_non_null(strstr(text, "ENFILE"));
	node_forget(&table, other, 1);
	while (n > 0)
		handle_free(&table, all[--n]);
	assert_int_equal(handle_room(&table), 0);
	assert_int_equal(table.nhandles, 0);
}

/* A host that forgets nothing. */
static void memory(void **state)
{
	uint64_t first, last = 0;

	(void)state;
	table.closed_max = 2 * FDS;
	make("first");
	first = closed_file("first");
	assert_int_equal(use(first), 0);
	for (int i = 0; i < 4; i++)
		push_out();
	assert_null(node_find(&table, first));
	assert_int_equal(table.n[NODES_CLOSED], 2 * FDS);
	last = look("first");
	assert_int_not_equal(last, first);
	assert_int_equal(use(last), 0);
}

/* Likewise, of files in deep folders. */
static void memory_of_paths(void **state)
{
	char path[PATH_MAX] = "";
	uint64_t first = 0;

	(void)state;
	table.paths_max = 16384;
	for (int i = 0; i < 10; i++) {
		const size_t len = strlen(path);

		snprintf(path + len, sizeof(path) - len,
			 "a_folder_with_a_name_that_is_as_long_as_this_one_and_does_not_end_soon/");
		make_dir(path);
	}
	for (unsigned i = 0; i < 3 * FDS; i++) {
		const size_t len = strlen(path);

		snprintf(path + len, sizeof(path) - len, "%u", i);
		make(path);
		if (i == 0)
			first = look(path);
		else
			look(path);
		path[len] = '\0';
		assert_true(table.paths <= 16384);
	}
	assert_null(node_find(&table, first));
	assert_true(table.n[NODES_CLOSED] > 16);
	for (int i = 0; i < 4; i++)
		push_out();
	while (table.n[NODES_CLOSED])
		node_forget(&table, TAILQ_FIRST(&table.lists[NODES_CLOSED])->id, UINT64_MAX);
	assert_int_equal(table.paths, 0);
}

static void link_and_unlink(const char *target)
{
	if (symlinkat(target, root_fd, "dir") == 0)
		unlinkat(root_fd, "dir", 0);
}

/* User code that goes on renaming, and putting links in the place of what it renames. */
static void change(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		(void)renameat(root_fd, "dir", root_fd, "dir2");
		link_and_unlink("../root/dir2");
		(void)renameat2(root_fd, "dir2/f0", root_fd, "dir2/f1", RENAME_EXCHANGE);
		link_and_unlink("/etc");
		(void)renameat(root_fd, "dir2", root_fd, "dir");
	}
}

static void changed_meanwhile(void **state)
{
	unsigned found = 0, stale = 0;
	uint64_t ids[2];
	pid_t pid;

	(void)state;
	make_dir("dir");
	make("dir/f0");
	make("dir/f1");
	ids[0] = closed_file("dir/f0");
	ids[1] = closed_file("dir/f1");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		change();
	for (unsigned i = 0; i < 20000; i++) {
		struct node *n = node_find(&table, ids[i % 2]);
		int r;

		if (n->fd >= 0) { /* as trim() would, with the path of the beginning */
			close_fd(&n->fd);
			n->path = strdup(i % 2 ? "dir/f1" : "dir/f0");
			table.paths += sizeof("dir/f0");
			TAILQ_REMOVE(&table.lists[n->list], n, link);
			table.n[n->list]--;
			n->list = NODES_CLOSED;
			table.n[n->list]++;
			TAILQ_INSERT_TAIL(&table.lists[n->list], n, link);
		}
		r = use(ids[i % 2]);
		assert_true(r == 0 || r == -ESTALE);
		found += r == 0;
		stale += r != 0;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("found %u times, stale %u times\n", found, stale);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(many, setup, teardown),
		cmocka_unit_test_setup_teardown(last_used, setup, teardown),
		cmocka_unit_test_setup_teardown(directories_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(renamed, setup, teardown),
		cmocka_unit_test_setup_teardown(replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(links_are_not_followed, setup, teardown),
		cmocka_unit_test_setup_teardown(reborn, setup, teardown),
		cmocka_unit_test_setup_teardown(unlinked, setup, teardown),
		cmocka_unit_test_setup_teardown(linked, setup, teardown),
		cmocka_unit_test_setup_teardown(handles, setup, teardown),
		cmocka_unit_test_setup_teardown(memory, setup, teardown),
		cmocka_unit_test_setup_teardown(memory_of_paths, setup, teardown),
		cmocka_unit_test_setup_teardown(changed_meanwhile, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
