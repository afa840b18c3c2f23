/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox is to be: its kind, its limits, what it sees, its network; the one description of it. Part of
 * vm.h. */
#ifndef XSBX_VM_BASE_SPEC_H
#define XSBX_VM_BASE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "log.h"

enum vm_backend { VM_MICROVM, VM_PROCESS, VM_NBACKENDS };

#define VM_BACKEND_NAMES                                           \
	{                                                          \
		[VM_MICROVM] = "microvm", [VM_PROCESS] = "process" \
	}

const char *spec_backend_str(enum vm_backend backend);

/* A port of the sandbox that can be reached at 127.0.0.1 of the host. */
struct sandbox_port {
	uint16_t guest, host; /* host 0, where something is asked for: any that is free */
};

#define SANDBOX_PORTS_MAX 10

struct sandbox_env {
	const char *name, *value;
};

/* A file or directory of the host that a process sandbox sees, with all that is mounted below it. */
struct vm_path {
	const char *
		source; /* absolute; a link in it is not followed, the sandbox does not start then */
	const char *target; /* where it is seen; absolute */
	bool write; /* with the rights of the sandbox's owner; else as everybody may read it */
};

#define VM_PATHS_MAX 16u

/* What a sandbox sees in which packages are installed, or packed: the layer that is being made, and
 * what installs. */
struct vm_install {
	bool pack;
	const char *key;      /* the layer's */
	const char *image;    /* for whose programs; "": the host's */
	const char *language; /* python, javascript */
};

/* What user code may have at most, beside memory and processors; the same whatever it runs in. In
 * each, 0 is a default. */
struct sandbox_limits {
	unsigned processes;    /* at once, threads among them */
	unsigned open_files;   /* of a process */
	unsigned file_size_mb; /* the largest file; 0: there is no such limit */
	unsigned files_mb;     /* the working directory; 0: two fifths of the memory */
	unsigned files_inodes; /* files in it; 0: as the memory allows */
};

/* Sandboxes of a kind that should wait, ready to be used. */
struct vm_pool {
	unsigned target; /* so many */
	unsigned low;	 /* made when there are fewer than this; at most `target` */
	unsigned age_s;	 /* replaced when they are older; 0: never */
};

struct sandbox_spec {
	const char *name; /* for messages and as the guest's host name, e.g. "python-demo" */
	struct log_label
		label;	   /* for the log: whose it is, and the run that it is wanted for; copied */
	const char *image; /* image name */
	const char *language; /* python, javascript, raw */
	enum vm_backend backend;
	unsigned memory_mb, cpus;
	struct sandbox_limits limits;
	uid_t owner;
	gid_t group;		     /* the owner's */
	const struct vm_path *paths; /* copied; only for VM_PROCESS */
	size_t npaths;		     /* at most VM_PATHS_MAX */
	bool image_view; /* programs are the image's and not the host's; only for VM_PROCESS */
	const struct vm_install
		*install; /* or NULL; must outlive the sandbox; only for VM_PROCESS */
	const char *
		work; /* directory of the host that files/ begins as, or NULL; only for VM_PROCESS */
	const struct sandbox_env *env; /* copied */
	size_t nenv;
	/* The variables and limits of the template itself, with which snapshots are made; copied. */
	const struct sandbox_env *template_env;
	size_t ntemplate_env;
	struct sandbox_limits template_limits;
	/*
	 * Its network. With `network` it has an interface, which leads nowhere but to the names and
	 * addresses in `allow`, a list as in vm/base/allow.h, "" or NULL for none, and to which `ports`
	 * lead. A port that can't be had ends the sandbox, with the problem "port-taken".
	 */
	bool network;
	bool trusted_names; /* the list is the administrator's: what it names may be anywhere */
	const char *allow;
	const struct sandbox_port *ports;
	size_t nports;	      /* at most SANDBOX_PORTS_MAX */
	const char *packages; /* names with versions, sorted; NULL or "": none */
	/* Code that is run, when the interpreter is there, in each sandbox that boots, and so is in the
	 * snapshot; NULL or "": none. If it fails, the sandbox does. */
	const char *warmup;
	bool alone; /* of no template: neither snapshots nor a pool */
	struct vm_pool pool;
	bool ad_hoc; /* not as its template says: a snapshot is made only if it is asked for again */
};

/* Longest that is copied of a name. */
#define SANDBOX_NAME_MAX 64u

/**
 * spec_copy() - A spec with strings and arrays of its own
 * @dst: Result; on failure as it was
 * @src: What was asked for; texts that are NULL become "", but `work`, and no processors one
 *
 * `install` stays the caller's, as it was.
 *
 * Return: 0, -ENOMEM, or -E2BIG for too many paths, ports or variables (PROTO_ENV_MAX), or too long ones (names of
 * 256 bytes, values of 4096).
 */
int spec_copy(struct sandbox_spec *dst, const struct sandbox_spec *src);

/* The same of what all sandboxes of its kind have in common: the template's variables and limits, no ports. */
int spec_copy_kind(struct sandbox_spec *dst, const struct sandbox_spec *src);

/* Is a sandbox like @spec of the kind that spec_copy_kind() has made? */
bool spec_is_kind(const struct sandbox_spec *kind, const struct sandbox_spec *spec);

/* What spec_copy() has made; all zeroes afterwards. */
void spec_free(struct sandbox_spec *s);

#endif
