/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: its list, its ports. */
#include <errno.h>
#include <stdio.h>

#include "util.h"
#include "vm.h"

int sandbox_allow(struct sandbox *s, const char *text, size_t len, char ret_why[static VM_WHY_MAX])
{
	int r = vm_allow_check(text, len, ret_why);

	(void)s;
	if (r < 0)
		return r;
	snprintf(ret_why, VM_WHY_MAX, "the sandbox has no network");
	return -EOPNOTSUPP;
}

void sandbox_ports(const struct sandbox *s, void (*fn)(void *data, const struct sandbox_port *port),
		   void *data)
{
	(void)s;
	(void)fn;
	(void)data;
}

int sandbox_forward(struct sandbox *s, uint16_t guest, uint16_t host, sandbox_forward_fn fn,
		    void *data, char ret_why[static VM_WHY_MAX])
{
	(void)s;
	(void)guest;
	(void)host;
	(void)fn;
	(void)data;
	snprintf(ret_why, VM_WHY_MAX, "the sandbox has no network");
	return -EOPNOTSUPP;
}

int sandbox_unforward(struct sandbox *s, uint16_t guest)
{
	(void)s;
	(void)guest;
	return -ENOENT;
}
