/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for files of a sandbox, answered from the loop or at once. Part of vm.h. */
#ifndef XSBX_VM_GUEST_FILE_H
#define XSBX_VM_GUEST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "agent/protocol.h"

enum vm_file_op {
	VM_LOOKUP,
	VM_FORGET,
	VM_GETATTR,
	VM_SETATTR,
	VM_READLINK,
	VM_MKDIR,
	VM_SYMLINK,
	VM_LINK,
	VM_UNLINK,
	VM_RMDIR,
	VM_RENAME,
	VM_OPEN,
	VM_CREATE,
	VM_READ,
	VM_WRITE,
	VM_RELEASE,
	VM_FSYNC,
	VM_FALLOCATE,
	VM_SEEK,
	VM_OPENDIR,
	VM_READDIR,
	VM_STATFS,
	VM_LOCK,
	VM_TEST_LOCK,
	VM_DROP_LOCKS,
	VM_CANCEL_LOCK,
	VM_ORIGIN,
	VM_NFILEOPS,
};

#define VM_FILES_ROOT 1u /* node of the working directory */

/* See struct proto_lock in the agent's protocol.h. */
struct vm_lock {
	uint64_t owner;
	uint64_t token;	     /* of a LOCK: identifies it for CANCEL_LOCK */
	uint64_t start, end; /* first and last byte; end INT64_MAX: to the end of the file */
	enum proto_lock_type type;
	bool wait;  /* the answer is sent when it is granted or has failed */
	bool whole; /* of flock(2) */
	bool undo;  /* CANCEL_LOCK: even if it was granted */
	uint32_t pid;
};

/* What has changed in the working directory, or what is said about the watching itself: see enum
 * proto_change. */
struct sandbox_change {
	enum proto_change kind;
	bool is_dir;
	struct proto_str path, from; /* any bytes but NUL; checked, but for words */
};

/* What code has tried to use, with the most that it has needed so far. */
struct sandbox_learned {
	uint32_t processes;
	uint64_t memory_kib;
	enum proto_learned kind; /* 0: only those numbers */
	struct proto_str path;	 /* absolute, any bytes but NUL */
};

struct vm_attr {
	uint64_t ino;
	uint32_t mode, nlink; /* set-id bits are never set */
	uint64_t size, blocks;
	struct timespec atime, mtime, ctime;
};

bool vm_attr_same_times(const struct vm_attr *a, const struct vm_attr *b);
/* Would reading the file set the time of its last access, by the rule of `relatime`? */
bool vm_attr_read_counts(const struct vm_attr *a);

/* A request; which fields are used depends on @op, see enum proto_type in the agent's protocol.h.
 * Strings and @data need only be valid until sandbox_file() returns. */
struct vm_file {
	enum vm_file_op op;
	uint64_t
		claim; /* its number: the same request made to another process has the same. 0: none */
	uint64_t node; /* the node, or the parent directory */
	uint64_t handle;
	uint64_t newparent;
	const char *name;
	const char *newname; /* also the target of SYMLINK */
	uint32_t flags;	     /* O_*, RENAME_*, FALLOC_*, SEEK_* */
	uint32_t mode;
	uint32_t valid;		 /* PROTO_SET_* */
	uint64_t offset, length; /* SETATTR: the new size is `length` */
	uint64_t lookups;	 /* FORGET */
	struct vm_lock lock;
	struct timespec atime, mtime;
	const void *data; /* WRITE */
	size_t size;	  /* READ, READDIR: most bytes wanted; WRITE: bytes of @data */
};

/* Does it change files, or names, once it is carried out? */
bool vm_file_changes(const struct vm_file *req);

/* A node that is referred to so often, see sandbox_hold_nodes(). */
struct vm_held_node {
	uint64_t node, lookups;
};

struct vm_dirent {
	uint64_t ino, next;
	uint32_t type;	  /* S_IFMT bits */
	const char *name; /* terminated, checked: no slash, not empty, not . or .. */
};

struct vm_statfs {
	uint64_t bsize, blocks, bfree, files, ffree;
};

struct vm_file_reply {
	uint64_t node, handle, offset;
	struct vm_attr attr;
	const void *
		data; /* READ; READLINK: the target, not terminated; ORIGIN: text, printable, likewise */
	size_t size; /* bytes of @data; WRITE: bytes written */
	const struct vm_dirent *entries;
	size_t nentries;
	struct vm_statfs statfs;
	struct vm_lock lock; /* TEST_LOCK: type, start, end, pid */
	bool leased; /* nothing in the sandbox can change files before it is sent a run or a reset */
};

/* @err is 0 or -errno; @reply is NULL unless it is 0. */
typedef void (*vm_file_fn)(void *data, int err, const struct vm_file_reply *reply);

#endif
