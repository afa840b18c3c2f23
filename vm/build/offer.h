/* SPDX-License-Identifier: Apache-2.0 */
/* Asking which versions of packages there are. Part of vm.h. */
#ifndef XSBX_VM_BUILD_OFFER_H
#define XSBX_VM_BUILD_OFFER_H

#include <stdbool.h>
#include <sys/types.h>

#include "vm/base/spec.h"

/* Where packages would be used. */
struct vm_offer_for {
	enum vm_backend backend;
	bool image_view; /* as in struct sandbox_spec */
	const char *image, *language;
	uid_t owner; /* who asks */
};

/* The answer: @words are the packages with versions, as the registry knows them and not checked here, or
 * NULL, and then @why says in words why there are none. */
typedef void (*vm_offer_fn)(void *data, const char *words, const char *why);

#endif
