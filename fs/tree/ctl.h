/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the `ctl` nodes of sessions and jobs. */
#ifndef XSBX_FS_TREE_CTL_H
#define XSBX_FS_TREE_CTL_H

#include <stdbool.h>
#include <stddef.h>

#include "vm/vm.h"

#define CTL_VERBS_MAX 16   /* in one write */
#define CTL_TEXT_MAX  4096 /* bytes of one write */

enum ctl_verb {
	CTL_INTERRUPT,
	CTL_KILL,
	CTL_RESET,
	CTL_CLOSE,
	CTL_COMMIT,
	CTL_DISCARD,
	CTL_PAUSE,
	CTL_RESUME,
	CTL_START,
	CTL_SIGNAL,
	CTL_EOF,
	CTL_SLEEP,
	CTL_WAKE,
	CTL_CHECKPOINT,
	CTL_RESTORE,
	CTL_REPLAY,
	CTL_NVERBS
};

/* Whose they are. A named run knows a job's verbs, but those of programs only to say that they are not its. */
enum ctl_owner { CTL_SESSION = 1, CTL_JOB = 2, CTL_RUN = 4 };

struct ctl_order {
	enum ctl_verb verb;
	int sig;	/* of CTL_SIGNAL */
	char name[65];	/* of CTL_CHECKPOINT and CTL_RESTORE */
	uint32_t run;	/* of CTL_REPLAY */
	bool when_idle; /* of CTL_CHECKPOINT */
};

const char *ctl_verb_str(enum ctl_verb verb);

/**
 * ctl_parse() - Parse verbs, one per line
 * @text: User input, not terminated; empty lines, blanks around a verb and CRLF are accepted
 * @len: How many
 * @owner: Only the verbs of this one are known
 * @ret_orders: The verbs in order, room for CTL_VERBS_MAX; untouched on failure
 * @ret_norders: How many; may be 0
 * @ret_why: Filled in on failure
 *
 * Return: 0 or -EINVAL; a single invalid line causes everything to be refused.
 */
int ctl_parse(const char *text, size_t len, enum ctl_owner owner, struct ctl_order *ret_orders,
	      size_t *ret_norders, struct problem *ret_why);

#endif
