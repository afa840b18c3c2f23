/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of the fixed tree, which table.c lists: what can be done with an open one, and what
 * each reads as. */
#ifndef XSBX_FS_TREE_NODES_H
#define XSBX_FS_TREE_NODES_H

#include "table.h"

/* ---- texts that are rendered when they are opened ---- */

extern const struct handle_ops text_ops;

/* Answers a read from a complete text. */
void text_reply(struct req *req, const struct buf *text, size_t size, uint64_t offset);

/* For handle_ops: reads the handle's `text`. */
void text_read(struct handle *h, struct req *req, size_t size, uint64_t offset, bool nonblock);

/* The contents of nodes. Each appends to @out. Return: 0 or -errno. */
int text_error(const struct node *n, struct buf *out);
int text_complaint(const struct node *n, struct buf *out);
int text_quota(const struct node *n, struct buf *out);
int text_state(const struct node *n, struct buf *out);
int text_summary(const struct node *n, struct buf *out); /* of a job, or a named run */
int text_session_summary(const struct node *n, struct buf *out);
int text_checkpoint_error(const struct node *n, struct buf *out);
int text_code(const struct node *n, struct buf *out);
int text_console(const struct node *n, struct buf *out);
int text_learned(const struct node *n, struct buf *out);
int text_allow(const struct node *n, struct buf *out);
int text_rules(const struct node *n, struct buf *out);
int text_secrets(const struct node *n, struct buf *out);
int text_refused(const struct node *n, struct buf *out);
int text_net_learned(const struct node *n, struct buf *out);
int text_run_code(const struct node *n, struct buf *out);
int text_run_state(const struct node *n, struct buf *out);
int text_run_summary(const struct node *n, struct buf *out);
int text_exit_code(const struct node *n, struct buf *out);

/* Of what is in net/pending, net/allowed, net/denied. */
int text_question_who(const struct node *n, struct buf *out);
int text_question_what(const struct node *n, struct buf *out);
int text_question_why(const struct node *n, struct buf *out);
int text_question_until(const struct node *n, struct buf *out);
int text_question_decision(const struct node *n, struct buf *out);
int text_question_decided(const struct node *n, struct buf *out);
bool question_is_decided(const struct node *n);

/* One JSON object and a newline. */
int status_root(const struct node *n, struct buf *out);
int status_template(const struct node *n, struct buf *out);
int status_session(const struct node *n, struct buf *out);
int status_run(const struct node *n, struct buf *out);
int status_checkpoint(const struct node *n, struct buf *out);
int status_job(const struct node *n, struct buf *out);
int status_question(const struct node *n, struct buf *out);

/* status.html, for who looks at it with a browser; see page.h. */
int page_root(const struct node *n, struct buf *out);
int page_session(const struct node *n, struct buf *out);

/* All metrics, in the text exposition format 0.0.4. */
int metrics_render(const struct node *n, struct buf *out);

/* ---- a run's output and exit status ---- */

extern const struct handle_ops stream_ops;	/* output, at the top */
extern const struct handle_ops run_stream_ops;	/* output, below runs/N/ */
extern const struct handle_ops status_wait_ops; /* exit_code at the top, runs/N/wait */

uint64_t stream_size(const struct node *n);
uint64_t run_stream_size(const struct node *n);
uint64_t status_wait_size(const struct node *n);

/* "0\n"; @r has a status. Return: its length. */
size_t stream_status_text(const struct run *r, char text[8]);

/* ---- what is written ---- */

extern const struct handle_ops input_ops; /* in */
extern const struct handle_ops stdin_ops;
extern const struct handle_ops tty_ops; /* a job's terminal */

/* For handle_ops: what is written waits for the next run, or goes to the one that it is bound to. */
void stdin_write(struct handle *h, struct req *req, const void *data, size_t size, uint64_t offset,
		 bool nonblock);

/* For handle_ops: what counts is what is written next. */
int truncate_handle(struct handle *h, uint64_t size);

/* Can these bytes be (part of) a program? Return: 0, -EFBIG, -EINVAL (a NUL byte); `error` says why. */
int input_check(struct front *f, const void *data, size_t len, uint64_t offset);

/* May a program be written to `in`? Return: 0, or an error as from opening it; `error` says why. */
int input_can_submit(struct front *f);

/* The writer of `in` whose buffer `in` shows now, or NULL: it shows the last code. */
struct handle *input_writer(const struct front *f);

/* Truncates by path: the newest writer's buffer, else the last code. Return: 0 or -errno. */
int input_truncate_path(const struct node *n, uint64_t size);
/* The same for `stdin`: what waits for the next run. */
int stdin_truncate_path(const struct node *n, uint64_t size);

extern const struct handle_ops ctl_ops;	     /* ctl of a session, or of a job */
extern const struct handle_ops root_ctl_ops; /* that of the root: the name of a level of the log */

extern const struct handle_ops config_ops; /* config of a session and of a job, the lists of net/ */
/* How much may be written in one go, to one that is open for writing. */
void config_limit(struct handle *h);

/* Appends the content of `config`. Return: 0 or -ENOMEM. */
int config_render(const struct node *n, struct buf *out);

/* Replaces the session's settings by template defaults and @text. Return: 0 or -errno. */
int config_replace(struct session *s, const char *text, size_t len);

/* Replaces one of the session's lists: NODE_NET_ALLOW, _RULES or _SECRETS. Return: 0 or -errno. */
int config_list(struct session *s, enum node_kind which, const char *text, size_t len);
/* Puts @text at its beginning. Return: likewise. */
int config_list_begin(struct session *s, enum node_kind which, const char *text);

/* The same for a job's: its text is the whole content, or added to what there is. */
int job_config_render(const struct node *n, struct buf *out);
int job_config_apply(struct job *j, bool add, const char *text, size_t len);

extern const struct handle_ops scratch_ops; /* open scratch files */

/* ---- what goes on ---- */

/* A reader of `events` that has waited this long without a line gets end of file, so that programs
 * that walk the whole tree are not blocked. */
#define EVENTS_IDLE_S 30u

extern const struct handle_ops events_ops;

/* The size to show: bytes of all lines that are kept about a session. */
uint64_t events_size_of(const struct session *s);

/* The same of all lines. With @h not NULL, relative to its offsets. */
uint64_t events_size(struct fs *fs, const struct handle *h);

extern const struct handle_ops file_events_ops; /* files.events */
/* There is nothing new for this read: it waits, or ends when nothing has come for a while. */
void events_await(struct handle *h, struct req *req, size_t size, uint64_t offset, bool nonblock);
uint64_t file_events_node_size(const struct node *n);

extern const struct handle_ops decision_ops; /* net/pending/N/decision */
extern const struct handle_ops connlog_ops;  /* net/log */
uint64_t connlog_node_size(const struct node *n);

extern const struct handle_ops checkpoint_wait_ops; /* checkpoints/NAME/wait */
uint64_t checkpoint_wait_size(const struct node *n);

extern const struct handle_ops replay_ops; /* runs/N/replay */
uint64_t replay_size(const struct node *n);

extern const struct handle_ops changes_ops; /* files.changes */
uint64_t changes_size(const struct node *n);

/* ---- names that are not fixed, for struct node_def ---- */

int templates_find(const struct node *dir, const char *name, uint64_t *ret_ino);
void templates_list(const struct node *dir, node_put_fn put, void *data);
int sessions_find(const struct node *dir, const char *name, uint64_t *ret_ino);
void sessions_list(const struct node *dir, node_put_fn put, void *data);
int runs_find(const struct node *dir, const char *name, uint64_t *ret_ino);
void runs_list(const struct node *dir, node_put_fn put, void *data);
int jobs_find(const struct node *dir, const char *name, uint64_t *ret_ino);
void jobs_list(const struct node *dir, node_put_fn put, void *data);
int checkpoints_find(const struct node *dir, const char *name, uint64_t *ret_ino);
void checkpoints_list(const struct node *dir, node_put_fn put, void *data);
int beside_find(const struct node *dir, const char *name, uint64_t *ret_ino);
void beside_list(const struct node *dir, node_put_fn put, void *data);

/* net/pending, net/allowed, net/denied */
int questions_find(const struct node *dir, const char *name, uint64_t *ret_ino);
void questions_list(const struct node *dir, node_put_fn put, void *data);
struct timespec questions_time(const struct node *n);

/* runs/latest, the newest that is kept: is there one; the target, and its length. */
bool latest_is_there(const struct node *n);
void latest_target(const struct node *n, char target[16]);
uint64_t latest_size(const struct node *n);

#endif
