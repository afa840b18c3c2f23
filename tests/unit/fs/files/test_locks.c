/* SPDX-License-Identifier: Apache-2.0 */
/* Locks as the kernel asks for them: below `files/`, which are the agent's, and on nodes of the daemon's own. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/fixture_files.c */
#include <errno.h>
#include <fuse_lowlevel.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>

#include "fs/files/files.h"
#include "tests/unit/fixture/fixture_files.h"
#include "fs/fuse/ops.h"
#include "vm/base/util.h"

#define FILES "python/demo/files"
#define NOTES "python/demo/notes"

static void flush(const struct file *f, uint64_t owner)
{
	struct fuse_file_info fi = {.fh = f->fh, .lock_owner = owner};
	struct req *req = req_new(0);

	ops.flush(req_native(req), f->ino, &fi);
	assert_error(req, 0);
}

/* ---- below files/ ---- */

static struct file open_remote(struct fixture *fx, struct sandbox *s)
{
	static const struct vm_file_reply file = {
		.node = 7,
		.handle = 70,
		.attr = {.ino = 4711, .mode = S_IFREG | 0640, .nlink = 1, .size = 5}};
	struct fuse_file_info fi = {.flags = O_RDWR};
	struct req *req = req_new(fx->pid);

	ops.create(req_native(req), fx_ino(fx, FILES), "x", 0644, &fi);
	fake_answer(s, 0, &file);
	assert_int_equal(req->kind, ANSWER_CREATE);
	return (struct file){.ino = req->ino, .fh = req->fh, .flags = O_RDWR};
}

/* A signal that is there before the request can be sent must not overtake it. */
static void test_interrupted_at_once(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct file f = open_remote(fx, s);
	struct fuse_file_info fi = {.fh = f.fh, .lock_owner = 1};
	struct flock fl = {.l_type = F_WRLCK};
	struct req *req = req_new(0);

	req->interrupted = true;
	ops.setlk(req_native(req), f.ino, &fi, &fl, true);
	assert_error(req, -EINTR);
	assert_int_equal(s->nfiles, 0);
	assert_int_equal(s->ncancels, 0);
	fx_release(fx, &f);
}

static void test_interrupted_while_it_waits(void **state)
{
	static const struct vm_file_reply granted = {.handle = 0};
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct file f = open_remote(fx, s);
	struct req *req = fx_setlk(&f, 1, F_WRLCK, 0, 0, true);

	assert_waits(req);
	req_interrupt(req);
	assert_int_equal(s->ncancels, 1);
	assert_false(s->cancelled.undo);
	assert_int_equal(s->cancelled.token, s->file[0].rq.lock.token);
	fake_answer(s, -EINTR, NULL);
	assert_error(req, -EINTR);
	/* Granted at that very moment: then the caller has it. */
	req = fx_setlk(&f, 1, F_WRLCK, 0, 0, true);
	req_interrupt(req);
	fake_answer(s, 0, &granted);
	assert_error(req, 0);
	clock_advance(2000);
	assert_int_equal(s->ncancels, 2);
	fx_release(fx, &f);
}

/* Who is told EINTR has what he had before: the agent is to see to that, before anything he asks next. */
static void test_given_up(void **state)
{
	static const struct vm_file_reply granted = {.handle = 0};
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct file f = open_remote(fx, s);
	struct req *req = fx_setlk(&f, 1, F_RDLCK, 0, 10, false);
	uint64_t token;

	fake_answer(s, 0, &granted);
	assert_error(req, 0);
	for (int wait = 0; wait < 2; wait++) {
		req = fx_setlk(&f, 1, F_WRLCK, 0, 10, wait);
		token = s->file[0].rq.lock.token;
		assert_true(token);
		req_interrupt(req);
		clock_advance(1000);
		assert_error(req, -EINTR);
		assert_true(s->cancelled.undo);
		assert_int_equal(s->cancelled.token, token);
		fake_answer(s, 0, &granted);
		assert_int_equal(s->nfiles,
				 0); /* no unlock, which would take the shared one along */
	}
	fx_release(fx, &f);
}

/* A kernel that ends the mount when a request has waited too long, and an agent that does not answer. */
static void test_renewed_without_an_answer(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct file f = open_remote(fx, s);
	struct req *req = fx_setlk(&f, 1, F_WRLCK, 0, 0, true), *interrupted;
	struct files *files = fx_demo(fx)->files;

	interrupted = fx_setlk(&f, 2, F_WRLCK, 0, 0, true);
	files_renew(files, uv_now(fx->fs->loop));
	assert_waits(req);
	assert_int_equal(s->ncancels, 2);
	req_interrupt(interrupted);
	clock_advance(1000);
	assert_error(req, -EAGAIN);
	assert_error(interrupted, -EINTR);
	assert_true(s->cancelled.undo);
	fake_answer(s, -EINTR, NULL);
	fake_answer(s, -EINTR, NULL);
	fx_release(fx, &f);
}

/* close(2) says nothing of what becomes of locks. */
static void test_close_without_an_answer(void **state)
{
	static const struct vm_file_reply granted = {.handle = 0};
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct file f = open_remote(fx, s);
	struct fuse_file_info fi = {.fh = f.fh, .lock_owner = 1};
	struct req *req = fx_setlk(&f, 1, F_WRLCK, 0, 0, false);

	fake_answer(s, 0, &granted);
	assert_error(req, 0);
	req = req_new(0);
	ops.flush(req_native(req), f.ino, &fi);
	assert_waits(req);
	req_interrupt(req);
	clock_advance(1000);
	assert_error(req, 0);
	fake_answer(s, 0, &granted);
	fx_release(fx, &f);
}

/* ---- nodes of the daemon ---- */

static void test_share_of_a_user(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, NOTES, O_RDWR | O_CREAT);
	struct fuse_file_info fi = {.fh = f.fh, .lock_owner = 999999};
	struct flock fl = {.l_type = F_RDLCK, .l_start = 1, .l_len = 1};
	struct req *req;
	uint64_t n = 0;

	/* As many owners as there may be, and then as many ranges. */
	do {
		req = fx_setlk(&f, ++n, F_RDLCK, 0, 1, false);
		assert_true(n <= LOCKBOOK_HOLDERS);
	} while (req->err == 0);
	assert_error(req, -ENOLCK);
	for (off_t at = 2;; at += 2) {
		req = fx_setlk(&f, 1, F_RDLCK, at, 1, false);
		if (req->err)
			break;
		assert_true(at < 4 * LOCKBOOK_RANGES);
	}
	assert_error(req, -ENOLCK);
	assert_error(fx_setlk(&f, 2, F_RDLCK, 5, 1, false), -ENOLCK);
	/* Another has a share of his own. */
	req = req_new(0);
	req->ctx.uid = 1001;
	ops.setlk(req_native(req), f.ino, &fi, &fl, false);
	assert_error(req, 0);
	/* What is there can be given back, with holes too, and then there is room. */
	assert_error(fx_setlk(&f, 1, F_UNLCK, 2, 1, false), 0);
	assert_error(fx_setlk(&f, 1, F_UNLCK, 4, 0, false), 0);
	assert_error(fx_setlk(&f, 2, F_RDLCK, 0, 100, false), 0);
	for (off_t at = 2; at < 100; at += 2)
		assert_error(fx_setlk(&f, 2, F_UNLCK, at, 1, false), 0);
	for (uint64_t o = 1; o < n; o++)
		flush(&f, o);
	fx_release(fx, &f);
	assert_int_equal(fx->fs->locks.nranges, 0);
}

static void test_full_and_holes(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, NOTES, O_RDWR | O_CREAT);
	off_t at = 2;

	assert_error(fx_setlk(&f, 1, F_WRLCK, 1000000, 0, false), 0);
	while (fx_setlk(&f, 1, F_WRLCK, at, 1, false)->err == 0)
		at += 2;
	for (off_t hole = 0; hole < 1000; hole++)
		assert_error(fx_setlk(&f, 1, F_UNLCK, 1000001 + 2 * hole, 1, false), 0);
	flush(&f, 1);
	fx_release(fx, &f);
	assert_int_equal(fx->fs->locks.nranges, 0);
}

static void test_waits_of_a_user(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, NOTES, O_RDWR | O_CREAT);
	struct req *waits[1000], *req;
	unsigned n = 0;

	assert_error(fx_setlk(&f, 1, F_WRLCK, 0, 0, false), 0);
	while (n < ARRAY_SIZE(waits) && (req = fx_setlk(&f, 2 + n, F_WRLCK, 0, 0, true))->err == 0)
		waits[n++] = req;
	assert_true(n < ARRAY_SIZE(waits));
	assert_error(req, -ENOLCK);
	while (n--)
		req_interrupt(waits[n]);
	flush(&f, 1);
	fx_release(fx, &f);
}

/* flock(2): two who share and both want it alone. A conversion gives up what there was. */
static void test_two_conversions(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, NOTES, O_RDWR | O_CREAT);
	struct file g = fx_opened(fx, NOTES, O_RDWR);
	struct req *one, *two;

	assert_error(fx_flock(&f, 1, LOCK_SH | LOCK_NB), 0);
	assert_error(fx_flock(&g, 2, LOCK_SH | LOCK_NB), 0);
	one = fx_flock(&f, 1, LOCK_EX);
	assert_waits(one);
	two = fx_flock(&g, 2, LOCK_EX);
	assert_error(two, 0);
	assert_waits(one);
	fx_release(fx, &g);
	assert_error(one, 0);
	fx_release(fx, &f);
}

/* ---- a model ---- */

#define BYTES  12u
#define OWNERS 8u /* half of them processes with two handles, half open files */
#define STEPS  30000u

static bool whole_owner(unsigned o)
{
	return o >= OWNERS / 2;
}

struct asked {
	struct req *req; /* NULL: none */
	uint8_t type;
	unsigned start, end, by;
};

static struct model {
	struct fixture *fx;
	struct file handle[OWNERS][2];
	bool left
		[OWNERS]; /* its first handle is closed, but for somebody else's sake not yet released */
	uint8_t held[OWNERS][BYTES]; /* enum proto_lock_type; of a whole file in the first */
	struct asked wait[OWNERS];
} m;

static bool blocks(unsigned other, unsigned o, const struct asked *a)
{
	if (other == o || whole_owner(other) != whole_owner(o) || !a->type)
		return false;
	for (unsigned i = a->start; i <= a->end; i++)
		if (m.held[other][i] + a->type > 2 && m.held[other][i])
			return true;
	return false;
}

static bool blocked(unsigned o, const struct asked *a)
{
	for (unsigned other = 0; other < OWNERS; other++)
		if (blocks(other, o, a))
			return true;
	return false;
}

/* Would this wait end only with itself? */
static bool circle(unsigned first, unsigned o, const struct asked *a, unsigned seen)
{
	for (unsigned other = 0; other < OWNERS; other++) {
		if (!blocks(other, o, a))
			continue;
		if (other == first)
			return true;
		if (!(seen & 1u << other) && m.wait[other].req &&
		    circle(first, other, &m.wait[other], seen | 1u << other))
			return true;
	}
	return false;
}

static void hold(unsigned o, const struct asked *a)
{
	memset(&m.held[o][a->start], a->type, a->end - a->start + 1);
}

/* Some who waited have got it: there must be an order in which they could, and nobody waits in vain. */
static void settle(void)
{
	bool any = true;

	while (any) {
		any = false;
		for (unsigned o = 0; o < OWNERS; o++) {
			struct asked *w = &m.wait[o];

			if (!w->req || w->req->kind == ANSWER_NONE_YET || blocked(o, w))
				continue;
			assert_error(w->req, 0);
			hold(o, w);
			w->req = NULL;
			any = true;
		}
	}
	for (unsigned o = 0; o < OWNERS; o++) {
		if (m.wait[o].req) {
			assert_waits(m.wait[o].req);
			assert_true(blocked(o, &m.wait[o]));
		}
	}
}

static void compare(void)
{
	const struct lock_file file = {0, m.handle[0][1].ino};
	unsigned nranges = 0;

	for (unsigned o = 0; o < OWNERS; o++) {
		const struct lock_holder *h = lockbook_find(&m.fx->fs->locks, file, o + 1);
		uint8_t got[BYTES] = {0};

		for (const struct lock_range *r = h ? h->ranges : NULL; r; r = r->next, nranges++)
			memset(got + r->start, (int)r->type, r->end - r->start + 1);
		if (h && whole_owner(o))
			got[0] = h->whole;
		assert_memory_equal(got, m.held[o], BYTES);
	}
	assert_int_equal(nranges, m.fx->fs->locks.nranges);
}

static void ask(unsigned o)
{
	static const short range[] = {F_UNLCK, F_RDLCK, F_WRLCK};
	static const int whole[] = {LOCK_UN, LOCK_SH, LOCK_EX};
	struct asked a = {.type = (uint8_t)(random() % 3), .by = m.left[o] || random() % 2};
	const struct file *f = &m.handle[o][a.by];
	bool wait = random() % 2 && !m.wait[o].req, dead;

	if (whole_owner(o)) {
		if (m.wait[o].req)
			return;
		dead = false;
		if (m.held[o][0] != a.type && blocked(o, &a))
			m.held[o][0] = 0; /* a conversion that can't be had */
		a.req = fx_flock(f, o + 1, whole[a.type] | (wait ? 0 : LOCK_NB));
	} else {
		a.start = (unsigned)random() % BYTES;
		a.end = a.start + (unsigned)random() % (BYTES - a.start);
		dead = wait && circle(o, o, &a, 0);
		a.req = fx_setlk(f, o + 1, range[a.type], a.start, a.end - a.start + 1, wait);
	}
	if (!blocked(o, &a)) {
		assert_error(a.req, 0);
		hold(o, &a);
	} else if (!wait || dead) {
		assert_error(a.req, wait ? -EDEADLK : -EAGAIN);
	} else {
		m.wait[o] = a;
	}
}

/* close(2): of an open file, or by a process, while another may have it open for a while yet. */
static void leave(unsigned o)
{
	struct file *f = &m.handle[o][0];

	if (m.wait[o].req && (whole_owner(o) || m.wait[o].by == 0))
		return; /* the kernel keeps it open, and would take back what it gets */
	if (m.left[o] || whole_owner(o)) {
		if (whole_owner(o))
			m.held[o][0] = 0;
		fx_release(m.fx, f);
		*f = fx_opened(m.fx, NOTES, O_RDWR);
		if (whole_owner(o))
			m.handle[o][1] = *f;
		m.left[o] = false;
		return;
	}
	memset(m.held[o], 0, BYTES);
	flush(f, o + 1);
	m.left[o] = true;
}

static void test_model(void **state)
{
	const char *given = getenv("SEED");
	unsigned seed = given ? (unsigned)atol(given) : (unsigned)time(NULL);

	printf("SEED=%u\n", seed);
	srandom(seed);
	m = (struct model){.fx = *state};
	for (unsigned o = 0; o < OWNERS; o++)
		for (unsigned i = 0; i < 2; i++)
			m.handle[o][i] = i && whole_owner(o)
						 ? m.handle[o][0]
						 : fx_opened(m.fx, NOTES, O_RDWR | O_CREAT);
	for (unsigned n = 0; n < STEPS; n++) {
		unsigned o = (unsigned)random() % OWNERS;

		if (random() % 16 == 0) {
			leave(o);
		} else if (m.wait[o].req && random() % 4 == 0) {
			req_interrupt(m.wait[o].req);
			assert_error(m.wait[o].req, -EINTR);
			m.wait[o].req = NULL;
		} else {
			ask(o);
		}
		settle();
		compare();
	}
	for (unsigned o = 0; o < OWNERS; o++) {
		if (m.wait[o].req)
			req_interrupt(m.wait[o].req);
		m.wait[o].req = NULL;
		flush(&m.handle[o][0], o + 1);
		if (!whole_owner(o))
			memset(m.held[o], 0, BYTES);
		settle();
	}
	for (unsigned o = 0; o < OWNERS; o++)
		for (unsigned i = 0; i < (whole_owner(o) ? 1 : 2); i++)
			fx_release(m.fx, &m.handle[o][i]);
	assert_int_equal(m.fx->fs->locks.nholders, 0);
	assert_int_equal(m.fx->fs->locks.nranges, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_interrupted_at_once),
		fx_test(test_interrupted_while_it_waits),
		fx_test(test_given_up),
		fx_test(test_renewed_without_an_answer),
		fx_test(test_close_without_an_answer),
		fx_test(test_share_of_a_user),
		fx_test(test_full_and_holes),
		fx_test(test_waits_of_a_user),
		fx_test(test_two_conversions),
		fx_test(test_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
