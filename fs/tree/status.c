/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON nodes. Keys are added, not renamed: programs read these. */
#include "nodes.h"
#include "quota_node.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/config/key.h"
#include "fs/session/binding.h"
#include "fs/session/job.h"
#include "fs/session/session.h"
#include "json.h"
#include "vm/base/turn.h"

static json_t *ms(uint64_t us)
{
	return json_real((double)us / 1000);
}

static json_t *reached_json(unsigned reached)
{
	json_t *list = json_array();

	if (reached & VM_REACHED_FILES)
		json_array_append_new(list, json_string("files_mb"));
	if (reached & VM_REACHED_INODES)
		json_array_append_new(list, json_string("files_inodes"));
	if (reached & VM_REACHED_PROCESSES)
		json_array_append_new(list, json_string("processes"));
	return list;
}

static json_t *stream_json(const struct run *r, enum vm_stream stream)
{
	return json_pack("{s:I, s:b, s:I, s:I}", "bytes",
			 (json_int_t)run_spool(r, (enum run_output)stream)->len, "truncated",
			 run_truncated(r, stream), "dropped_bytes",
			 (json_int_t)r->result.dropped[stream], "lost_bytes",
			 (json_int_t)r->spool[stream].lost);
}

/* What is only known of a run that was executed. */
static json_t *usage_of_run(const struct run_result *result)
{
	return json_pack("{s:o, s:o, s:o, s:I, s:s, s:o}", "wall_ms", ms(result->wall_us),
			 "user_ms", ms(result->user_us), "system_ms", ms(result->system_us),
			 "max_rss_kib", (json_int_t)result->maxrss_kib, "interpreter",
			 result->fresh ? "fresh" : "kept", "reached",
			 reached_json(result->reached));
}

static json_t *run_json(const struct run *r)
{
	json_t *o = json_pack(
		"{s:o, s:s, s:o, s:o, s:o, s:b, s:I, s:I, s:o, s:o, s:o}", *r->job ? "job" : "run",
		*r->job ? json_string(r->job) : json_integer(r->number), "state",
		run_state_str(r->state), "exit_code",
		run_has_status(r) ? json_integer(r->result.status) : json_null(), "stdout",
		stream_json(r, VM_STDOUT), "stderr", stream_json(r, VM_STDERR), "truncated",
		run_truncated(r, VM_STDOUT) || run_truncated(r, VM_STDERR), "code_bytes",
		(json_int_t)r->code.len + (json_int_t)r->code_lost, "code_lost_bytes",
		(json_int_t)r->code_lost, "submitted", status_seconds(&r->submitted), "started",
		status_seconds(&r->started), "ended", status_seconds(&r->ended));

	if (run_ended(r) && r->started.tv_sec)
		json_object_update_new(o, usage_of_run(&r->result));
	json_object_set_new(o, "woke", r->woke ? status_string(r->woke) : json_null());
	json_object_set_new(o, "problem", status_problem(problem_kept(&r->problem)));
	return o;
}

int status_run(const struct node *n, struct buf *out)
{
	return status_put(out, run_json(n->r));
}

static json_t *job_settings_json(const struct job_settings *js)
{
	json_t *argv = json_array(), *env = json_array();

	for (size_t i = 0; i < js->argv.len; i += strlen(js->argv.data + i) + 1)
		json_array_append_new(argv, status_string(js->argv.data + i));
	for (size_t i = 0; i < js->env.len; i += strlen(js->env.data + i) + 1)
		json_array_append_new(env, status_string(js->env.data + i));
	return json_pack("{s:s?, s:o, s:o, s:o, s:i, s:b, s:i}", "language", js->language, "argv",
			 argv, "cwd", js->cwd ? status_string(js->cwd) : json_null(), "env", env,
			 "timeout_s", (int)js->timeout_s, "tty", js->tty, "nice", (int)js->nice);
}

/* What its program has read and written, as far as the kernel of its sandbox counts that. */
static json_t *io_json(const struct run_result *r)
{
	const bool known = r->read_bytes != PROTO_UNKNOWN && r->written_bytes != PROTO_UNKNOWN;

	return known ? json_pack("{s:I, s:I}", "read_bytes", (json_int_t)r->read_bytes,
				 "written_bytes", (json_int_t)r->written_bytes)
		     : json_null();
}

/* Of one that nobody watched to its end, nobody knows. */
static json_t *left_json(const struct job *j)
{
	const struct run *r = j->front.latest;

	return r && r->state == RUN_LOST ? json_null() : json_boolean(j->inside && !job_going(j));
}

int status_job(const struct node *n, struct buf *out)
{
	const struct job *j = n->job;
	json_t *o =
		j->front.latest ? run_json(j->front.latest) : json_pack("{s:s}", "state", "new");

	if (j->front.latest && run_ended(j->front.latest))
		json_object_set_new(o, "io", io_json(&j->front.latest->result));
	json_object_set_new(o, "name", json_string(j->name));
	json_object_set_new(o, "session", json_string(j->s->path));
	json_object_set_new(o, "processes_left", left_json(j));
	json_object_set_new(o, "waiting_reads", json_integer(j->front.waitlist->nwaiters));
	json_object_set_new(o, "settings", job_settings_json(&j->settings));
	json_object_set_new(o, "error", status_problem(problem_kept(&j->front.error)));
	return status_put(out, o);
}

static json_t *jobs_json(const struct session *s)
{
	return json_pack("{s:i, s:i}", "kept", (int)s->njobs, "going", (int)s->jobs_going);
}

static json_t *setting_json(const struct key *k, const struct settings *st)
{
	const void *at = key_at(k, st);
	struct buf text = {0};
	json_t *value;

	switch ((int)k->type) {
	case KEY_FLAG: return json_boolean(*(const bool *)at);
	case KEY_SWITCH: return json_string(k->words[*(const bool *)at]);
	case KEY_NUMBER: return json_integer(*(const unsigned *)at);
	case KEY_SIZE:
	case KEY_COUNT: return json_integer((json_int_t) * (const uint64_t *)at);
	default: break;
	}
	(void)key_print(k, st, &text);
	value = status_string(buf_str(&text));
	buf_clear(&text);
	return value;
}

/* Of all keys that there are, as `config` has them, but for `idle`: what it comes to. */
static json_t *settings_json(const struct settings *st)
{
	const struct sandbox_spec *spec = &st->spec;
	json_t *env = json_object(), *o = json_object();

	for_each_key(k, CONF_SESSION) json_object_set_new(o, k->name, setting_json(k, st));
	json_object_set_new(o, "idle", json_string(settings_hibernate(st) ? "hibernate" : "close"));
	for (size_t i = 0; i < spec->nenv; i++)
		json_object_set_new(env, spec->env[i].name, status_string(spec->env[i].value));
	json_object_set_new(o, "env", env);
	return o;
}

static void isolation_line(void *data, const char *key, const char *value)
{
	json_object_set_new(data, key, json_string(value));
}

static json_t *isolation_json(struct session *s)
{
	json_t *o = json_object();

	sandbox_isolation(s->sandbox, isolation_line, o);
	return o;
}

/* Why a machine does not stand still, as far as that is known. */
static json_t *goes_on_json(const struct sandbox_info *i)
{
	return i->goes_on && *i->goes_on ? status_string(i->goes_on) : json_null();
}

static json_t *sandbox_json(struct session *s)
{
	const struct sandbox_info *i = &s->info;
	json_t *o;

	if (!i->backend)
		return json_null();
	o = json_pack("{s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:b}", "backend", i->backend,
		      "accelerator", status_string(i->accel), "start", status_string(i->start),
		      "interpreter", status_string(i->interpreter), "waited_ms",
		      (json_int_t)i->waited_ms, "boot_ms", (json_int_t)i->boot_ms, "setup_ms",
		      (json_int_t)i->setup_ms, "running", s->sandbox != NULL);
	if (s->sandbox)
		json_object_update_new(
			o, json_pack("{s:I, s:I, s:o, s:b, s:o}", "pid", (json_int_t)i->pid,
				     "host_rss_kib", (json_int_t)i->rss_kib, "isolation",
				     isolation_json(s), "stands_still", i->stands_still,
				     "goes_on_because", goes_on_json(i)));
	return o;
}

static json_t *usage_json(const struct session *s)
{
	struct sandbox_usage u;

	if (!s->sandbox || sandbox_usage(s->sandbox, &u) < 0)
		return json_null();
	return json_pack("{s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:i, s:o}", "mem_total_kib",
			 (json_int_t)u.mem_total_kib, "mem_available_kib",
			 (json_int_t)u.mem_available_kib, "cpu_ms", (double)u.cpu_us / 1000,
			 "files_used_bytes", (json_int_t)u.files_used, "files_total_bytes",
			 (json_int_t)u.files_total, "files_used_inodes", (json_int_t)u.inodes_used,
			 "files_total_inodes", (json_int_t)u.inodes_total, "processes",
			 (int)u.processes, "reached", reached_json(u.reached));
}

static json_t *waiting_json(const struct session *s)
{
	struct sandbox_wait w;

	if (!s->sandbox || !sandbox_waits(s->sandbox, &w))
		return json_null();
	return json_pack("{s:s, s:o, s:i, s:i, s:I}", "for", w.what, "reason", status_string(w.why),
			 "turn", (int)w.turn, "of", (int)w.of, "ms", (json_int_t)w.ms);
}

static void add_port(void *data, const struct sandbox_port *port)
{
	json_array_append_new(
		data, json_pack("{s:i, s:i}", "guest", (int)port->guest, "host", (int)port->host));
}

static json_t *budget_json(uint64_t used, uint64_t limit)
{
	return json_pack("{s:I, s:I}", "used", (json_int_t)used, "limit", (json_int_t)limit);
}

static json_t *budgets_json(struct session *s)
{
	const struct net_budget *most = &s->settings.spec.policy.most, used = network_used(s);

	return json_pack("{s:o, s:o, s:o}", "bytes", budget_json(used.bytes, most->bytes),
			 "requests", budget_json(used.requests, most->requests), "connections",
			 budget_json(used.connections, most->connections));
}

static json_t *network_json(struct session *s)
{
	json_t *ports = json_array(), *traffic = json_null();
	struct sandbox_traffic t;

	if (s->sandbox)
		sandbox_ports(s->sandbox, add_port, ports);
	if (s->sandbox && sandbox_traffic(s->sandbox, &t) == 0)
		traffic = json_pack("{s:I, s:I, s:I, s:i}", "bytes_in", (json_int_t)t.bytes_in,
				    "bytes_out", (json_int_t)t.bytes_out, "connections",
				    (json_int_t)t.connections, "open", (int)t.open);
	return json_pack("{s:I, s:o, s:o, s:b, s:i, s:o}", "denied", (json_int_t)s->netlog.total,
			 "traffic", traffic, "ports", ports, "lost",
			 problem_kept(&s->standing)->code != PROBLEM_NONE, "pending",
			 (int)s->questions.n[QUESTION_OPEN], "budgets", budgets_json(s));
}

int status_session(const struct node *n, struct buf *out)
{
	struct session *s = n->s;
	json_t *runs, *o;

	binding_info(s);
	runs = json_pack("{s:I, s:I, s:I, s:I, s:I}", "submitted", (json_int_t)s->last_number,
			 "queued", (json_int_t)s->nqueued, "kept", (json_int_t)s->nruns, "removed",
			 (json_int_t)s->removed_runs, "waiting_reads",
			 (json_int_t)s->front.wait.nwaiters);
	o = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		      "session", s->name, "template", s->t->name, "state",
		      session_state_str(s->state), "created", status_seconds(&s->created),
		      "settings", settings_json(&s->settings), "sandbox", sandbox_json(s),
		      "waiting", waiting_json(s), "usage", usage_json(s), "network",
		      network_json(s), "runs", runs, "jobs", jobs_json(s), "latest",
		      s->front.latest ? run_json(s->front.latest) : json_null(), "error",
		      status_problem(problem_kept(&s->front.error)));
	status_lasting(s, o);
	return status_put(out, o);
}

/* Programs of processes are the host's as a rule. */
static bool needs_image(const struct sandbox_spec *spec)
{
	return spec->backend != VM_PROCESS || spec->image_view;
}

int status_template(const struct node *n, struct buf *out)
{
	const struct settings *st = &n->t->settings;
	const char *why = NULL, *manifest = vm_image(n->fs->vm, st->spec.image, &why);
	json_t *image = manifest ? json_loads(manifest, 0, NULL) : NULL;
	json_t *problem = NULL;
	bool shared;
	const char *where = vm_image_where(n->fs->vm, st->spec.image, &shared);

	if (!image && needs_image(&st->spec))
		problem = status_string(manifest ? "the image's manifest is not JSON" : why);
	return status_put(out, json_pack("{s:s, s:s, s:s, s:o, s:o, s:b, s:o*, s:o}", "template",
					 n->t->name, "language", st->spec.language, "image_name",
					 st->spec.image, "image", image ? image : json_null(),
					 "image_dir", where ? status_string(where) : json_null(),
					 "image_shared", shared, "problem", problem, "settings",
					 settings_json(st)));
}

static json_t *sessions_json(const struct fs *fs)
{
	unsigned n[SESSION_NSTATES] = {0};
	json_t *o = json_object();

	for (unsigned i = 0; i < fs->roster.n; i++)
		if (roster_at(&fs->roster, i))
			n[roster_at(&fs->roster, i)->state]++;
	for (int i = 0; i < SESSION_NSTATES; i++)
		json_object_set_new(o, session_state_str((enum session_state)i),
				    json_integer(n[i]));
	return o;
}

/* What distinguishes a template from others with the same image, then the state of its snapshot and pool. */
static void add_snapshot(void *data, const struct vm_template_status *st)
{
	json_t *pool = json_pack("{s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I}", "target",
				 (int)st->pool, "ready", (int)st->ready, "filling",
				 (int)st->filling, "standby", (int)st->standby, "hits",
				 (json_int_t)st->hits, "misses", (json_int_t)st->misses, "refills",
				 (json_int_t)st->refills, "refill_ms", (json_int_t)st->refill_ms,
				 "refill_sum_ms", (json_int_t)st->refill_sum_ms);
	json_t *kind = json_pack("{s:s, s:s, s:s, s:i, s:i, s:b, s:o, s:o}", "image", st->image,
				 "language", st->language, "backend", spec_backend_str(st->backend),
				 "memory_mb", (int)st->memory_mb, "cpus", (int)st->cpus, "network",
				 st->network, "packages", status_string(st->packages), "warmup",
				 *st->warmup ? status_string(st->warmup) : json_null());

	json_object_update_new(
		kind, json_pack("{s:b, s:b, s:s, s:o, s:I, s:I, s:o}", "prepared", st->prepared,
				"shared", st->shared, "state", st->state, "problem",
				*st->problem ? status_string(st->problem) : json_null(), "bytes",
				(json_int_t)st->bytes, "built_ms", (json_int_t)st->built_ms, "pool",
				pool));
	json_array_append_new(data, kind);
}

static json_t *store_json(struct fs *fs)
{
	struct vm_store_status st;

	vm_store_status(fs->vm, &st);
	if (!st.url)
		return json_null();
	return json_pack("{s:o, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "url",
			 status_string(st.url), "state", st.state, "read", st.read, "write",
			 st.write, "fetched", (json_int_t)st.fetched, "absent",
			 (json_int_t)st.absent, "damaged", (json_int_t)st.damaged, "put",
			 (json_int_t)st.put, "failed", (json_int_t)st.failed, "again_s",
			 (json_int_t)st.again_s, "problem",
			 *st.problem ? status_string(st.problem) : json_null());
}

static json_t *hundredths(unsigned n)
{
	return json_real((double)n / 100);
}

static json_t *admission_json(struct fs *fs, const struct vm_status *st)
{
	struct vm_admission a;
	json_t *o;

	vm_admission(fs->vm, &a);
	o = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:i, s:I}", "max_vms",
		      (int)a.places, "max_vms_user", (int)a.user_places, "running",
		      (int)st->running, "starting", (int)a.starting, "closing", (int)a.closing,
		      "waiting", (int)a.waiting, "waiting_for", a.lack, "queue", (int)a.queue,
		      "queue_user", (int)a.queue_user, "refused", (json_int_t)a.refused);
	json_object_set_new(o, "memory_mb",
			    json_pack("{s:I, s:I, s:I}", "budget", (json_int_t)a.memory_mb,
				      "promised", (json_int_t)a.promised_mb, "snapshots",
				      (json_int_t)a.snapshots_mb));
	json_object_set_new(o, "host",
			    json_pack("{s:I, s:I, s:I, s:o}", "memory_mb", (json_int_t)a.host_mb,
				      "available_mb", (json_int_t)a.available_mb, "reserve_mb",
				      (json_int_t)a.reserve_mb, "memory_pressure",
				      a.pressure_known ? hundredths(a.pressure) : json_null()));
	json_object_set_new(o, "processors",
			    json_pack("{s:o, s:o, s:o, s:i, s:i}", "budget", hundredths(a.cpus),
				      "most", hundredths(a.cpus_most), "used",
				      hundredths(a.cpus_used), "runs", (int)a.runs, "runs_waiting",
				      (int)a.runs_waiting));
	return o;
}

static json_t *template_json(struct fs *fs, const struct conf_template *t)
{
	const struct sandbox_spec *spec = &t->settings.spec;
	const bool needed = needs_image(spec);
	const char *problem;
	struct vm_image_status st;
	json_t *image;

	vm_image_status(fs->vm, spec->image, &st);
	problem = needed ? st.problem : "";
	image = json_pack("{s:s, s:s, s:o, s:I}", "name", spec->image, "state", st.state, "step",
			  *st.step ? status_string(st.step) : json_null(), "elapsed_ms",
			  (json_int_t)st.elapsed_ms);
	return json_pack("{s:s, s:s, s:b, s:o, s:o}", "name", t->name, "language", spec->language,
			 "ready", !needed || strcmp(st.state, "ready") == 0, "problem",
			 *problem ? status_string(problem) : json_null(), "image", image);
}

int status_root(const struct node *n, struct buf *out)
{
	struct fs *fs = n->fs;
	json_t *templates = json_array(), *snapshots = json_array(), *sandboxes;
	struct vm_status st;

	vm_status(fs->vm, &st);
	for (size_t i = 0; i < fs->conf->ntemplates; i++)
		json_array_append_new(templates, template_json(fs, &fs->conf->template[i]));
	vm_templates(fs->vm, add_snapshot, snapshots);
	sandboxes = json_pack("{s:I, s:I, s:I, s:I, s:I}", "started", (json_int_t)st.started,
			      "failed", (json_int_t)st.failed, "warm", (json_int_t)st.warm,
			      "snapshot", (json_int_t)st.snapshot, "cold", (json_int_t)st.cold);
	return status_put(
		out,
		json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, "
			  "s:o, s:o, s:b}",
			  "version", XSBX_VERSION, "log_level", log_level_str(log_level()),
			  "uptime_s", (json_int_t)((uv_now(fs->loop) - fs->started_ms) / 1000),
			  "accelerator", status_string(st.accel), "accelerator_why",
			  status_string(st.accel_why), "qemu", status_string(st.qemu), "templates",
			  templates, "sessions", sessions_json(fs), "admission",
			  admission_json(fs, &st), "sandboxes", sandboxes, "pooled",
			  (json_int_t)st.pooled, "still", (json_int_t)st.still, "snapshots",
			  snapshots, "store", store_json(fs), "quota", quota_json(fs, fs->caller),
			  "survives", turn_is_on(fs->touched.turn) && !fs->unheld));
}
