/* SPDX-License-Identifier: Apache-2.0 */
/* status.html of the mount: what is everybody's, as in its status.json. */
#ifndef XSBX_FS_TREE_PAGE_MOUNT_H
#define XSBX_FS_TREE_PAGE_MOUNT_H

struct fs;
struct node;
struct page;

/* All of the header. */
void page_mount_header(struct page *p, struct fs *fs);

/* Tiles: sandboxes and who waits to be admitted, memory, processors, the pool, runs. */
void page_mount_tiles(struct page *p, struct fs *fs);

/* What is wrong with images, snapshots and the store, as items of a list. Return: how much of that there is. */
unsigned page_mount_troubles(struct page *p, struct fs *fs);

void page_mount_templates(struct page *p, struct fs *fs);

/* @n: the root's node. Return: 0 or -errno. */
int page_mount_isolation(struct page *p, const struct node *n);

#endif
