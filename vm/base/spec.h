/* SPDX-License-Identifier: Apache-2.0 */
/* The specification of a sandbox: its kind, limits, visible files, and network. Part of
 * vm.h. */
#ifndef XSBX_VM_BASE_SPEC_H
#define XSBX_VM_BASE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "log.h"
#include "net_policy.h"

struct saved;

enum vm_backend { VM_MICROVM, VM_PROCESS, VM_NBACKENDS };

#define VM_BACKEND_NAMES                                           \
	{                                                          \
		[VM_MICROVM] = "microvm", [VM_PROCESS] = "process" \
	}

const char *spec_backend_str(enum vm_backend backend);

/* A port of the sandbox that is reachable at 127.0.0.1 of the host. */
struct sandbox_port {
	uint16_t guest, host; /* host 0 in a request: any free port */
};

#define SANDBOX_PORTS_MAX 10

struct sandbox_env {
	const char *name, *value;
};

/* A file or directory of the host that is visible in a process sandbox, including mounts below it. */
struct vm_path {
	const char *source; /* absolute; with a symbolic link in it the sandbox does not start */
	const char *target; /* path in the sandbox; absolute */
	bool write; /* with the permissions of the sandbox's owner; else read-only, as for others */
};

#define VM_PATHS_MAX 16u

/* For a sandbox in which packages are installed or packed: the layer that is being made, and the
 * installer's parameters. */
struct vm_install {
	bool pack;
	const char *key;      /* the layer's */
	const char *image;    /* whose programs are used; "": the host's */
	const char *language; /* python, javascript */
};

/* Limits of user code, besides memory and processors; the same for all backends. In
 * each, 0 is a default. */
struct sandbox_limits {
	unsigned processes;    /* at the same time, including threads */
	unsigned open_files;   /* per process */
	unsigned file_size_mb; /* the largest file; 0: no limit */
	unsigned files_mb;     /* the working directory; 0: two fifths of the memory */
	unsigned files_inodes; /* files in it; 0: as the memory allows */
};

/* The pool of sandboxes of a kind that are kept ready for use. */
struct vm_pool {
	unsigned target; /* number of them, when it is quiet; 0: no pool */
	unsigned most;	 /* ... when sessions come faster; less than `target` means `target` */
	unsigned low;	 /* refilled when there are fewer than this; at most `target` */
	unsigned age_s;	 /* replaced when they are older; 0: never */
};

struct sandbox_spec {
	const char *name;	/* for messages and as the guest's host name, e.g. "python-demo" */
	struct log_label label; /* for the log: its session, and the run that needs it; copied */
	const char *image;	/* image name */
	const char *language;	/* python, javascript, raw */
	enum vm_backend backend;
	unsigned memory_mb, cpus;
	struct sandbox_limits limits;
	uid_t owner;
	gid_t group;		     /* the owner's */
	const struct vm_path *paths; /* copied; only for VM_PROCESS */
	size_t npaths;		     /* at most VM_PATHS_MAX */
	bool image_view; /* processes see the image's programs, not the host's; machines always do */
	bool learn;	 /* which files it tries to use is told; only for VM_PROCESS */
	bool root;	 /* its user may start programs as root; only for VM_MICROVM */
	/* Or NULL; must outlive the sandbox; only for VM_PROCESS. */
	const struct vm_install *install;
	/* Directory of the host, the initial content of files/; or NULL; only for VM_PROCESS. */
	const char *work;
	const struct sandbox_env *env; /* copied */
	size_t nenv;
	/* The variables and limits of the template, which are used for snapshots; copied. */
	const struct sandbox_env *template_env;
	size_t ntemplate_env;
	struct sandbox_limits template_limits;
	/*
	 * Its network. With `network` it has an interface, which can only connect to the names and
	 * addresses in `allow`, a list as in vm/base/allow.h, "" or NULL for none, and to which `ports`
	 * are forwarded. A port that is not available ends the sandbox, with the problem "port-taken".
	 */
	bool network;
	bool trusted_names; /* the list is the administrator's: names may resolve to any address */
	const char *allow;
	struct net_policy policy; /* what else there is to it; its texts are copied */
	const struct sandbox_port *ports;
	size_t nports; /* at most SANDBOX_PORTS_MAX */
	struct saved *
		from; /* what it begins from, or NULL; the sandbox takes a reference. Not copied by spec_copy() */
	const char *packages; /* names with versions, sorted; NULL or "": none */
	/* Code that is run in each sandbox that boots, once the interpreter is ready, and so is
	 * part of the snapshot: if it fails, so does the sandbox. Or SPEC_WARMUP_AUTO: the snapshot
	 * is made after its packages were imported, as far as they can be. NULL, "" or
	 * SPEC_WARMUP_OFF: neither. */
	const char *warmup;
	/* What of it is to be the same in another one, see exact.h; "" or NULL: nothing. */
	const char *seed, *clock;
	uint32_t before; /* runs before its first one, in what it is a copy of; for `seed` */
	bool alone;	 /* without a template: neither snapshots nor a pool */
	struct vm_pool pool;
	bool ad_hoc; /* differs from its template: a snapshot is made only if it is requested again */
};

#define SPEC_WARMUP_AUTO "auto"
#define SPEC_WARMUP_OFF	 "off"

/* Its warm-up, if that is code; or NULL. */
const char *spec_warmup_code(const struct sandbox_spec *s);

/* Names are truncated to this. */
#define SANDBOX_NAME_MAX 64u

/**
 * spec_copy() - Make a deep copy of a spec
 * @dst: Result; unchanged on failure
 * @src: Original; strings that are NULL become "", except `work`, and 0 cpus become 1
 *
 * `install` is not copied, and stays the caller's.
 *
 * Return: 0, -ENOMEM, or -E2BIG for too many paths, ports or variables (PROTO_ENV_MAX), or too long
 * ones (names of 256 bytes, values of 4096).
 */
int spec_copy(struct sandbox_spec *dst, const struct sandbox_spec *src);

/* The same, with only what all sandboxes of its kind share: the template's variables and limits, no
 * ports. */
int spec_copy_kind(struct sandbox_spec *dst, const struct sandbox_spec *src);

/* Is a sandbox like @spec of the kind @kind, from spec_copy_kind()? */
bool spec_is_kind(const struct sandbox_spec *kind, const struct sandbox_spec *spec);

/* Frees a result of spec_copy(); all zeroes afterwards. */
void spec_free(struct sandbox_spec *s);

#endif
