/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes files/ and its table of nodes: a hostile agent's answers, under a model of the kernel's names. */
/* modules: tests/unit/fixture/fixture.c */
/* libs: uv cmocka */
#include <assert.h>
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdint.h>

#include "fs/files/files.h"
#include "fs/fuse/ops.h"
#include "tests/unit/fixture/fixture.h"
#include "vm/base/log.h"
#include "vm/base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * The input is a row of {what, where, answer}: see step(). The model keeps names as the kernel does: one
 * stays where it was found, whatever the agent says later, unless the host renames it, which takes
 * effect a while after the answer. Whoever was shown a link climbs from the directory he found it in; no
 * answer may let him climb above the root, now or after any move.
 */

#define NAMES	64u
#define PENDING 16u

struct entry {
	uint64_t ino, lookups;
	unsigned parent;
	char name[2];
	bool used, hashed, dir, link;
	unsigned up; /* that somebody climbs from this directory */
};

struct pending {
	struct req *req;
	enum { P_FIND, P_SAME, P_READLINK, P_RENAME, P_OTHER } what;
	unsigned at; /* the directory, or the entry */
	unsigned on; /* the entry that the request is about: the kernel holds it meanwhile */
	char name[2];
};

static struct fixture *fx;
static struct entry entry[NAMES]; /* 0: files/ itself */
static struct pending pending[PENDING];
static unsigned npending;
static struct {
	bool asked, done;
	unsigned parent, newparent;
	char name[2], newname[2];
} moving;
static const uint8_t *in;
static size_t left;

static uint8_t byte(void)
{
	if (!left)
		return 0;
	left--;
	return *in++;
}

static unsigned depth(unsigned i)
{
	unsigned n = 0;

	for (; i; i = entry[i].parent) {
		n++;
		assert(n < NAMES);
	}
	return n;
}

static bool below(unsigned i, unsigned top)
{
	while (i && i != top)
		i = entry[i].parent;
	return i == top;
}

/* A directory that the kernel has, chosen by a byte. */
static unsigned some_dir(void)
{
	unsigned i = byte() % NAMES;

	for (unsigned n = 0; n < NAMES; n++, i = (i + 1) % NAMES)
		if (entry[i].used && entry[i].dir)
			return i;
	return 0;
}

static unsigned find(unsigned parent, const char *name)
{
	for (unsigned i = 1; i < NAMES; i++)
		if (entry[i].used && entry[i].hashed && entry[i].parent == parent &&
		    entry[i].name[0] == name[0])
			return i;
	return 0;
}

static void forget(uint64_t ino, uint64_t n)
{
	struct req *req = req_new(0);

	ops.forget(req_native(req), ino, n);
}

static void climbs(unsigned dir, const char *text)
{
	bool named = false;
	unsigned up = 0;

	assert(text[0] && text[0] != '/');
	while (*text) {
		size_t n = strcspn(text, "/");

		if (n == 2 && text[0] == '.' && text[1] == '.') {
			assert(!named);
			up++;
		} else if (n && !(n == 1 && text[0] == '.')) {
			named = true;
		}
		text += n + (text[n] != '\0');
	}
	assert(up <= depth(dir));
	entry[dir].up = MAX(entry[dir].up, up);
}

/* The kernel puts what a lookup found where it looked. */
static void found(unsigned parent, const char *name, const struct req *req)
{
	unsigned i, other = find(parent, name), room = 0;

	for (i = 1; i < NAMES; i++) {
		if (!entry[i].used)
			room = room ? room : i;
		else if (entry[i].ino == req->ino && (entry[i].dir || entry[i].parent == parent))
			break;
	}
	if (i == NAMES && !room) {
		forget(req->ino, 1);
		return;
	}
	if (other)
		entry[other].hashed = false;
	if (i == NAMES) {
		i = room;
		entry[i] = (struct entry){.used = true, .ino = req->ino};
	} else if (below(parent, i)) { /* ELOOP */
		forget(req->ino, 1);
		return;
	}
	entry[i].dir = S_ISDIR(req->st.st_mode);
	entry[i].link = S_ISLNK(req->st.st_mode);
	entry[i].parent = parent;
	entry[i].name[0] = name[0];
	entry[i].hashed = true;
	entry[i].lookups++;
}

static void answered(const struct pending *p)
{
	const struct req *req = p->req;

	switch (p->what) {
	case P_FIND:
		if (req->kind == ANSWER_ENTRY)
			found(p->at, p->name, req);
		break;
	case P_SAME:
		if (req->kind == ANSWER_ENTRY && req->ino == entry[p->at].ino) {
			entry[p->at].lookups++;
			break;
		}
		entry[p->at].hashed = false;
		if (req->kind == ANSWER_ENTRY)
			forget(req->ino, 1);
		break;
	case P_READLINK:
		if (req->kind == ANSWER_READLINK)
			climbs(p->at, req->data);
		break;
	case P_RENAME:
		moving.done = req->kind == ANSWER_ERR && req->err == 0;
		moving.asked = moving.done;
		break;
	case P_OTHER: break;
	}
}

static void collect(void)
{
	for (unsigned i = 0; i < npending;) {
		struct pending p = pending[i];

		if (p.req->kind == ANSWER_NONE_YET) {
			i++;
			continue;
		}
		pending[i] = pending[--npending];
		answered(&p);
	}
	for (unsigned i = 0; i < NAMES; i++)
		assert(!entry[i].used || entry[i].up <= depth(i));
}

/* The kernel does what it was told that the host's rename did. */
static void move(void)
{
	unsigned i = find(moving.parent, moving.name),
		 other = find(moving.newparent, moving.newname);

	moving.asked = moving.done = false;
	if (!i || !entry[moving.newparent].used || below(moving.newparent, i))
		return;
	if (other && other != i)
		entry[other].hashed = false;
	entry[i].parent = moving.newparent;
	entry[i].name[0] = moving.newname[0];
}

static struct pending *ask(int what, unsigned at, const char *name)
{
	struct pending *p = &pending[npending++];

	*p = (struct pending){.req = req_new(0), .at = at};
	p->what = what;
	p->name[0] = name ? name[0] : '\0';
	return p;
}

static void pick_name(char *name)
{
	name[0] = (char)('a' + byte() % 4);
	name[1] = '\0';
}

static void lookup(void)
{
	unsigned dir = some_dir(), i;
	char name[2];
	struct pending *p;

	pick_name(name);
	i = find(dir, name);
	/* A rename holds the directories: names in them that are known can be looked at again, no more. */
	if (!i && moving.asked && (dir == moving.parent || dir == moving.newparent))
		return;
	p = i ? ask(P_SAME, i, NULL) : ask(P_FIND, dir, name);
	ops.lookup(req_native(p->req), entry[dir].ino, name);
}

static void readlink_or_getattr(void)
{
	unsigned i = byte() % NAMES;
	struct pending *p;

	if (!entry[i].used)
		return;
	p = entry[i].link ? ask(P_READLINK, entry[i].parent, NULL) : ask(P_OTHER, 0, NULL);
	p->on = i;
	if (entry[i].link)
		ops.readlink(req_native(p->req), entry[i].ino);
	else
		ops.getattr(req_native(p->req), entry[i].ino, NULL);
}

static void rename_one(void)
{
	const unsigned from = some_dir(), to = some_dir();
	unsigned i;

	if (moving.asked)
		return;
	pick_name(moving.name);
	pick_name(moving.newname);
	i = find(from, moving.name);
	if (!i || below(to, i) ||
	    (find(to, moving.newname) && below(from, find(to, moving.newname))))
		return;
	for (unsigned n = 0; n < npending; n++) /* the locks of whoever looks there */
		if (pending[n].what == P_FIND && (pending[n].at == from || pending[n].at == to))
			return;
	moving.asked = true;
	moving.parent = from;
	moving.newparent = to;
	ops.rename(req_native(ask(P_RENAME, 0, NULL)->req), entry[from].ino, moving.name,
		   entry[to].ino, moving.newname, 0);
}

static void make(void)
{
	struct fuse_file_info fi = {.flags = O_WRONLY};
	const unsigned dir = some_dir();
	char name[2];

	pick_name(name);
	if (find(dir, name) || (moving.asked && (dir == moving.parent || dir == moving.newparent)))
		return;
	switch (byte() % 3) {
	case 0:
		ops.mkdir(req_native(ask(P_FIND, dir, name)->req), entry[dir].ino, name, 0755);
		break;
	case 1:
		ops.symlink(req_native(ask(P_FIND, dir, name)->req), "../../x", entry[dir].ino,
			    name);
		break;
	default:
		/* Its answer has a handle too, which is left open. */
		ops.opendir(req_native(ask(P_OTHER, dir, NULL)->req), entry[dir].ino, &fi);
	}
}

static void drop(void)
{
	unsigned i = byte() % NAMES;

	if (!i || !entry[i].used || moving.asked)
		return;
	for (unsigned n = 0; n < NAMES; n++)
		if (entry[n].used && n && entry[n].parent == i)
			return;
	for (unsigned n = 0; n < npending; n++)
		if (pending[n].at == i || pending[n].on == i)
			return;
	forget(entry[i].ino, entry[i].lookups);
	entry[i].used = false;
}

static void answer(struct sandbox *s)
{
	static const uint32_t modes[] = {S_IFDIR | 0755,  S_IFLNK | 0777, S_IFREG | 0644,
					 S_IFDIR | 01777, S_IFIFO | 0600, S_IFSOCK};
	static const char *const part[] = {"../",	 "..", "x",	"/",
					   "/home/user", "./", "x/../", ".outside-files/"};
	struct vm_dirent entries[2] = {{1, 1, S_IFREG, "a"}, {2, UINT64_MAX, S_IFIFO, "b"}};
	struct vm_file_reply reply = {0};
	char text[80] = "";
	uint8_t how;

	if (!s->nfiles)
		return;
	how = byte();
	reply.node = 1 + byte() % 8;
	reply.handle = how;
	reply.attr = (struct vm_attr){.ino = reply.node,
				      .mode = modes[how % ARRAY_SIZE(modes)],
				      .size = how % 5 ? how : UINT64_MAX,
				      .blocks = UINT64_MAX,
				      .nlink = how};
	for (uint8_t bits = byte(), n = 0; n < 5 && (n == 0 || bits); n++, bits /= 6)
		strncat(text, part[bits % ARRAY_SIZE(part)], sizeof(text) - strlen(text) - 1);
	reply.data = text;
	reply.size = strlen(text);
	reply.entries = entries;
	reply.nentries = how % 3;
	fake_answer_at(s, byte() % s->nfiles, how % 16 == 15 ? -ENOENT : 0, &reply);
}

static void step(struct sandbox *s)
{
	const uint8_t what = byte();

	switch (what % 10) {
	case 0:
	case 1: lookup(); break;
	case 2: readlink_or_getattr(); break;
	case 3: rename_one(); break;
	case 4: make(); break;
	case 5: drop(); break;
	case 6:
		if (moving.done)
			move();
		break;
	case 7:
		if (npending && pending[what % npending].what == P_OTHER)
			req_interrupt(pending[what % npending].req);
		break;
	default: answer(s); break;
	}
	collect();
}

static struct sandbox *set_up(void)
{
	struct session *s;

	assert(fx_mkdir(fx, "python/f") == 0);
	s = session_find(fx->fs, 0, "f");
	assert(s && session_start(s) == 0);
	fake_state(s->sandbox, SANDBOX_STARTING);
	fake_state(s->sandbox, SANDBOX_READY);
	memset(entry, 0, sizeof(entry));
	memset(&moving, 0, sizeof(moving));
	entry[0] = (struct entry){
		.ino = fx_ino(fx, "python/f/files"), .used = true, .hashed = true, .dir = true};
	return s->sandbox;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sandbox *s;
	void *state;

	if (!fx) {
		log_open(LOG_LEVEL_ERROR);
		fx_setup(&state);
		fx = state;
	}
	s = set_up();
	in = data;
	left = size;
	while (left) {
		if (npending < PENDING)
			step(s);
		else
			answer(s), collect();
	}
	while (s->nfiles)
		fake_answer_at(s, 0, -EIO, NULL);
	collect();
	assert(npending == 0);
	for (unsigned i = 1; i < NAMES; i++)
		if (entry[i].used)
			forget(entry[i].ino, entry[i].lookups);
	assert(session_find(fx->fs, 0, "f")->files->nodes.n == 0);
	assert(fx_rmdir(fx, "python/f") == 0);
	fake_settle();
	fake_check_all();
	req_check_all();
	return 0;
}
