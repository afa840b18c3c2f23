/* SPDX-License-Identifier: Apache-2.0 */
/* What status.html is made of: of a mount, and of a session. */
#ifndef XSBX_FS_TREE_PAGE_H
#define XSBX_FS_TREE_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "vm/base/buf.h"

struct problem;
struct run;

/*
 * Theory of operation
 * -------------------
 * A page is one text, rendered when it is opened, as that of any other node. It says all without a script, loads nothing, and is
 * small whatever there is: of long lists the newest or most urgent are shown, and the rest is counted.
 *
 * Who can write into it are sandboxes (outputs, errors that quote them), users (names, code, settings), and registries and images
 * (versions). All of that goes through html.h; "%s" in a format is for words of this program alone. Should something get past it all
 * the same, the policy of the page forbids all but its own style and script, and all that loads anything or leads elsewhere by
 * itself. There is no link to what a sandbox writes as it likes (stdout, files/x.html): browsers guess what a file is, and would
 * execute it as a page of its own. There are links to the directories that these are in.
 */

#define PAGE_NAME_MAX 256u  /* bytes of a name or of a word that are shown, */
#define PAGE_LINE_MAX 512u  /* of a sentence or of one line of code, */
#define PAGE_HEAD_MAX 1500u /* of code and of outputs */

/* A page that is being written. */
struct page {
	struct buf *out;
	struct timespec now;
};

/* Begins the page, up to what is in its header. @title: of anybody. @every_s: Seconds after which it is loaded again */
void page_begin(struct page *p, struct buf *out, const char *title, unsigned every_s);
/* Ends the header: when this was so. */
void page_as_of(struct page *p);
/* Return: 0, -ENOMEM, -EFBIG. */
int page_end(struct page *p);

/* "3 min ago", as an element that a script can tell the time of. Nothing, where there was none. */
void page_ago(struct page *p, const struct timespec *t);
/* "41 ms", "3.2 s", "2 min 5 s", "3 h 12 min", "5 d 2 h" */
void page_time_span(struct buf *out, uint64_t us);
/* "12 KiB", "1.5 GiB" */
void page_bytes(struct buf *out, uint64_t n);
/* @n with "s" behind @noun where it is not one. */
void page_count(struct buf *out, uint64_t n, const char *noun);

/* A word with the colour that it has everywhere: of a session, a run, a checkpoint. @kind: its class, mostly the same */
void page_state(struct buf *out, const char *kind, const char *word);
/* Of a run: its state, or its exit status. */
void page_run_state(struct buf *out, const struct run *r);
/* The class of a run's colour: how it ended. */
const char *page_run_kind(const struct run *r);

/* A tile: its head, then whatever, then its end. */
void page_tile(struct buf *out, const char *head);
void page_tile_end(struct buf *out);
/* How much of @all there is: @part, and behind it @more. @scarce: it is bad when that is all of it */
void page_meter(struct buf *out, const char *what, uint64_t part, uint64_t more, uint64_t all,
		bool scarce);

/* Links to a directory or a page below this one. @path: a name, or names with slashes; @rest: what follows it, of this program */
void page_link(struct buf *out, const char *path, const char *rest);

/* What is wrong, why, and what to do about it, as an item of a list. @what: what has it, a word of this program or NULL; @path: or
 * the session that has it, or NULL */
void page_problem(struct buf *out, const char *what, const char *path, const struct problem *p);

#endif
