/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a session's network: net/allow, net/denied. */
#include "network.h"

#include <inttypes.h>
#include <string.h>

#include "fs/config/network.h"
#include "fs/session/fs.h"
#include "fs/session/session.h"

int network_render_denied(const struct node *n, struct buf *out)
{
	const struct netlog *log = &n->s->netlog;
	uint64_t first = log->next > NETLOG_KEPT ? log->next - NETLOG_KEPT : 0;
	int r = first ? buf_printf(out, "# %" PRIu64 " older ones were dropped\n", first) : 0;

	for (uint64_t i = first; i < log->next && r >= 0; i++)
		r = buf_append(out, log->line[i % NETLOG_KEPT], strlen(log->line[i % NETLOG_KEPT]));
	return r;
}

int network_render_allow(const struct node *n, struct buf *out)
{
	const struct session *s = n->s;
	int r = 0;

	if (!s->settings.spec.network)
		return buf_printf(out, "# This sandbox has no network. Before its first run, or "
				       "after `close`:\n# echo 'network = on' >> config\n");
	if (s->fs->netenv.allow && *s->fs->netenv.allow)
		r = buf_printf(out, "# Always allowed, for proxy = pass in xsbxfs.conf: %s\n",
			       s->fs->netenv.allow);
	return r < 0 ? r : netset_render_allow(&s->settings, out);
}
