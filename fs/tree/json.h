/* SPDX-License-Identifier: Apache-2.0 */
/* What the JSON nodes are made of. */
#ifndef XSBX_FS_TREE_JSON_H
#define XSBX_FS_TREE_JSON_H

#include <jansson.h>
#include <time.h>

struct buf;
struct problem;
struct saved;
struct session;

/* As man/status.schema.json has it. Members are added under the same number; one that goes, or means something else, makes the next. */
#define STATUS_SCHEMA 1

/* Appends an object, which gets the number of its schema, and a newline; takes it over. Return: 0 or -ENOMEM. */
int status_put(struct buf *out, json_t *o);

/* Seconds since 1970, or null. */
json_t *status_seconds(const struct timespec *t);

/* A string of text that may hold any bytes, such as an interpreter's version. @text: or NULL */
json_t *status_string(const char *text);

/* A problem, or null. */
json_t *status_problem(const struct problem *p);

/* What the files of something saved lack, in words, or null. @saved: or NULL */
json_t *status_flaws(const struct saved *saved);

/* Of a session that lasts: what is saved, and whose copy it is. Adds to @o. */
void status_lasting(const struct session *s, json_t *o);

#endif
