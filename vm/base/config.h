/* SPDX-License-Identifier: Apache-2.0 */
/* What the configuration says of sandboxes and of this host. Part of vm.h. */
#ifndef XSBX_VM_BASE_CONFIG_H
#define XSBX_VM_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy;

/* Ports of this machine's loopback address that sandboxes may reach as host.internal. */
#define VM_HOST_PORTS_MAX 32

struct vm_host_ports {
	uint16_t port[VM_HOST_PORTS_MAX];
	unsigned n;
};

/* The shared store of what is expensive to make: a bucket. Credentials are in the environment. */
struct vm_store {
	const char *url;     /* https://host/bucket/prefix; NULL or "": there is none */
	const char *region;  /* or NULL */
	const char *program; /* xsbxfs-store */
	bool read, write;
	unsigned timeout_s; /* for one object */
};

/* Where packages come from; what is NULL or "" is looked up in this host's own settings. */
struct vm_packages {
	const char *dir; /* holds the programs `prepare` and `install` */
	const char *python_index, *python_hosts;
	const char *npm_registry, *npm_hosts;
	const char *offline;  /* a directory that has all there is: no network is used then */
	uint64_t layer_bytes; /* most disk space for what was installed; 0: as much as it needs */
};

struct vm_config {
	const char *cache_dir;	 /* holds images/templates/NAME */
	const char *runtime_dir; /* this mount's own directory, 0700, exists; for what must be found
				  * again after a crash */
	const char *qemu;	 /* program, e.g. "qemu-system-x86_64" */
	const char *agent;	 /* the agent's static binary */
	const char *accel;	 /* "auto", "kvm", "tcg" */
	const char *kernel;	 /* "auto", "own", "stock"; NULL: "auto" */
	const char *image_builder; /* program that builds images that are missing, or "none" */
	unsigned max_vms;	 /* admission: sandboxes at once; 0: derived from memory and CPUs */
	unsigned max_vms_user;	 /* of one user; 0: all, or three quarters if `shared` */
	bool shared;		 /* by several users: none of them may have everything */
	unsigned memory_percent; /* of the host's memory that may be promised; 0: 200 */
	unsigned cpu_percent;	 /* of its processors; 0: 200 */
	uint64_t reserve_bytes;	 /* of its memory to be left alone; 0: derived */
	unsigned queue;		 /* how many may wait for a place; 0: no limit */
	unsigned queue_user;	 /* of one user */
	unsigned admission_s;	 /* longest wait for a place, seconds */
	unsigned boot_s;	 /* longest time from start to ready, seconds */
	bool mitigate;		 /* sandboxes never have the processor speculate as it likes */
	bool no_machines; /* no template's sessions begin as machines: nobody may need QEMU */
	uint64_t snapshot_bytes; /* most disk space for snapshots; 0: as much as they need */
	struct vm_host_ports
		host_ports; /* of this machine, for sandboxes that list host.internal */
	/* Certificates that sandboxes with a network find at VM_CA_FILE, read-only: the bytes, and the
	 * file of the host that they are from. They must outlive the vm. NULL: none. */
	const void *ca;
	size_t ca_len; /* at most VM_CA_MAX */
	const char *ca_path;
	const struct policy *policy; /* that the spawner has; must outlive the vm */
	struct vm_store store;
	struct vm_packages packages;
};

#define VM_CA_FILE "/run/xsbx/ca.pem"
#define VM_CA_MAX  (1u << 20)

#endif
