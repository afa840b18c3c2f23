/* SPDX-License-Identifier: Apache-2.0 */
/* Checks allow lists: their grammar, and whether an administrator permits them. */
#include "allow_check.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "vm/base/address.h"
#include "vm/base/allow.h"

/*
 * Theory of operation
 * -------------------
 * A list is within another if everything that it opens is opened by the other. That is decided entry
 * by entry, and for an entry without a port of its own, port by port: `example.com` means ports 80 and
 * 443, and is within `example.com:80 example.com:443`.
 *
 * An address that is spelt out is reached even if it is not public, which is more than `*` gives; so
 * `*` covers public addresses only. The host itself, by its name, is no matter of this comparison: there
 * is a list of its ports for it.
 */

int vm_allow_check(const char *text, size_t len, char ret_why[static VM_WHY_MAX])
{
	struct allow list;
	int r = allow_parse(text, len, &list, ret_why);

	if (r == 0)
		allow_fini(&list);
	return r;
}

static bool is_host(const struct allow_entry *e)
{
	return e->kind == ALLOW_NAME && strcmp(e->name, ALLOW_HOST) == 0;
}

/* Does @most open the host or hosts of @e, on some port? */
static bool covers_host(const struct allow_entry *most, const struct allow_entry *e)
{
	switch (most->kind) {
	case ALLOW_ALL: return e->kind != ALLOW_ADDRESS || address_is_public4(e->address);
	case ALLOW_ADDRESS: return e->kind == ALLOW_ADDRESS && e->address == most->address;
	case ALLOW_NAME: return e->kind == ALLOW_NAME && !strcmp(e->name, most->name);
	case ALLOW_BELOW:
		return ((e->kind == ALLOW_NAME || e->kind == ALLOW_BELOW) &&
			allow_is_below(e->name, most->name)) ||
		       (e->kind == ALLOW_BELOW && !strcmp(e->name, most->name));
	}
	return false;
}

/* @port 0: all there are. */
static bool covers_port(const struct allow_entry *most, uint16_t port)
{
	if (most->port)
		return most->port == port;
	return most->kind == ALLOW_ALL || port == 80 || port == 443;
}

static bool is_covered(const struct allow *most, const struct allow_entry *e, uint16_t port)
{
	for (size_t i = 0; i < most->nentries; i++)
		if (covers_host(&most->entries[i], e) && covers_port(&most->entries[i], port))
			return true;
	return false;
}

static bool entry_is_within(const struct allow *most, const struct allow_entry *e)
{
	if (e->port || e->kind == ALLOW_ALL)
		return is_covered(most, e, e->port);
	return is_covered(most, e, 80) && is_covered(most, e, 443);
}

static void name_entry(const struct allow_entry *e, char ret_why[static VM_WHY_MAX])
{
	const char *star = e->kind == ALLOW_ALL ? "*" : e->kind == ALLOW_BELOW ? "*." : "";
	char port[8] = "";

	if (e->port)
		snprintf(port, sizeof(port), ":%u", e->port);
	snprintf(ret_why, VM_WHY_MAX, "%s%.80s%s", star, e->name, port);
}

/* Does @most spell out this entry's address? Then it is the administrator's wish. */
static bool is_spelt_out(const struct allow *most, const struct allow_entry *e)
{
	for (size_t i = 0; i < most->nentries; i++)
		if (most->entries[i].kind == e->kind && !strcmp(most->entries[i].name, e->name))
			return true;
	return false;
}

/* Return: why the entry can't work, or NULL. */
static const char *find_fault(const struct allow_entry *e)
{
	const uint32_t top = e->kind == ALLOW_ADDRESS ? ntohl(e->address) >> 24 : 0;

	if (e->kind == ALLOW_ADDRESS && (top == 0 || top == 127))
		return "inside a sandbox that is the sandbox itself";
	if ((e->kind == ALLOW_NAME || e->kind == ALLOW_BELOW) &&
	    (!strcmp(e->name, "localhost") || allow_is_below(e->name, "localhost")))
		return "inside a sandbox that is the sandbox itself";
	if (e->kind == ALLOW_ADDRESS && top >= 224)
		return "that is no host's address";
	return NULL;
}

bool vm_host_port_is_open(const struct vm_host_ports *ports, uint16_t port)
{
	for (unsigned i = 0; i < ports->n; i++)
		if (ports->port[i] == port)
			return true;
	return false;
}

/* One of the ports that an entry for this machine asks for is open. */
static bool host_is_open(const struct allow_entry *e, const struct vm_host_ports *ports)
{
	return e->port ? vm_host_port_is_open(ports, e->port)
		       : vm_host_port_is_open(ports, 80) || vm_host_port_is_open(ports, 443);
}

/* Return: 0, or -EADDRNOTAVAIL with @ret_why. */
static int check_works(const struct allow_entry *e, const struct allow *most,
		       const struct vm_host_ports *ports, char ret_why[static VM_WHY_MAX])
{
	const char *fault = NULL;
	char entry[VM_WHY_MAX];

	if (is_host(e) && !host_is_open(e, ports))
		fault = ports->n ? "the administrator does not open that port of this machine"
				 : "the administrator opens no ports of this machine";
	else if (!is_spelt_out(most, e))
		fault = find_fault(e);
	if (!fault)
		return 0;
	name_entry(e, entry);
	snprintf(ret_why, VM_WHY_MAX, "%.48s: %s", entry, fault);
	return -EADDRNOTAVAIL;
}

int vm_allow_permitted(const char *text, size_t len, const char *most,
		       const struct vm_host_ports *ports, char ret_why[static VM_WHY_MAX])
{
	struct allow list, all = {0};
	int r = allow_parse(text, len, &list, ret_why);

	if (r < 0)
		return r;
	if (most)
		r = allow_parse(most, strlen(most), &all, ret_why);
	for (size_t i = 0; i < list.nentries && r == 0; i++)
		r = check_works(&list.entries[i], &all, ports, ret_why);
	for (size_t i = 0; i < list.nentries && most && r == 0; i++) {
		if (is_host(&list.entries[i]) || entry_is_within(&all, &list.entries[i]))
			continue;
		name_entry(&list.entries[i], ret_why);
		r = -EPERM;
	}
	allow_fini(&list);
	allow_fini(&all);
	return r;
}
