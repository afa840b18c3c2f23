/* SPDX-License-Identifier: Apache-2.0 */
/* What an installation takes of this host, found out by a program of the user's. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "package_internal.h"
#include "vm/spawn/order.h"

/* Keeps a fact. Return: false if the line is none, but words. */
bool package_jobs_fact(struct package_jobs *in, const char *line)
{
	if (strncmp(line, "index ", 6) == 0) {
		snprintf(in->index, sizeof(in->index), "%s", line + 6);
		return true;
	}
	if (strncmp(line, "host ", 5) == 0) {
		const size_t len = strlen(in->hosts);

		snprintf(in->hosts + len, sizeof(in->hosts) - len, "%s\n", line + 5);
		return true;
	}
	return false;
}

/* The program is gone, and has said all it had to say. */
static void on_over(struct program *t)
{
	struct package_jobs *in = t->data;
	char quote[600];

	if (t->failed)
		package_jobs_give_up(in, "", "%.300s/prepare was not started: %s", in->cfg.dir,
				     strerror(-t->failed));
	else if (in->ctx->closing)
		package_jobs_give_up(in, "", "xsbxfs is ending");
	else if (!WIFEXITED(t->status) || WEXITSTATUS(t->status))
		package_jobs_give_up(in, "Mend what it says, and reset the session to try again.",
				     "packages can't be installed on this host: %s",
				     tail_quote(&in->words.said, "error: ", quote, sizeof(quote)));
	else
		package_jobs_prepared(in);
}

int package_jobs_prepare(struct package_jobs *in)
{
	const struct layer_need *need = &in->current->need;
	struct order order = {.program = ORDER_PACKAGES};

	order.packages.language =
		strcmp(need->language, "python") == 0 ? ORDER_PYTHON : ORDER_JAVASCRIPT;
	order_set(order.packages.image, need->host ? "" : need->image);
	in->prepare = (struct program){.words = &in->words, .over = on_over, .data = in};
	return program_start(&in->prepare, in->ctx->loop, in->ctx->spawner, &order, sizeof(order));
}
