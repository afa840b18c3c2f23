/* SPDX-License-Identifier: Apache-2.0 */
/* A whole mount for a test, with neither kernel nor sandboxes: requests go in as the kernel would send them. */
#ifndef XSBX_BED_H
#define XSBX_BED_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../fs/fs.h"
#include "../../fs/session.h"
#include "clock_fake.h"
#include "reply_fake.h"
#include "vm_fake.h"

/*
 * The functions below are a client of the mount. Paths start at its root: "python/demo/in". Those that take a path
 * look it up component by component, as the kernel does without its cache. Unless they return a request,
 * they fail the test if they are not answered at once, and return what a system call would: 0 or more, or -errno.
 */

struct bed {
	struct fs *fs;
	struct conf conf;
	uv_loop_t loop;
	char spool[64];
	pid_t pid; /* of the client */
};

/* An open file. */
struct file {
	uint64_t ino, fh;
	int flags;
	bool noflush;
	uint64_t offset;
};

/* For cmocka: templates python and raw; python/demo is there. Teardown checks that nothing is left behind. */
int bed_up(void **state);
int bed_down(void **state);

/* What main.c does when it is told to end; bed_down() does it otherwise. */
void bed_stop(struct bed *b);

/* ---- requests ---- */

struct req *bed_lookup(struct bed *b, uint64_t parent, const char *name);
int bed_walk(struct bed *b, const char *path, uint64_t *ret_ino);
/* Likewise, but the path must be there. */
uint64_t bed_ino(struct bed *b, const char *path);

int bed_stat(struct bed *b, const char *path, struct stat *ret_st);
int bed_stat_ino(struct bed *b, uint64_t ino, struct stat *ret_st);
int64_t bed_size(struct bed *b, const char *path);
bool bed_exists(struct bed *b, const char *path);

int bed_open(struct bed *b, const char *path, int flags, struct file *ret_f);
/* Likewise, but it must succeed. */
struct file bed_opened(struct bed *b, const char *path, int flags);
#define BED_CACHED 0x40000000 /* among the flags of bed_read(): as for the page cache */

/* A READ at the file's offset, which does not move. @flags: the descriptor's flags now, e.g. O_NONBLOCK. */
struct req *bed_read(struct bed *b, const struct file *f, size_t size, int flags);
/* A WRITE at the file's offset, which moves with success. */
int bed_write(struct bed *b, struct file *f, const char *data);
int bed_write_bytes(struct bed *b, struct file *f, const void *data, size_t size);
int bed_ftruncate(struct bed *b, const struct file *f, uint64_t size);
int bed_truncate(struct bed *b, const char *path, uint64_t size);
int bed_flush(struct bed *b, const struct file *f);
void bed_release(struct bed *b, const struct file *f);
/* close(2) of the last descriptor: FLUSH if wanted, then RELEASE. Return: what FLUSH said. */
int bed_close(struct bed *b, const struct file *f);
struct req *bed_poll(struct bed *b, const struct file *f, struct pollwait *pw);

int bed_mkdir(struct bed *b, const char *path);
int bed_rmdir(struct bed *b, const char *path);
int bed_unlink(struct bed *b, const char *path);
int bed_rename(struct bed *b, const char *from, const char *to, unsigned flags);

/* Names in a directory, "a b c " without the dots. Freed by bed_down(). */
const char *bed_ls(struct bed *b, const char *path);

/* ---- what shells do ---- */

/* echo TEXT > PATH, without an added newline. Return: what write(2) said, or open(2). */
int bed_put(struct bed *b, const char *path, const char *text);
/* Likewise >>. */
int bed_add(struct bed *b, const char *path, const char *text);
/* cat; nothing may wait. Return: the text; freed by bed_down(). */
const char *bed_cat(struct bed *b, const char *path);

void bed_expect(struct bed *b, const char *path, const char *text);
/* The first line of the session's `error` node has this code. */
void bed_expect_error(struct bed *b, const char *session, const char *code);

/* Puts code into python/demo/in and brings its sandbox up. Return: the sandbox, running the code. */
struct sandbox *bed_run(struct bed *b, const char *code);
/* Makes python/demo's sandbox READY. */
struct sandbox *bed_ready(struct bed *b);

/* Answered with these bytes / this error. */
void assert_bytes(const struct req *req, const char *text);
void assert_error(const struct req *req, int err);
void assert_waits(const struct req *req);

#endif
