/* SPDX-License-Identifier: Apache-2.0 */
/* A client for objects in an S3-compatible bucket, with parallel requests. */
#ifndef XSBX_VM_STORE_S3_H
#define XSBX_VM_STORE_S3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vm/base/buf.h"
#include "vm/base/digest.h"

#define S3_OBJECT_MAX 256
#define S3_WHY_MAX    400

struct s3;

struct s3_config {
	const char *url;		 /* https://host/bucket/prefix */
	const char *region;		 /* "us-east-1" */
	const char *id, *secret, *token; /* credentials; NULL: none, requests are not signed */
	const char *ca_file;		 /* or NULL: the system's */
	unsigned timeout_s;		 /* total, for everything */
	unsigned stall_s;		 /* without a byte */
};

enum s3_verb { S3_GET, S3_HEAD, S3_PUT, S3_NVERBS };

/*
 * A request. Embedded by its owner, who sets the first part, and keeps it while `state` is S3_BUSY.
 * With S3_DONE, `result` is
 *	0, with the content in `body`, or for S3_HEAD its size in `bytes`
 *	-ENOENT	      there is no such object
 *	-EACCES	      access denied
 *	-EBADMSG      it is larger than `body.limit`
 *	-EHOSTUNREACH there was no answer, or an unusable one
 *	-ENOMEM
 */
struct s3_request {
	enum s3_verb verb;
	char object[S3_OBJECT_MAX]; /* below the prefix */
	unsigned tries;		    /* at least 1 */
	unsigned timeout_ms;	    /* of each; 0: only the total applies, and `stall_s` does not */
	struct buf body;	    /* GET: with its limit */
	const char *data;	    /* PUT */
	size_t len;
	char sha256[DIGEST_HEX]; /* PUT: of `data` */
	enum s3_state { S3_IDLE, S3_BUSY, S3_DONE } state;
	int result;

	/* private to s3.c */
	TAILQ_ENTRY(s3_request) link;
	void *easy, *headers; /* NULL while it is queued */
	size_t refused;	      /* bytes of an error's body */
	uint64_t bytes, retry_at;
	bool overflow;
	char error[256];
};

/* Return: whether @url is usable; if not, @ret_why says why. */
bool s3_url_valid(const char *url, bool authenticated, const char **ret_why);

/* @cfg must outlive it. Return: NULL if out of memory. */
struct s3 *s3_new(const struct s3_config *cfg);

/* Cancels pending requests. */
void s3_free(struct s3 *s3);

void s3_submit(struct s3 *s3, struct s3_request *req);

/* Waits for something to happen. */
void s3_step(struct s3 *s3);

/* Submits a request and waits for its end. Return: its result. */
int s3_do(struct s3 *s3, struct s3_request *req);

/* A monotonic clock. */
uint64_t s3_now_ms(void);

/* The first error, in words; "" if there was none. */
const char *s3_why(const struct s3 *s3);

#endif
