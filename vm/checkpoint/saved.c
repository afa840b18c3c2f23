/* SPDX-License-Identifier: Apache-2.0 */
/* Saved sandboxes. See saved.h. */
#include "saved.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "point.h"

static struct saved_load in_memory;

static TAILQ_HEAD(, saved) changed = TAILQ_HEAD_INITIALIZER(changed);
static struct {
	void (*gone)(void *data, uint64_t number);
	void *data;
} watch;

void saved_set_number(struct saved *s, uint64_t number)
{
	s->number = number;
}

uint64_t saved_number(const struct saved *s)
{
	return s->number;
}

void saved_has_changed(struct saved *s)
{
	if (!s->number || s->changed)
		return;
	s->changed = true;
	TAILQ_INSERT_TAIL(&changed, s, otherwise);
}

struct saved *saved_next_changed(void)
{
	struct saved *s = TAILQ_FIRST(&changed);

	if (s) {
		TAILQ_REMOVE(&changed, s, otherwise);
		s->changed = false;
	}
	return s;
}

void saved_watch(void (*gone)(void *data, uint64_t number), void *data)
{
	watch.gone = gone;
	watch.data = data;
}

/* ---- machines that memory is of ---- */

/* There are few of them, and many that were saved: those of one template have the same. */
struct machine {
	LIST_ENTRY(machine) link;
	unsigned refs;
	size_t len;
	char text[];
};

static LIST_HEAD(, machine) machines = LIST_HEAD_INITIALIZER(machines);

/* Return: a reference, or NULL. */
static struct machine *machine_get(const char *text, size_t len)
{
	struct machine *m;

	LIST_FOREACH(m, &machines, link)
		if (m->len == len && memcmp(m->text, text, len) == 0)
			break;
	if (!m) {
		m = calloc(1, sizeof(*m) + len + 1);
		if (!m)
			return NULL;
		m->len = len;
		memcpy(m->text, text, len);
		LIST_INSERT_HEAD(&machines, m, link);
	}
	m->refs++;
	return m;
}

static void machine_put(struct machine *m)
{
	if (!m || --m->refs)
		return;
	LIST_REMOVE(m, link);
	free(m);
}

void saved_describe(struct saved *s, const char *text, size_t len)
{
	if (!s->machine && s->memory)
		s->machine = machine_get(text, len);
}

bool saved_need(const struct saved *s, const char *word, char *ret_text, size_t size)
{
	const char *line = s->machine ? s->machine->text : NULL;
	const size_t n = strlen(word);
	size_t len = 0;

	while (line && (strncmp(line, word, n) != 0 || line[n] != ' ')) {
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	if (!line)
		return false;
	for (line += n + 1; *line && *line != '\n' && len + 1 < size; line++)
		ret_text[len++] = (char)(isprint((unsigned char)*line) ? *line : ' ');
	ret_text[len] = '\0';
	return true;
}

/* ---- in memory ---- */

/* Parts that several share are counted as often; that errs on the side of caution. */
static void count(const struct saved *s, bool more)
{
	const uint64_t bytes =
		(s->pack ? pack_bytes(s->pack) : 0) + (s->point ? s->point->bytes : 0);

	in_memory.bytes += more ? bytes : -bytes;
	in_memory.points += s->point ? more ? 1u : -1u : 0;
}

struct saved_load saved_in_memory(void)
{
	return in_memory;
}

void saved_attach(struct saved *s, struct pack *pack, struct point *point)
{
	count(s, false);
	if (pack) {
		pack_unref(s->pack);
		s->pack = pack;
	}
	if (point) {
		point_unref(s->point);
		s->point = point;
		if (point->machine)
			saved_describe(s, point->machine, strlen(point->machine));
	}
	count(s, true);
	saved_has_changed(s);
}

void saved_detach(struct saved *s)
{
	count(s, false);
	s->flaws = saved_flaws(s);
	s->pack = pack_unref(s->pack);
	s->point = point_unref(s->point);
	saved_has_changed(s);
}

struct saved *saved_new(struct pack *pack, struct point *point)
{
	struct saved *s = calloc(1, sizeof(*s));
	struct pack_attr a;

	if (!s) {
		pack_unref(pack);
		point_unref(point);
		return NULL;
	}
	*s = (struct saved){.refs = 1, .memory = point};
	if (pack) {
		pack_attr(pack, PACK_ROOT, &a);
		s->mtime = a.mtime;
		s->files_bytes = pack_bytes(pack);
		s->flaws = pack_flaws(pack);
	}
	s->memory_bytes = point ? point->bytes : 0;
	saved_attach(s, pack, point);
	return s;
}

struct saved *saved_files_only(struct saved *s)
{
	struct saved *files = saved_new(s->pack ? pack_ref(s->pack) : NULL, NULL);

	if (!files)
		return NULL;
	files->mtime = s->mtime;
	files->files_bytes = s->files_bytes;
	files->flaws = s->flaws;
	if (!s->pack && s->ops) {
		files->ops = s->ops;
		files->vault = s->vault;
		files->of = saved_ref(s->of ? s->of : s);
		s->ops->derived(files);
	}
	return files;
}

struct saved *saved_ref(struct saved *s)
{
	s->refs++;
	return s;
}

struct saved *saved_unref(struct saved *s)
{
	struct saved *of;

	if (!s)
		return NULL;
	assert(s->refs > 0);
	if (--s->refs)
		return NULL;
	of = s->of;
	if (s->vault)
		s->ops->freed(s);
	saved_detach(s);
	if (s->changed)
		TAILQ_REMOVE(&changed, s, otherwise);
	if (s->number && watch.gone)
		watch.gone(watch.data, s->number);
	machine_put(s->machine);
	free(s);
	return saved_unref(of);
}

const char *saved_id(const struct saved *s)
{
	return *s->id ? s->id : NULL;
}

const char *saved_files_of(const struct saved *s)
{
	return s->of ? saved_id(s->of) : NULL;
}

bool saved_has_memory(const struct saved *s)
{
	return s->memory;
}

struct pack *saved_pack(const struct saved *s)
{
	return s->pack;
}

struct point *saved_point(const struct saved *s)
{
	return s->point;
}

bool saved_is_loaded(const struct saved *s)
{
	return !s->ops || (s->pack && (s->point || !s->memory));
}

void saved_load(struct saved *s, struct wait *w)
{
	assert(s->ops && !saved_is_loaded(s));
	s->ops->load(s, true, w);
}

void saved_load_files(struct saved *s, struct wait *w)
{
	assert(s->ops && !s->pack);
	s->ops->load(s, false, w);
}

void saved_unload(struct saved *s)
{
	if (s->ops && *s->id)
		s->ops->unload(s);
}

struct timespec saved_mtime(const struct saved *s)
{
	return s->mtime;
}

struct pack_flaws saved_flaws(const struct saved *s)
{
	return s->pack ? pack_flaws(s->pack) : s->flaws;
}

uint64_t saved_files_bytes(const struct saved *s)
{
	return s->files_bytes;
}

uint64_t saved_memory_bytes(const struct saved *s)
{
	return s->memory_bytes;
}

uint64_t saved_bytes(const struct saved *s)
{
	return s->disk_bytes ? s->disk_bytes : s->files_bytes + s->memory_bytes;
}

bool saved_is_damaged(const struct saved *s)
{
	return s->of ? s->of->damaged : s->damaged;
}

void saved_set_damaged(struct saved *s, bool damaged)
{
	if (s->of)
		s = s->of;
	if (s->damaged == damaged || s->headless)
		return;
	s->damaged = damaged;
	saved_has_changed(s);
}

uint64_t saved_base_bytes(const struct saved *s)
{
	return s->base_bytes;
}

int saved_compare_bases(const struct saved *a, const struct saved *b)
{
	return strcmp(a->base, b->base);
}
