/* SPDX-License-Identifier: Apache-2.0 */
/* Records of jobs and named runs. */
#include <errno.h>
#include <string.h>

#include "fs/session/fs.h"
#include "internal.h"

/* Never reuse a number. */
enum {
	JOB_NAME = 1,
	JOB_NUMBER,
	JOB_OF_SESSION,
	JOB_REMOVED,
	JOB_UNSENT,
	JOB_INSIDE,
	JOB_RESET,
	JOB_SETTINGS,
	JOB_CONFIG_MTIME,
	JOB_FRONT,
	JOB_MARK, /* live: its id */
};

enum {
	SET_LANGUAGE = 1,
	SET_ARGV,
	SET_CWD,
	SET_ENV,
	SET_TIMEOUT_S,
	SET_TTY,
	SET_ROWS,
	SET_COLS,
	SET_NICE,
	SET_ROOT,
	SET_INPUT,
};

/* ---- settings ---- */

static void put_settings(struct buf *out, const struct job_settings *js)
{
	const size_t at = record_open(out, JOB_SETTINGS);

	record_str(out, SET_LANGUAGE, js->language);
	keep_put_buf(out, SET_ARGV, &js->argv);
	record_str(out, SET_CWD, js->cwd);
	keep_put_buf(out, SET_ENV, &js->env);
	record_u64(out, SET_TIMEOUT_S, js->timeout_s);
	keep_put_u64(out, SET_TTY, js->tty);
	record_u64(out, SET_ROWS, js->rows);
	record_u64(out, SET_COLS, js->cols);
	record_u64(out, SET_NICE, js->nice);
	keep_put_u64(out, SET_ROOT, js->root);
	keep_put_u64(out, SET_INPUT, js->input);
	record_close(out, at);
}

static int settings_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct job_settings *js = to;

	(void)in;
	switch (f->tag) {
	case SET_LANGUAGE: return keep_get_text(f, &js->language, 64);
	case SET_ARGV: return keep_get_buf(f, &js->argv, JOB_ARGV_MAX);
	case SET_CWD: return keep_get_text(f, &js->cwd, JOB_PATH_MAX);
	case SET_ENV: return keep_get_buf(f, &js->env, JOB_ENV_MAX);
	case SET_TIMEOUT_S: return record_get_u32(f, JOB_TIMEOUT_MAX, &js->timeout_s);
	case SET_TTY: return record_get_bool(f, &js->tty);
	case SET_ROWS: return record_get_u32(f, 1000, &js->rows);
	case SET_COLS: return record_get_u32(f, 1000, &js->cols);
	case SET_NICE: return record_get_u32(f, PROTO_NICE_MAX, &js->nice);
	case SET_ROOT: return record_get_bool(f, &js->root);
	case SET_INPUT: return record_get_bool(f, &js->input);
	default: return 0;
	}
}

/* What was read, as its own text, is read again as if a user had written it. Of a job that has run, limits of today do not
 * matter. Return: 0, -EBADMSG, -ENOMEM; 1 with @why if it is not allowed any more. */
static int check_settings(const struct keep_in *in, const struct job *j, struct problem *why)
{
	static const struct settings_limits none;
	const char *const languages[] = {in->s->settings.spec.language, j->settings.language, NULL};
	const struct settings_limits *limits =
		j->front.latest || in->io->live ? &none : &in->fs->conf->limits;
	struct job_settings again;
	struct buf text = {0};
	int e;

	if ((j->settings.argv.len && j->settings.argv.data[j->settings.argv.len - 1]) ||
	    !keep_env_is_sound(&j->settings.env) || !j->settings.rows || !j->settings.cols)
		return -EBADMSG;
	if (!j->front.latest && j->settings.root && !in->s->settings.spec.root) {
		problem_set(why, PROBLEM_NOT_ALLOWED, "Write its config again.",
			    "user: the template allows no root any more");
		return 1;
	}
	e = job_settings_init(&again, &in->s->settings);
	if (e < 0)
		return e;
	e = job_settings_render(&j->settings, &text);
	if (e == 0)
		e = job_settings_parse(&again, text.data, text.len, 0, limits, languages, why);
	job_settings_clear(&again);
	buf_clear(&text);
	if (e != -EINVAL)
		return e;
	return limits == &none ? -EBADMSG : 1;
}

/* ---- jobs ---- */

static void put_fields(struct keep_out *o, struct job *j)
{
	record_str(o->out, JOB_NAME, j->name);
	record_u64(o->out, JOB_NUMBER, j->number);
	keep_put_u64(o->out, JOB_OF_SESSION, j->of_session);
	keep_put_u64(o->out, JOB_REMOVED, j->removed);
	if (o->io->live) {
		record_u64(o->out, JOB_MARK, touched_id(&j->s->fs->touched, &j->mark));
		keep_put_u64(o->out, JOB_UNSENT, j->unsent);
		keep_put_u64(o->out, JOB_INSIDE, j->inside);
		keep_put_u64(o->out, JOB_RESET, j->reset);
	}
	put_settings(o->out, &j->settings);
	record_time(o->out, JOB_CONFIG_MTIME, &j->config_mtime);
	keep_put_front(o, JOB_FRONT, &j->front);
}

void keep_put_job(struct keep_out *o, unsigned tag, struct job *j)
{
	const size_t at = record_open(o->out, tag);

	put_fields(o, j);
	record_close(o->out, at);
}

int keep_put_live_job(struct buf *out, struct job *j, const struct keep_io *io)
{
	struct keep_out o = {.out = out, .s = j->s, .io = io};

	put_fields(&o, j);
	return out->failed;
}

/* What is known of one before there is one. */
struct jobbing {
	char name[65];
	uint32_t number;
	bool of_session, removed, unsent, inside, reset;
	uint64_t mark;
	struct record_field settings, front;
	struct timespec config_mtime;
};

static int job_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct jobbing *of = to;

	(void)in;
	switch (f->tag) {
	case JOB_NAME: return record_get_str(f, of->name, sizeof(of->name));
	case JOB_NUMBER: return record_get_u32(f, JOB_NUMBER_MAX, &of->number);
	case JOB_OF_SESSION: return record_get_bool(f, &of->of_session);
	case JOB_REMOVED: return record_get_bool(f, &of->removed);
	case JOB_UNSENT: return record_get_bool(f, &of->unsent);
	case JOB_INSIDE: return record_get_bool(f, &of->inside);
	case JOB_RESET: return record_get_bool(f, &of->reset);
	case JOB_SETTINGS: of->settings = *f; return 0;
	case JOB_CONFIG_MTIME: return record_get_time(f, &of->config_mtime);
	case JOB_FRONT: of->front = *f; return 0;
	case JOB_MARK: return record_get(f, 1, UINT64_MAX / 2, &of->mark);
	default: return 0;
	}
}

static bool is_sound(const struct keep_in *in, const struct job *j)
{
	const struct run *r = j->front.latest;

	if (j->removed && (!in->io->live || r || j->inside || j->unsent))
		return false;
	if (j->of_session || !r)
		return !j->unsent && !j->inside;
	if (j->unsent != (r->state == RUN_QUEUED) || (j->unsent && j->inside))
		return false;
	return r->state != RUN_RUNNING || j->inside;
}

static int fill(struct keep_in *in, struct job *j, const struct jobbing *of)
{
	struct problem why = {0};
	int e = keep_inside(in, &of->settings, settings_field, &j->settings);

	j->unsent = of->unsent;
	j->inside = of->inside;
	j->reset = of->reset;
	j->config_mtime = of->config_mtime;
	if (e == 0)
		e = keep_get_front(in, &of->front, &j->front);
	if (e == 0)
		e = keep_join_front(in->fs, &j->front);
	if (e == 0 && !is_sound(in, j))
		e = -EBADMSG;
	if (e == 0)
		e = check_settings(in, j, &why);
	if (e <= 0)
		return e;
	job_settings_clear(&j->settings);
	front_problem(&j->front, &why);
	return job_settings_init(&j->settings, &in->s->settings);
}

static int get(struct keep_in *in, struct record_reader fields)
{
	struct jobbing of = {0};
	struct job *j = NULL;
	int e = keep_fields(in, fields, job_field, &of);

	if (e == 0 && in->io->live != (of.mark != 0))
		e = -EBADMSG;
	if (e == 0)
		e = job_revive(in->s, of.name, of.of_session, of.number, of.removed, &j);
	if (e < 0 || !j)
		return e == -ENOMEM ? e : -EBADMSG;
	j->mark = of.mark;
	touched_has_id(&in->fs->touched, of.mark);
	e = fill(in, j, &of); /* if it is wrong, the whole session goes, and this with it */
	if (e == 0)
		in->s->jobs_going += !j->of_session && job_going(j);
	return e;
}

int keep_get_job(struct keep_in *in, const struct record_field *f)
{
	return f->is_bytes && !in->io->live ? get(in, record_inside(f)) : -EBADMSG;
}

int keep_get_live_job(struct keep_in *in, const struct record *record)
{
	return get(in, record->fields);
}
