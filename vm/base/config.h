/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration of sandboxes and of this host. Part of vm.h. */
#ifndef XSBX_VM_BASE_CONFIG_H
#define XSBX_VM_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct policy;

/* Ports of the host's loopback address that sandboxes may reach as host.internal. */
#define VM_HOST_PORTS_MAX 32

struct vm_host_ports {
	uint16_t port[VM_HOST_PORTS_MAX];
	unsigned n;
};

/* The shared store of snapshots and layers: a bucket. Credentials come from the environment. */
struct vm_store {
	const char *url;     /* https://host/bucket/prefix; NULL or "": none */
	const char *region;  /* or NULL */
	const char *program; /* xsbxfs-store */
	bool read, write;
	unsigned timeout_s; /* for one object */
};

/* A secret that may go with requests, see secret_list.h: where its value is read, never that itself. */
enum vm_secret_from { VM_SECRET_NOWHERE, VM_SECRET_FILE, VM_SECRET_ENV, VM_SECRET_COMMAND };

struct vm_secret {
	char *name;
	enum vm_secret_from from;
	char *argument; /* its file, variable, or command with its words */
	char *hosts;	/* an allow list: where it may ever be sent */
	uid_t *users;	/* whose sessions may use it; none: those of who mounts */
	size_t nusers;
	unsigned refresh_s; /* read again so often; 0: SECRET_REFRESH_S, and never from `env` */
};

struct vm_secrets {
	struct vm_secret *secret;
	size_t n;
};

/* Where traces go. */
struct vm_trace {
	const char *url;      /* of a collector of OpenTelemetry; NULL or "": nowhere */
	const char *program;  /* xsbxfs-trace */
	const char *resource; /* what all spans are of: attributes, a JSON array */
};

/* Where packages come from; anything NULL or "" is taken from the host's own settings. */
struct vm_packages {
	const char *dir; /* contains the programs `prepare` and `install` */
	const char *python_index, *python_hosts;
	const char *npm_registry, *npm_hosts;
	const char *offline;  /* directory with all packages; the network is not used then */
	uint64_t layer_bytes; /* disk space limit for installed packages; 0: none */
};

/* What builds images: on the PATH where xsbxfs is installed, and in its sources. */
#define IMAGES_COMMAND "xsbxfs-images (in the sources, scripts/images)"

/* What one user may have at once, if it is not what others may. 0: no limit but that of all. */
struct vm_user {
	uid_t uid;
	unsigned max_vms, memory_mb;
};

#define VM_AS_OTHERS UINT32_MAX /* ... or what others may */

struct vm_config {
	const char *cache_dir;	 /* contains images/templates/NAME */
	const char *shared_dir;	 /* likewise, made by root for all; NULL: none */
	bool publish;		 /* `cache_dir` is that directory, and `shared_dir` NULL */
	const char *runtime_dir; /* this mount's own directory, mode 0700, exists; for files needed
				  * after a crash */
	const char *qemu;	 /* program, e.g. "qemu-system-x86_64" */
	const char *agent;	 /* the agent's static binary */
	const char *accel;	 /* "auto", "kvm", "tcg" */
	const char *kernel;	 /* "auto", "own", "stock"; NULL: "auto" */
	const char *
		key_command; /* for a shell: tells the key of what is kept; NULL: it is in a file */
	const char *image_builder; /* program that builds missing images, or "none" */
	bool heir;		   /* nothing is started yet: vm_host_go() */
	unsigned max_vms;      /* admission: sandboxes at once; 0: derived from memory and CPUs */
	unsigned max_vms_user; /* of one user; 0: all, or three quarters if `shared` */
	unsigned
		memory_mb; /* of all sandboxes, where that is less than what the host gives; 0: no limit */
	unsigned memory_mb_user;     /* of one user's; 0: all, or three quarters if `shared` */
	const struct vm_user *users; /* for whom others count; must outlive the vm */
	size_t nusers;
	bool shared;		 /* by several users: none of them may take everything */
	unsigned memory_percent; /* of the host's memory that may be committed; 0: 200 */
	unsigned cpu_percent;	 /* of its processors; 0: 200 */
	uint64_t reserve_bytes;	 /* memory to leave unused; 0: derived */
	unsigned queue;		 /* how many may wait for a place; 0: no limit */
	unsigned queue_user;	 /* of one user */
	unsigned admission_s;	 /* longest wait for a place, seconds */
	unsigned boot_s;	 /* longest time from start to ready, seconds */
	bool mitigate;		 /* speculation mitigations are always on in sandboxes */
	bool stand_still;	 /* machines with nothing to do take no processor time */
	bool no_machines;	 /* no template uses machines by default: QEMU may be missing */
	uint64_t snapshot_bytes; /* disk space limit for snapshots; 0: none */
	/* Of the host, for sandboxes whose list has host.internal. */
	struct vm_host_ports host_ports;
	/* Certificates for sandboxes with a network, read-only at VM_CA_FILE: their bytes, and the
	 * host's file they come from. Must outlive the vm. NULL: none. */
	const void *ca;
	size_t ca_len; /* at most VM_CA_MAX */
	const char *ca_path;
	const struct policy *policy; /* the spawner's; must outlive the vm */
	struct vm_secrets secrets;   /* the administrator's */
	const char *upstream;	     /* URL of the proxy that networks go out by; NULL: none */
	struct vm_store store;
	struct vm_trace trace;
	struct vm_packages packages;
};

#define VM_CA_FILE "/run/xsbx/ca.pem"
#define VM_CA_MAX  (1u << 20)

#endif
