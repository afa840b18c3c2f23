/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the files that machines are made of, worked out by a worker thread. */
#ifndef XSBX_VM_IMAGE_DIGEST_JOB_H
#define XSBX_VM_IMAGE_DIGEST_JOB_H

#include "digest_cache.h"

struct vm;

/**
 * contents_ask() - What is in a file of a machine
 * @vm: Machinery
 * @fd: The file; not needed any longer afterwards
 * @ret_hex: SHA-256 of its bytes
 *
 * Return: 0, -EAGAIN if it will be known later (template_refresh_all() is called then), or -errno.
 */
int contents_ask(struct vm *vm, int fd, char ret_hex[DIGEST_HEX]);

/* The machinery is about to end: nobody wants to know any more. */
void contents_stop(struct vm *vm);

#endif
