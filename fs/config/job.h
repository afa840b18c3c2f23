/* SPDX-License-Identifier: Apache-2.0 */
#ifndef XSBX_FS_CONFIG_JOB_H
#define XSBX_FS_CONFIG_JOB_H
#include "settings.h"
#define JOB_TEXT_MAX (2u << 20)
struct job_settings {
    char *language;
    struct buf argv;
    char *cwd;
    struct buf env;
    unsigned timeout_s;
    bool tty; unsigned rows, cols;
    bool root;
    bool input;
};
int  job_settings_init(struct job_settings *js, const struct settings *of_session);
void job_settings_clear(struct job_settings *js);
int  job_settings_copy(struct job_settings *dst, const struct job_settings *src);
int  job_settings_parse(struct job_settings *js, const char *text, size_t len, unsigned above, const struct settings_limits *limits, const char *const *languages, struct problem *ret_why);
int  job_settings_render(const struct job_settings *js, struct buf *out);
size_t job_settings_bytes(const struct job_settings *js);
bool job_settings_frozen_change(const struct job_settings *a, const struct job_settings *b, const char **ret_key);
#endif
