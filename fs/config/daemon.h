/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's configuration: files, -o options, command line. */
#ifndef XSBX_FS_CONFIG_DAEMON_H
#define XSBX_FS_CONFIG_DAEMON_H

#include "packages.h"
#include "settings.h"
#include "vm/base/log.h"

#define CONF_TEMPLATES_MAX 64

/* A template: a directory at the root of the mount. */
struct conf_template {
	char *name; /* directory, under the rules for session names */
	/* With its image, which defaults to the name, its language, warm-up and pool. */
	struct settings settings;
	bool asleep;  /* not to be made ready until somebody uses it, or `prepare` names it */
	bool prepare; /* they do from the mount on */
};

enum conf_action {
	CONF_MOUNT,
	CONF_CHECK,
	CONF_PREFETCH,
	CONF_EXPORT,
	CONF_IMPORT,
	CONF_VERSION,
	CONF_HELP
};

/* Owns its strings. Sections and keys: key.c, man/xsbxfs.conf.5. */
struct conf {
	enum conf_action action;
	char *const *names; /* of templates, for --prefetch and --export; arguments, not copied */
	size_t nnames;
	const char *file; /* of --export and --import; likewise */
	bool foreground, debug;
	enum log_level log_level; /* LOG_NLEVELS: not said, and it depends on what is done */
	enum log_format log_format;
	bool allow_other; /* other users may use the mount; permissions still count */
	char *mountpoint; /* absolute, symlinks resolved */
	char *notify; /* -o notify=FIFO: a byte is written there once the mount is ready; or NULL */
	char *cache_dir;   /* default $XDG_CACHE_HOME/xsbxfs, or ~/.cache/xsbxfs */
	char *runtime_dir; /* parent of the mount's own; default $XDG_RUNTIME_DIR/xsbxfs, /run/xsbxfs
			    * for root, else under /tmp with the uid in its name */
	char *spool_dir;   /* where long outputs spill; default `spool` in the cache directory */
	char *qemu;	   /* default qemu-system-x86_64 */
	char *agent;	   /* default: beside the program, else libexec directory */
	char *accel;	   /* auto, kvm, tcg */
	enum vm_backend backend; /* of templates that do not say */
	char *image_builder; /* default: scripts/images beside the program, else installed; or "none" */
	char *prepare;	     /* yes, no, or names of templates */
	char *kernel;	     /* auto, own, stock */
	unsigned max_vms;	      /* 0: derived */
	unsigned max_vms_user;	      /* of one user; 0: derived */
	unsigned memory_percent;      /* of the host's memory that is promised to sandboxes */
	unsigned cpu_percent;	      /* of its processors that runs may have without waiting */
	uint64_t reserve_bytes;	      /* of its memory, left alone; 0: derived */
	unsigned queue, queue_user;   /* most that wait for a place, in all and of one user */
	uint64_t snapshot_bytes;      /* disk space for snapshots */
	bool force_mitigations;	      /* of the processor's speculation, in sandboxes */
	unsigned admission_s, boot_s; /* longest waits for a place, and for a sandbox to be ready */
	unsigned max_sessions;	      /* of one user; 0: no limit */
	uint64_t output_bytes;	      /* limit of stdout and of stderr of a run */
	uint64_t history_bytes;	      /* of the outputs a session keeps */
	unsigned history_runs;	      /* how many runs a session keeps */
	bool allow_network;	      /* of [limits] */
	char *ca_certificates;	      /* "host", "none", or a path */
	bool pass_proxy;
	struct settings_limits limits;
	char *store_program; /* default: beside the program, else libexec directory */
	char *store_url, *store_region;
	bool store_read, store_write;
	unsigned store_timeout_s;
	char *installer; /* directory of what installs packages; default as image_builder */
	char *python_index, *python_hosts, *npm_registry, *npm_hosts; /* NULL: the host's own */
	char *offline;		      /* mirror of packages; or NULL */
	char *python_list, *npm_list; /* files of names, or "any"; default beside the installer */
	uint64_t layer_bytes;	      /* disk space for installed packages */
	struct packages_rules packages;
	struct conf_template template[CONF_TEMPLATES_MAX];
	size_t ntemplates;
};

/**
 * conf_load() - Read everything there is: defaults, /etc/xsbxfs.conf, ~/.config/xsbxfs.conf, -c, -o
 * @c: Filled in; release with conf_clear() whatever the result
 * @argc: Command line
 * @argv: Command line
 * @ret_why: In words that can be printed as they are (file and line where there is one), if it fails
 * @why_size: Bytes at @ret_why
 *
 * Return: 0, or -EINVAL, -ENOENT (a file named by -c), -ENOMEM ...
 */
int conf_load(struct conf *c, int argc, char *const argv[], char *ret_why, size_t why_size);
void conf_clear(struct conf *c);

/* Usage text for --help. */
extern const char conf_usage[];

#endif
