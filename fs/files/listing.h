/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: the listing of an open directory. */
#ifndef XSBX_FS_FILES_LISTING_H
#define XSBX_FS_FILES_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_op;
struct handle;
struct req;
struct vm_file;
struct vm_file_reply;

/* Does a READDIR not need what the directory was opened in? It begins anew, or its answer is there. */
bool listing_goes_on(const struct handle *h, const struct vm_file *rq);
/* Likewise: its answer is there. */
bool listing_is_there(const struct handle *h, const struct vm_file *rq);
/* Answers it. */
void listing_answer(struct handle *h, struct req *req, size_t size, uint64_t offset);

/* A READDIR that begins anew, with its `fh`: there is nothing yet. */
void listing_begin(struct file_op *op);
/* ... that is asked, or asked once more, somewhere else: likewise. */
void listing_again(struct file_op *op);

/* What the sandbox is asked next, but for the node. Return: 0 or -errno. */
int listing_ask(struct file_op *op);
/* The answer to that. Return: 1: ask again; 0: it is answered; -errno. It may be a listing no more then (listing_leave()). */
int listing_take(struct file_op *op, const struct vm_file_reply *reply);

/* One more entry, as it is shown. Return: 0, or -errno: there is no room for it. */
int listing_add(struct file_op *op, const char *name, uint64_t ino, uint32_t type);
/* That was the last one: answers. */
void listing_end(struct file_op *op);
/* It is too long to be kept: from now on it is an ordinary READDIR of what the handle is open in. */
void listing_leave(struct file_op *op);

#endif
