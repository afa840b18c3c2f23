/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's configuration: files, -o options, command line. */
#ifndef XSBX_FS_CONFIG_DAEMON_H
#define XSBX_FS_CONFIG_DAEMON_H

#include "packages.h"
#include "quota.h"
#include "settings.h"
#include "vm/base/buf.h"
#include "vm/base/log.h"
#include "vm/base/record.h"

#define CONF_TEMPLATES_MAX 64
#define CONF_SYSTEM_FILE   "/etc/xsbxfs.conf" /* which all mounts of all users read */

/* A template: a directory at the root of the mount. */
struct conf_template {
	char *name; /* directory; the rules for session names apply */
	/* Includes its image, which defaults to the name, language, warm-up and pool. */
	struct settings settings;
	bool asleep;   /* not prepared until it is used, or `prepare` names it */
	bool of_image; /* brought along by an image, and not mentioned by the configuration */
	bool gone; /* likewise, and the image is there no more: the mount has sessions of it, and takes no new ones */
	unsigned
		by_image; /* its keys that an image has set, and the configuration not: bits, see image_bit() */
	unsigned by_conf; /* ... that the configuration has set */
	bool prepare;	  /* named by `prepare`: prepared at mount time */
};

enum conf_action {
	CONF_MOUNT,
	CONF_CHECK,
	CONF_PREFETCH,
	CONF_EXPORT,
	CONF_IMPORT,
	CONF_TAKEOVER,
	CONF_KEYS,
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
	enum log_level log_level; /* LOG_NLEVELS: not configured, it depends on the action */
	enum log_format log_format;
	bool allow_other; /* other users may use the mount; permissions still apply */
	/* What vm/ is told of it. The paths that nobody named follow from the environment, see
	 * conf_settle(); runtime_dir is the parent of the mount's own. `ca`, `ca_path` and `policy`
	 * are left to the caller. */
	struct vm_config vm;
	char *mountpoint; /* absolute, symlinks resolved */
	char *notify; /* -o notify=FIFO: a byte is written to it once the mount is ready; or NULL */
	char *spool_dir; /* for long outputs; default `spool` in the cache directory */
	bool keep;	 /* sessions are there again at the next mount */
	bool survive;	 /* another daemon goes on when this one dies */
	/* Of daemons in a row, before the mount ends; 0: unless vm/spawn/deaths.h says
	 * otherwise. */
	unsigned max_deaths;
	char *state_dir; /* where they are meanwhile; default by the mountpoint's name */
	/* The audit log: its file, or NULL; size at which it is rotated, 0: never; older ones that are kept. */
	char *audit_file;
	char *audit_where; /* "FILE:LINE" that has named it; NULL: an option, or nothing */
	unsigned audit_rotate_mb, audit_keep;
	bool audit_sync, audit_required, audit_code;
	enum vm_backend backend; /* default of templates */
	char *prepare;		 /* yes, no, or names of templates */
	struct quotas quota;	 /* what users may have; of the vm, see conf_settle() */
	struct quotas
		known; /* users whom its sections name, as they were looked up when the mount was made */
	struct vm_user *vm_users;  /* those of vm.users */
	uint64_t output_bytes;	   /* limit of stdout and of stderr of a run, each */
	uint64_t history_bytes;	   /* of outputs kept by a session */
	unsigned history_runs;	   /* number of runs kept by a session */
	uint64_t checkpoint_bytes; /* of the checkpoints of a session */
	unsigned max_checkpoints;  /* number of them */
	/* Of [limits]: of all that is saved of a user's sessions; 0: no limit. */
	uint64_t saved_bytes;
	bool allow_network; /* of [limits] */
	char *learn_paths;  /* likewise; or NULL */
	struct sandbox_spec
		learn;	       /* the paths that it means, with allow_learn; nothing else in it */
	char *ca_certificates; /* "host", "none", or a path */
	bool pass_proxy;
	struct settings_limits limits;
	char *python_list, *npm_list; /* files with names, or "any"; default beside the installer */
	struct packages_rules packages;
	struct conf_template template[CONF_TEMPLATES_MAX];
	size_t ntemplates;
	struct buf notes; /* for the log, when it is open: lines */
	struct buf files; /* as they were read: fields, see conf_put() */
};

/**
 * conf_load() - Read all configuration: defaults, /etc/xsbxfs.conf, ~/.config/xsbxfs.conf, -c, -o
 * @c: Filled in; release with conf_clear() even on failure
 * @argc: Command line
 * @argv: Command line
 * @ret_why: On failure, a message that can be printed (with file and line if there is one)
 * @why_size: Size of @ret_why
 *
 * Return: 0, or -EINVAL, -ENOENT (a file named by -c), -ENOMEM ...
 */
int conf_load(struct conf *c, int argc, char *const argv[], char *ret_why, size_t why_size);
void conf_clear(struct conf *c);

/* Appends fields: all that conf_load() has read, and must not read again, for the mount would not
 * answer, or for it may have been changed since. Return: 0 or -ENOMEM. */
int conf_put(const struct conf *c, struct buf *out);

/* conf_load() with the same command line, and what conf_put() has written. Return: likewise,
 * -EBADMSG. */
int conf_load_again(struct conf *c, int argc, char *const argv[], struct record_reader fields,
		    char *ret_why, size_t why_size);

/* Return: the template called @name, or NULL. */
struct conf_template *conf_template_find(struct conf *c, const char *name);
/* Likewise; return: its index, or -1. */
int conf_template_index(struct conf *c, const char *name);

/* Adds one that is `gone`, of an image whose interpreter was @language's. Return: 0, -ENOENT: there can't be one, -ENOMEM. */
int conf_template_gone(struct conf *c, const char *name, const char *language);

/* Usage text for --help. */
extern const char conf_usage[];

#endif
