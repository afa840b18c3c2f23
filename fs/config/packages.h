/* SPDX-License-Identifier: Apache-2.0 */
/* The packages that a session requests: parsed, checked against lists of names, and made canonical. */
#ifndef XSBX_FS_CONFIG_PACKAGES_H
#define XSBX_FS_CONFIG_PACKAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct problem;

#define PACKAGES_MAX	  64   /* per sandbox */
#define PACKAGES_WORD_MAX 300  /* bytes of one package with its version */
#define PACKAGES_TEXT_MAX 4096 /* bytes of all */

/* Permitted names, sorted. */
struct packages_list {
	bool any;	   /* all of them */
	char *text;	   /* the file */
	char **name;	   /* point into `text` */
	uint64_t *letters; /* for each name: the letters in it, as bits */
	size_t n;
};

enum packages_kind { PACKAGES_PYTHON, PACKAGES_NPM, PACKAGES_NKINDS };

/* What the administrator permits. */
struct packages_rules {
	struct packages_list list[PACKAGES_NKINDS];
};

/**
 * packages_load() - Read a list of names, one per line
 * @l: Filled in; release with packages_clear() even on failure
 * @kind: Kind of packages
 * @path: File; lines starting with # are comments
 *
 * Return: 0, -EFBIG, -ENOMEM, or -errno.
 */
int packages_load(struct packages_list *l, enum packages_kind kind, const char *path);
void packages_clear(struct packages_list *l);

/**
 * packages_settle() - Check packages, and write them in the one way that means the same
 * @words: Text of a user's; replaced by names as the registry writes them, sorted, each once
 * @language: Of the sandbox: python, javascript, raw
 * @rules: What is allowed
 * @open: Versions may be missing, which a registry can fill in
 * @ret_why: Filled in if it fails
 *
 * Return: 0, -EINVAL, -ENOMEM; on failure @words is as it was.
 */
int packages_settle(char **words, const char *language, const struct packages_rules *rules,
		    bool open, struct problem *ret_why);

#endif
