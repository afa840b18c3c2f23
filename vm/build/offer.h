/* SPDX-License-Identifier: Apache-2.0 */
/* Queries which versions of packages exist. Part of vm.h. */
#ifndef XSBX_VM_BUILD_OFFER_H
#define XSBX_VM_BUILD_OFFER_H

#include <stdbool.h>
#include <sys/types.h>

#include "vm/base/spec.h"

/* The sandbox that packages would be used in. */
struct vm_offer_for {
	enum vm_backend backend;
	bool image_view; /* as in struct sandbox_spec */
	const char *image, *language;
	uid_t owner; /* the requesting user */
};

/* The answer: @words are the packages with versions, as reported by the registry and not checked here; or
 * NULL, with the reason in @why. */
typedef void (*vm_offer_fn)(void *data, const char *words, const char *why);

#endif
