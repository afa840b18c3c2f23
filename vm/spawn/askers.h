/* SPDX-License-Identifier: Apache-2.0 */
/* Who wants a mount to be taken over: connections in the runtime directory, heard side by side. */
#ifndef XSBX_VM_SPAWN_ASKERS_H
#define XSBX_VM_SPAWN_ASKERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ASKERS_MOST 16u /* connections that have said nothing yet */

/*
 * Who connects says what he wants at once, with the program to be run. One who says nothing keeps
 * nobody waiting who does: they are heard as they speak. After five seconds he is given up, or
 * sooner if there are too many of them and others come. Nobody but the owner of the mount, and
 * root, is as much as kept.
 *
 * Embedded by its owner.
 */
struct askers {
	int listener;  /* or -1: nobody can ask */
	int epoll;     /* of it, and of them */
	int64_t again; /* 0, or when it is listened to again: there was no descriptor left */
	size_t n;
	struct {
		int sock;
		int64_t until; /* in ms of CLOCK_MONOTONIC; the first ends first */
	} item[ASKERS_MOST];
};

/* @listener: a socket that does not block, which is taken; or -1. Return: 0; or -errno: nobody can
 * ask. */
int askers_init(struct askers *a, int listener);

/* Lets in who comes, hears them, and gives up who was silent for too long. Return: the socket of one that has brought
 * a program, which are both the caller's; or -1. */
int askers_next(struct askers *a, int64_t now, int *ret_program);

/* Return: when askers_next() has something to do, whoever speaks; or INT64_MAX. */
int64_t askers_until(const struct askers *a);

/* Says what became of it, and closes *@sock; -1 is nobody. @pid: of the daemon; 0: because of
 * @words. */
void askers_answer(int *sock, pid_t pid, const char *words);

/* Nobody can ask any more. */
void askers_close(struct askers *a, const char *words);

/* In a child: closes what is its parent's. */
void askers_leave(const struct askers *a);

#endif
