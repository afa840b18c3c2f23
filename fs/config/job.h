/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a job, and of a named run: its `config` node. */
#ifndef XSBX_FS_CONFIG_JOB_H
#define XSBX_FS_CONFIG_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "entry.h"
#include "settings.h"

#define JOB_TEXT_MAX	(3u << 20)	 /* bytes of a write to `config` */
#define JOB_TIMEOUT_MAX (7u * 24 * 3600) /* seconds */
#define JOB_ARGV_MAX	PROTO_ARGV_MAX	 /* bytes of all words */
#define JOB_WORDS_MAX	ENTRY_WORDS_MAX
#define JOB_WORD_MAX	ENTRY_WORD_MAX
#define JOB_ENV_MAX	(128u << 10) /* of all variables */
#define JOB_PATH_MAX	ENTRY_PATH_MAX
#define JOB_NICE	5u /* unless set: the interpreter, for which somebody waits, goes first */

/* Owns what it points to; an all-zero struct may be passed to job_settings_clear(). */
struct job_settings {
	char *language;	    /* or NULL: a shell script, or as the first line says */
	struct buf argv;    /* words, a NUL behind each; empty: `in` is the program */
	char *cwd;	    /* absolute, or below files/; or NULL */
	struct buf env;	    /* NAME=VALUE, a NUL behind each */
	unsigned timeout_s; /* 0: none */
	bool tty;
	unsigned rows, cols;
	unsigned nice; /* 0 to 19 */
	bool root;
	bool input; /* stays open until the first who writes it has gone */
};

/* The defaults: the time limit is the session's. Return: 0 or -ENOMEM. */
int job_settings_init(struct job_settings *js, const struct settings *of_session);
void job_settings_clear(struct job_settings *js);
/* Return: 0 or -ENOMEM. */
int job_settings_copy(struct job_settings *dst, const struct job_settings *src);
/* Return: total length of its texts. */
size_t job_settings_bytes(const struct job_settings *js);

/**
 * job_settings_parse() - Apply a text of `key = value` lines, `#` comments and empty lines
 * @js: Settings, which the text changes as a whole or not at all
 * @text: Text
 * @len: How many bytes
 * @above: Lines that the reader sees above the first, for messages
 * @limits: The administrator's
 * @languages: Those there are, beside the shell; ended by NULL
 * @ret_why: Filled in if it fails
 *
 * The words of `argv`, and a value of a variable that begins with a quote, are quoted as in a
 * shell, see words.h.
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int job_settings_parse(struct job_settings *js, const char *text, size_t len, unsigned above,
		       const struct settings_limits *limits, const char *const *languages,
		       struct problem *ret_why);

/* Appends a text that job_settings_parse() takes. Return: 0 or -ENOMEM. */
int job_settings_render(const struct job_settings *js, struct buf *out);

/* Does anything differ that cannot change after the start? @ret_key: its name */
bool job_settings_frozen_change(const struct job_settings *a, const struct job_settings *b,
				const char **ret_key);

#endif
