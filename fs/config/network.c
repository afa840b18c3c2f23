/* SPDX-License-Identifier: Apache-2.0 */
/* The network part of a session's settings: network, allow, ports. */
#include "network.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/allow.h"
#include "vm/base/util.h"
#include "vm/base/problem.h"

static const char allow_fix[] =
	"Write names with blanks between them, e.g. allow = example.com api.example.com:8443 "
	"*.example.org; a single * is every public host.";
static const char ports_fix[] = "Write ports of the sandbox with blanks between them, or "
				"HOST:SANDBOX to choose the port of "
				"this machine too, e.g. ports = 8080 3000:80.";

/* ---- allow ---- */

/* Is the word there already, in what ends at @end? */
static bool is_listed(const char *list, const char *end, const char *word, size_t len)
{
	for (const char *p = list; p < end;) {
		const char *blank = memchr(p, ' ', (size_t)(end - p));
		const size_t n = (size_t)((blank ? blank : end) - p);

		if (n == len && memcmp(p, word, len) == 0)
			return true;
		p += n + 1;
	}
	return false;
}

#define WORDS_MAX 4096 /* with those that are there twice: each is compared with those before it */

/* Brings a list into the form in which it is kept. Return: 0, -E2BIG, -ENOMEM. */
static int tidy(const char *text, size_t len, char **ret_list)
{
	char *list = calloc(1, len + 1), *end = list;
	size_t at = 0, n, words = 0;

	if (!list)
		return -ENOMEM;
	for (; (n = allow_word(text, len, &at)) > 0; at += n) {
		char *word = end + (end > list);

		if (++words > WORDS_MAX) {
			free(list);
			return -E2BIG;
		}
		/* There is room: each word but the first has a divider before it in @text too. */
		for (size_t i = 0; i < n; i++)
			word[i] = (char)tolower((unsigned char)text[at + i]);
		if (!is_listed(list, end, word, n)) {
			if (end > list)
				*end = ' ';
			end = word + n;
		}
		*end = '\0';
	}
	*ret_list = list;
	return 0;
}

static int refuse_most(struct problem *why, const char *key, const char *entry, const char *most)
{
	char fix[sizeof(why->fix)];

	snprintf(fix, sizeof(fix),
		 "Allowed here is: %.300s (max_allow, set under [limits] in "
		 "xsbxfs.conf).",
		 *most ? most : "nothing");
	return problem_set(why, PROBLEM_NOT_ALLOWED, fix,
			   "%s: the administrator does not allow \"%s\"", key,
			   problem_quote(entry).text);
}

/* This machine, by a name or address that can't mean it, or a port of it that is not opened. */
static int refuse_place(struct problem *why, const char *key, const char *words,
			const struct vm_host_ports *ports)
{
	char fix[sizeof(why->fix)];
	size_t n = (size_t)snprintf(fix, sizeof(fix),
				    "This machine is host.internal:PORT, for ports that the "
				    "administrator opens (host_ports, under [limits] in "
				    "xsbxfs.conf); now:");

	for (unsigned i = 0; i < ports->n && n + 8 < sizeof(fix); i++)
		n += (size_t)snprintf(fix + n, sizeof(fix) - n, " %u", ports->port[i]);
	if (!ports->n)
		snprintf(fix + n, sizeof(fix) - n, " none.");
	return problem_set(why, PROBLEM_NOT_REACHABLE, fix, "%s: %s", key, words);
}

int netset_check_hosts(const char *key, const char *list, const struct settings_limits *limits,
		       struct problem *why)
{
	const size_t len = strlen(list);
	char words[VM_WHY_MAX] = "";
	const int r = limits ? vm_allow_permitted(list, len, limits->max_allow, &limits->host_ports,
						  words)
			     : vm_allow_check(list, len, words);

	for (char *c = words; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?'; /* it may quote what the user wrote */
	if (r == 0 || r == -ENOMEM)
		return r;
	if (limits && r == -EADDRNOTAVAIL)
		return refuse_place(why, key, words, &limits->host_ports);
	if (limits && r == -EPERM)
		return refuse_most(why, key, words, limits->max_allow);
	return problem_set(why, r == -E2BIG ? PROBLEM_TOO_LONG : PROBLEM_INVALID, allow_fix,
			   "%s: %s", key, words);
}

int netset_allow(struct settings *s, const char *text, size_t len,
		 const struct settings_limits *limits, struct problem *why)
{
	char *list;
	int r = tidy(text, len, &list);

	if (r == -E2BIG)
		return problem_set(why, PROBLEM_TOO_LONG, "Write fewer.",
				   "allow: the list has more than %d words", WORDS_MAX);
	if (r < 0)
		return r;
	r = netset_check_hosts("allow", list, limits, why);
	if (r < 0) {
		free(list);
		return r;
	}
	free((char *)s->spec.allow);
	s->spec.allow = list;
	return 0;
}

int netset_check(const struct settings *s, const struct settings_limits *limits,
		 struct problem *why)
{
	if (limits && s->spec.network && limits->deny_network)
		return problem_set(why, PROBLEM_NOT_ALLOWED,
				   "Write network = off, or ask the administrator for "
				   "allow_network = yes.",
				   "network: sandboxes may have none here");
	if (!s->spec.network && *s->spec.allow)
		return problem_set(why, PROBLEM_NETWORK_OFF,
				   "Write network = on as well; or leave allow empty.",
				   "allow: names can only be reached with network = on");
	return netset_check_hosts("allow", s->spec.allow, limits, why);
}

int netset_render_allow(const struct settings *s, struct buf *out)
{
	int r = 0;

	for (const char *p = s->spec.allow; *p && r >= 0;) {
		const size_t n = strcspn(p, " ");

		r = buf_printf(out, "%.*s\n", (int)n, p);
		p += n + (p[n] == ' ');
	}
	return r;
}

/* ---- ports ---- */

/* "80" or "3000:80". Return: 0 or -EINVAL. */
static int read_pair(const char *word, struct sandbox_port *ret_port)
{
	const char *colon = strchr(word, ':'), *guest = colon ? colon + 1 : word;

	if (colon && allow_port(word, (size_t)(colon - word), &ret_port->host) < 0)
		return -EINVAL;
	return allow_port(guest, strlen(guest), &ret_port->guest);
}

#define PORT_FREE_FOR_ALL 1024u /* below are those of the system's services, whoever mounts */

/* Return: 0 or -EINVAL. */
static int add_port(const char *word, struct sandbox_port *ports, size_t n, struct problem *why)
{
	struct sandbox_port p = {0};

	if (read_pair(word, &p) < 0)
		return problem_set(why, PROBLEM_INVALID, ports_fix,
				   "ports: \"%s\" is neither PORT nor HOST:SANDBOX, with "
				   "numbers from 1 to 65535",
				   problem_quote(word).text);
	if (p.host && p.host < PORT_FREE_FOR_ALL)
		return problem_set(why, PROBLEM_INVALID, ports_fix,
				   "ports: %u of this machine is below %u, and those are kept "
				   "for the system's services",
				   p.host, PORT_FREE_FOR_ALL);
	if (n == SANDBOX_PORTS_MAX)
		return problem_set(why, PROBLEM_TOO_MANY, "Forward fewer.",
				   "ports: at most %d can be forwarded", SANDBOX_PORTS_MAX);
	for (size_t i = 0; i < n; i++) {
		if (ports[i].guest == p.guest)
			return problem_set(why, PROBLEM_INVALID, "Name each port once.",
					   "ports: %u of the sandbox is there twice", p.guest);
		if (p.host && ports[i].host == p.host)
			return problem_set(why, PROBLEM_INVALID, "Name each port once.",
					   "ports: %u of this machine is there twice", p.host);
	}
	ports[n] = p;
	return 0;
}

int netset_put_ports(struct settings *s, const struct sandbox_port *ports, size_t n)
{
	struct sandbox_port *copy = calloc(n + 1, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	memcpy(copy, ports, n * sizeof(*copy));
	free((void *)s->spec.ports);
	s->spec.ports = copy;
	s->spec.nports = n;
	return 0;
}

int netset_ports(struct settings *s, const char *value, struct problem *why)
{
	struct sandbox_port ports[SANDBOX_PORTS_MAX] = {0};
	_cleanup_free_ char *copy = strdup(value);
	char *save = NULL;
	size_t n = 0;
	int r = 0;

	if (!copy)
		return -ENOMEM;
	for (const char *word = strtok_r(copy, " \t,", &save); word && r == 0;
	     word = strtok_r(NULL, " \t,", &save)) {
		r = add_port(word, ports, n, why);
		n++;
	}
	return r < 0 ? r : netset_put_ports(s, ports, n);
}

int netset_print_ports(const struct sandbox_spec *spec, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < spec->nports && r == 0; i++) {
		const struct sandbox_port *p = &spec->ports[i];

		r = buf_append(out, " ", i > 0);
		if (r == 0 && p->host)
			r = buf_printf(out, "%u:", p->host);
		if (r == 0)
			r = buf_printf(out, "%u", p->guest);
	}
	return r;
}
