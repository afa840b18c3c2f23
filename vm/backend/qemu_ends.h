/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of what a machine's QEMU shares with us. */
#ifndef XSBX_VM_BACKEND_QEMU_ENDS_H
#define XSBX_VM_BACKEND_QEMU_ENDS_H

#include <stdbool.h>

enum qemu_end { QEMU_OURS, QEMU_ITS };

/* Each is a socket pair, but `words`, a pipe; -1 where there is none. */
struct qemu_ends {
	int agent[2], console[2], control[2], words[2];
	int card[2]; /* of a machine with a network */
};

/* Opens all; what was opened before a failure is for qemu_ends_close(). Return: 0 or -errno. */
int qemu_ends_open(struct qemu_ends *e, bool network);

/* Closes those that nobody has taken. */
void qemu_ends_close(struct qemu_ends *e);

/* The same file once more, for reading: clones must not share an offset, and the same descriptor would.
 * Return: descriptor or -errno. */
int qemu_ends_open_again(int fd);

#endif
