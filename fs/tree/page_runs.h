/* SPDX-License-Identifier: Apache-2.0 */
/* status.html of a session: its runs and its jobs, with what they were told and have said. */
#ifndef XSBX_FS_TREE_PAGE_RUNS_H
#define XSBX_FS_TREE_PAGE_RUNS_H

struct page;
struct session;

void page_runs(struct page *p, const struct session *s);
/* With named runs. */
void page_jobs(struct page *p, const struct session *s);

#endif
