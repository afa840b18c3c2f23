/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the memory of a machine that goes on behind it. A task of the spawner's. */
#ifndef XSBX_VM_TASK_RAM_COPY_H
#define XSBX_VM_TASK_RAM_COPY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Its descriptors. */
enum ram_copy_fd {
	/* To the daemon: an enum ram_copy_word is a packet, as int32_t; so is a -errno, behind which it
	 * ends. */
	RAM_COPY_TALK = 3,
	RAM_COPY_STREAM,  /* a file in memory: becomes the stream, see ram_stream.h */
	RAM_COPY_DEVICES, /* likewise: what QEMU has written of the devices */
	RAM_COPY_BASE,	  /* likewise: see struct ram_copy */
	RAM_COPY_PIDFD,	  /* the machine */
};

/* In this order. It ends by itself when the stream is whole, and when the daemon's end is
 * closed. */
enum ram_copy_word {
	RAM_COPY_READY = 1, /* everything is prepared */
	RAM_COPY_GO,	    /* from the daemon: the machine stands still */
	RAM_COPY_COPIED,    /* it may go on */
	RAM_COPY_SAVED,	    /* from the daemon: the devices are written */
};

struct ram_copy {
	uint32_t machine; /* id of the request that has started it; only read by the spawner */
	pid_t pid;
	uint64_t address, bytes; /* of its memory */
	/* It has no base: all of its memory goes to RAM_COPY_BASE, which is empty, and the stream
	 * has none. Else what it has written since it has mapped its base goes into the stream. */
	bool whole;
};

__attribute__((noreturn)) void ram_copy_serve(const struct ram_copy *what);

#endif
