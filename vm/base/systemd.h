/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd is told by a program that it has started: sd_notify(3), and entries of the journal. */
#ifndef XSBX_VM_BASE_SYSTEMD_H
#define XSBX_VM_BASE_SYSTEMD_H

#include <stdint.h>

/*
 * Both are datagrams of a few lines, whose form systemd documents and keeps: in sd_notify(3), which tells programs
 * to do as much themselves, and in "Native Journal Protocol" at systemd.io. libsystemd does no more with
 * them, and maps four libraries that compress and encrypt into a process that reads what guests send. Its functions
 * also make their sockets when they are first called, and address each datagram, which a process that
 * has confined itself must not be able to: here there is one socket, connected at the start.
 */

#define SYSTEMD_JOURNAL "/run/systemd/journal/socket"

/**
 * systemd_connect() - A socket to where datagrams are taken
 * @address: As in $NOTIFY_SOCKET: an absolute path, or "@name" of an abstract one
 *
 * Return: a descriptor (close-on-exec, non-blocking), or -errno; -EAFNOSUPPORT: an address of another kind.
 */
int systemd_connect(const char *address);

/**
 * systemd_notify() - Send a message as of sd_notify(3)
 * @fd: Of systemd_connect()
 * @state: Such as "READY=1"
 *
 * It does not wait, and may be called in the handler of a signal. Return: 0 or -errno.
 */
int systemd_notify(int fd, const char *state);

/* After how many us without a sign systemd gives this process up; 0: never. As sd_watchdog_enabled(3). */
uint64_t systemd_patience_us(void);

/* A field of an entry; NULL or "" as its value: it is left out. */
struct systemd_field {
	const char *name; /* capital letters, digits and '_' */
	const char *value;
};

#define SYSTEMD_FIELDS_MAX 16u

/**
 * systemd_entry() - Send an entry to the journal
 * @fd: Of systemd_connect()
 * @field: Its fields: MESSAGE and others; the values may be any text, with line feeds too
 * @n: How many, at most SYSTEMD_FIELDS_MAX
 *
 * It waits a moment for room. Return: 0; -EINVAL: too many; or -errno of sendmsg(2): it is not in the journal.
 */
int systemd_entry(int fd, const struct systemd_field *field, unsigned n);

#endif
