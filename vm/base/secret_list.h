/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that may go with requests: where their values come from, and who may use them. Never the values. */
#ifndef XSBX_VM_BASE_SECRET_LIST_H
#define XSBX_VM_BASE_SECRET_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "vm/base/config.h"

/*
 * In the administrator's configuration, and in a session owner's own file (`secrets_file`), a secret is a section:
 *
 *	[secret github]
 *	from = file /etc/xsbxfs/github.token
 *	hosts = api.github.com *.github.com
 *	users = alice 1001
 *	refresh_s = 300
 *
 * `from` is `file PATH`, `env NAME`, or `command PATH WORDS...`, words without quotes and no shell. `hosts` is an allow list: where
 * it may ever be sent, required, and never *. `users` are names and uids; without them, the one who mounts; an owner's file has none,
 * nor `env`: that is the administrator's.
 */
#define SECRET_LIST_MAX	     256
#define SECRET_FILE_MAX	     65536 /* bytes of an owner's file */
#define SECRET_REFRESH_S     300   /* default of files and commands */
#define SECRET_REFRESH_MAX_S 86400
#define SECRET_ARGUMENT_MAX  4096
#define SECRET_USERS_MAX     64

void secret_list_fini(struct vm_secrets *list);

/**
 * secret_list_add() - The secret called @name, which is added if there is none
 * @list: List
 * @name: Name; need not be terminated
 * @len: Its length
 * @ret_i: Its index
 * @ret_why: Human-readable reason if -EINVAL is returned
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int secret_list_add(struct vm_secrets *list, const char *name, size_t len, size_t *ret_i,
		    char ret_why[static 128]);

/* Sets one of the keys of secret @i. @own: it is an owner's. Return: likewise. */
int secret_list_set(struct vm_secrets *list, size_t i, const char *key, const char *value, bool own,
		    char ret_why[static 128]);

/* Has each what it needs? Return: 0, or -EINVAL with @ret_why. */
int secret_list_check(const struct vm_secrets *list, char ret_why[static 128]);

/**
 * secret_list_parse() - Read an owner's file
 * @text: Its text; need not be terminated
 * @len: Length in bytes
 * @ret_list: Result; release it with secret_list_fini(). Untouched on failure
 * @ret_why: Human-readable reason if -EINVAL is returned, with the line
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int secret_list_parse(const char *text, size_t len, struct vm_secrets *ret_list,
		      char ret_why[static 128]);

/* The secret called @name, or NULL. */
const struct vm_secret *secret_list_find(const struct vm_secrets *list, const char *name);

/* May sessions of @uid use it? @mounter: who mounts. */
bool secret_is_for(const struct vm_secret *secret, uid_t uid, uid_t mounter);

#endif
