/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON nodes. Keys are added, not renamed: programs read these. */
#include "nodes.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/config/network.h"
#include "fs/session/binding.h"
#include "fs/session/session.h"

/* Takes over @o. */
static int put_json(struct buf *out, json_t *o)
{
	char *text = o ? json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER |
					       JSON_REAL_PRECISION(REAL_DIGITS))
		       : NULL;
	int e;

	json_decref(o);
	if (!text)
		return -ENOMEM;
	e = buf_printf(out, "%s\n", text);
	free(text);
	return e;
}

static json_t *seconds(const struct timespec *t)
{
	return t->tv_sec ? json_real((double)t->tv_sec + (double)(t->tv_nsec / 1000) / 1e6)
			 : json_null();
}

static json_t *ms(uint64_t us)
{
	return json_real((double)us / 1000);
}

/* Text that may hold any bytes, such as an interpreter's idea of its version. */
static json_t *any_string(const char *s)
{
	json_t *j = json_string(s ? s : "");

	return j ? j : json_string("(not UTF-8)");
}

static json_t *problem_json(const struct problem *p)
{
	if (!p->code)
		return json_null();
	return json_pack("{s:o, s:o, s:o}", "code", any_string(problem_code_str(p->code)), "cause",
			 any_string(p->cause), "fix", any_string(p->fix));
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

static json_t *run_json(const struct run *r)
{
	static const char *const streams[] = {"stdout", "stderr"};
	json_t *o = json_object();

	json_object_set_new(o, "run", json_integer(r->number));
	json_object_set_new(o, "state", json_string(run_state_str(r->state)));
	json_object_set_new(o, "exit_code",
			    run_has_status(r) ? json_integer(r->result.status) : json_null());
	for (int i = 0; i < VM_NSTREAMS; i++)
		json_object_set_new(o, streams[i],
				    json_pack("{s:I, s:b, s:I, s:I}", "bytes",
					      (json_int_t)run_spool(r, (enum run_output)i)->len,
					      "truncated", run_truncated(r, (enum vm_stream)i),
					      "dropped_bytes", (json_int_t)r->result.dropped[i],
					      "lost_bytes", (json_int_t)r->spool[i].lost));
	json_object_set_new(
		o, "truncated",
		json_boolean(run_truncated(r, VM_STDOUT) || run_truncated(r, VM_STDERR)));
	json_object_set_new(o, "code_bytes", json_integer((json_int_t)r->code.len));
	json_object_set_new(o, "submitted", seconds(&r->submitted));
	json_object_set_new(o, "started", seconds(&r->started));
	json_object_set_new(o, "ended", seconds(&r->ended));
	if (run_ended(r) && r->started.tv_sec) {
		json_object_set_new(o, "wall_ms", ms(r->result.wall_us));
		json_object_set_new(o, "user_ms", ms(r->result.user_us));
		json_object_set_new(o, "system_ms", ms(r->result.system_us));
		json_object_set_new(o, "max_rss_kib",
				    json_integer((json_int_t)r->result.maxrss_kib));
		json_object_set_new(o, "interpreter",
				    json_string(r->result.fresh ? "fresh" : "kept"));
		json_object_set_new(o, "reached", reached_json(r->result.reached));
	}
	json_object_set_new(o, "problem", problem_json(&r->result.problem));
	return o;
}

int status_run(const struct node *n, struct buf *out)
{
	return put_json(out, run_json(n->r));
}

static json_t *settings_json(const struct settings *st)
{
	const struct sandbox_spec *spec = &st->spec;
	const struct sandbox_limits *l = &spec->limits;
	json_t *env = json_object();
	struct buf ports = {0};
	json_t *o;

	for (size_t i = 0; i < spec->nenv; i++)
		json_object_set_new(env, spec->env[i].name, any_string(spec->env[i].value));
	(void)netset_print_ports(spec, &ports);
	o = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:o, s:o, "
		      "s:s%, s:o}",
		      "backend", spec_backend_str(spec->backend), "memory_mb", (int)spec->memory_mb,
		      "cpus", (int)spec->cpus, "timeout_s", (int)st->timeout_s, "grace_s",
		      (int)st->grace_s, "idle_timeout_s", (int)st->idle_timeout_s, "processes",
		      (int)l->processes, "open_files", (int)l->open_files, "file_size_mb",
		      (int)l->file_size_mb, "files_mb", (int)l->files_mb, "files_inodes",
		      (int)l->files_inodes, "fresh", st->fresh, "network", spec->network,
		      "packages", any_string(spec->packages), "allow", any_string(spec->allow),
		      "ports", ports.len ? ports.data : "", ports.len, "env", env);
	buf_clear(&ports);
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

static json_t *sandbox_json(struct session *s)
{
	const struct sandbox_info *i = &s->info;
	json_t *o;

	if (!i->backend)
		return json_null();
	o = json_object();
	json_object_set_new(o, "backend", json_string(i->backend));
	json_object_set_new(o, "accelerator", any_string(i->accel));
	json_object_set_new(o, "start", any_string(i->start));
	json_object_set_new(o, "interpreter", any_string(i->interpreter));
	json_object_set_new(o, "waited_ms", json_integer((json_int_t)i->waited_ms));
	json_object_set_new(o, "boot_ms", json_integer((json_int_t)i->boot_ms));
	json_object_set_new(o, "setup_ms", json_integer((json_int_t)i->setup_ms));
	json_object_set_new(o, "running", json_boolean(s->sandbox != NULL));
	if (s->sandbox) {
		json_object_set_new(o, "pid", json_integer(i->pid));
		json_object_set_new(o, "host_rss_kib", json_integer((json_int_t)i->rss_kib));
		json_object_set_new(o, "isolation", isolation_json(s));
	}
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
	return json_pack("{s:s, s:o, s:i, s:i, s:I}", "for", w.what, "reason", any_string(w.why),
			 "turn", (int)w.turn, "of", (int)w.of, "ms", (json_int_t)w.ms);
}

static void add_port(void *data, const struct sandbox_port *port)
{
	json_array_append_new(
		data, json_pack("{s:i, s:i}", "guest", (int)port->guest, "host", (int)port->host));
}

static json_t *network_json(const struct session *s)
{
	json_t *ports = json_array(), *traffic = json_null();
	struct sandbox_traffic t;

	if (s->sandbox)
		sandbox_ports(s->sandbox, add_port, ports);
	if (s->sandbox && sandbox_traffic(s->sandbox, &t) == 0)
		traffic = json_pack("{s:I, s:I, s:I, s:i}", "bytes_in", (json_int_t)t.bytes_in,
				    "bytes_out", (json_int_t)t.bytes_out, "connections",
				    (json_int_t)t.connections, "open", (int)t.open);
	return json_pack("{s:I, s:o, s:o, s:b}", "denied", (json_int_t)s->netlog.total, "traffic",
			 traffic, "ports", ports, "lost", s->standing.code != PROBLEM_NONE);
}

int status_session(const struct node *n, struct buf *out)
{
	struct session *s = n->s;
	json_t *o = json_object(), *runs = json_object();

	binding_info(s);
	json_object_set_new(o, "session", json_string(s->name));
	json_object_set_new(o, "template", json_string(s->t->name));
	json_object_set_new(o, "state", json_string(session_state_str(s->state)));
	json_object_set_new(o, "created", seconds(&s->created));
	json_object_set_new(o, "settings", settings_json(&s->settings));
	json_object_set_new(o, "sandbox", sandbox_json(s));
	json_object_set_new(o, "waiting", waiting_json(s));
	json_object_set_new(o, "usage", usage_json(s));
	json_object_set_new(o, "network", network_json(s));
	json_object_set_new(runs, "submitted", json_integer(s->last_number));
	json_object_set_new(runs, "queued", json_integer(s->nqueued));
	json_object_set_new(runs, "kept", json_integer(s->nruns));
	json_object_set_new(runs, "removed", json_integer(s->removed_runs));
	json_object_set_new(runs, "waiting_reads", json_integer(s->wait.nwaiters));
	json_object_set_new(o, "runs", runs);
	json_object_set_new(o, "latest", s->latest ? run_json(s->latest) : json_null());
	json_object_set_new(o, "error", problem_json(&s->error));
	return put_json(out, o);
}

int status_template(const struct node *n, struct buf *out)
{
	const struct conf_template *t = n->t;
	const char *why = NULL, *manifest = vm_image(n->fs->vm, t->settings.spec.image, &why);
	json_t *o = json_object(), *image = manifest ? json_loads(manifest, 0, NULL) : NULL;

	json_object_set_new(o, "template", json_string(t->name));
	json_object_set_new(o, "language", json_string(t->settings.spec.language));
	json_object_set_new(o, "image_name", json_string(t->settings.spec.image));
	json_object_set_new(o, "image", image ? image : json_null());
	if (!image)
		json_object_set_new(
			o, "problem",
			any_string(manifest ? "the image's manifest is not JSON" : why));
	json_object_set_new(o, "settings", settings_json(&t->settings));
	return put_json(out, o);
}

static json_t *sessions_json(const struct fs *fs)
{
	unsigned n[SESSION_NSTATES] = {0};
	json_t *o = json_object();

	for (unsigned i = 0; i < fs->nslots; i++)
		if (fs->slot[i])
			n[fs->slot[i]->state]++;
	for (int i = 0; i < SESSION_NSTATES; i++)
		json_object_set_new(o, session_state_str((enum session_state)i),
				    json_integer(n[i]));
	return o;
}

/* All that tells a kind from the others of its image, then how its snapshot and its pool do. */
static void add_snapshot(void *data, const struct vm_template_status *st)
{
	json_t *pool = json_pack(
		"{s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I}", "target", (int)st->pool, "ready",
		(int)st->ready, "filling", (int)st->filling, "hits", (json_int_t)st->hits, "misses",
		(json_int_t)st->misses, "refills", (json_int_t)st->refills, "refill_ms",
		(json_int_t)st->refill_ms, "refill_sum_ms", (json_int_t)st->refill_sum_ms);
	json_t *kind = json_pack("{s:s, s:s, s:s, s:i, s:i, s:b, s:o, s:o}", "image", st->image,
				 "language", st->language, "backend", spec_backend_str(st->backend),
				 "memory_mb", (int)st->memory_mb, "cpus", (int)st->cpus, "network",
				 st->network, "packages", any_string(st->packages), "warmup",
				 *st->warmup ? any_string(st->warmup) : json_null());

	json_object_update_new(kind, json_pack("{s:b, s:s, s:o, s:I, s:I, s:o}", "prepared",
					       st->prepared, "state", st->state, "problem",
					       *st->problem ? any_string(st->problem) : json_null(),
					       "bytes", (json_int_t)st->bytes, "built_ms",
					       (json_int_t)st->built_ms, "pool", pool));
	json_array_append_new(data, kind);
}

static json_t *store_json(struct fs *fs)
{
	struct vm_store_status st;

	vm_store_status(fs->vm, &st);
	if (!st.url)
		return json_null();
	return json_pack("{s:o, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "url",
			 any_string(st.url), "state", st.state, "read", st.read, "write", st.write,
			 "fetched", (json_int_t)st.fetched, "absent", (json_int_t)st.absent,
			 "damaged", (json_int_t)st.damaged, "put", (json_int_t)st.put, "failed",
			 (json_int_t)st.failed, "again_s", (json_int_t)st.again_s, "problem",
			 *st.problem ? any_string(st.problem) : json_null());
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

int status_root(const struct node *n, struct buf *out)
{
	struct fs *fs = n->fs;
	json_t *o = json_object(), *templates = json_array(), *snapshots = json_array();
	struct vm_status st;

	vm_status(fs->vm, &st);
	json_object_set_new(o, "version", json_string(XSBX_VERSION));
	json_object_set_new(o, "log_level", json_string(log_level_str(log_level())));
	json_object_set_new(o, "uptime_s",
			    json_integer((json_int_t)((uv_now(fs->loop) - fs->started_ms) / 1000)));
	json_object_set_new(o, "accelerator", any_string(st.accel));
	json_object_set_new(o, "accelerator_why", any_string(st.accel_why));
	json_object_set_new(o, "qemu", any_string(st.qemu));
	for (size_t i = 0; i < fs->conf->ntemplates; i++) {
		const struct conf_template *t = &fs->conf->template[i];
		struct vm_image_status image;
		json_t *o_image;

		vm_image_status(fs->vm, t->settings.spec.image, &image);
		o_image = json_pack("{s:s, s:s, s:o, s:I}", "name", t->settings.spec.image, "state",
				    image.state, "step",
				    *image.step ? any_string(image.step) : json_null(),
				    "elapsed_ms", (json_int_t)image.elapsed_ms);
		json_array_append_new(
			templates,
			json_pack("{s:s, s:s, s:b, s:o, s:o}", "name", t->name, "language",
				  t->settings.spec.language, "ready",
				  t->settings.spec.backend == VM_PROCESS ||
					  strcmp(image.state, "ready") == 0,
				  "problem",
				  *image.problem ? any_string(image.problem) : json_null(), "image",
				  o_image));
	}
	json_object_set_new(o, "templates", templates);
	json_object_set_new(o, "sessions", sessions_json(fs));
	json_object_set_new(o, "admission", admission_json(fs, &st));
	json_object_set_new(o, "sandboxes",
			    json_pack("{s:I, s:I, s:I, s:I, s:I}", "started",
				      (json_int_t)st.started, "failed", (json_int_t)st.failed,
				      "warm", (json_int_t)st.warm, "snapshot",
				      (json_int_t)st.snapshot, "cold", (json_int_t)st.cold));
	json_object_set_new(o, "pooled", json_integer(st.pooled));
	vm_templates(fs->vm, add_snapshot, snapshots);
	json_object_set_new(o, "snapshots", snapshots);
	json_object_set_new(o, "store", store_json(fs));
	return put_json(out, o);
}
