/* SPDX-License-Identifier: Apache-2.0 */
/* xsbxfs-store: fetches and offers snapshots, layers and images; writes and reads bundles. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "confine.h"
#include "manifest.h"
#include "store.h"
#include "vm/base/secret.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A program of its own, because it does what the daemon gave up the right to: it opens connections, and
 * parses what arrives on them. One call does one operation and exits. Standard output is for progress;
 * the last line on standard error says what went wrong, and the exit status of which kind that is
 * (kind.h).
 *
 * Credentials and the secret are passed in the environment, wiped from it at once, and never printed.
 * The program confines itself (confine.c) before it reads the first byte from outside.
 */

#define USAGE                                                                                    \
	"usage: xsbxfs-store [options] get KIND KEY DIR\n"                                       \
	"       xsbxfs-store [options] put KIND KEY DIR\n"                                       \
	"       xsbxfs-store [options] export FILE CACHE [KIND:KEY | NAME=KEY]...\n"             \
	"       xsbxfs-store [options] import FILE CACHE\n"                                      \
	"Options: --url URL, --region NAME, --timeout S, --stall S, --limit BYTES, --tsc KHZ,\n" \
	"         --chunk KIB, --anew, --shared DIR, --version, --help.\n"                       \
	"KIND: snapshot, layer, image.\n"                                                        \
	"Credentials: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION.\n"

#define TIMEOUT_S 300u
#define STALL_S	  5u

static int __attribute__((noreturn)) usage(void)
{
	fputs(USAGE, stderr);
	exit(STORE_USAGE);
}

static uint64_t number(const char *text, uint64_t max)
{
	char *end;
	const unsigned long long n = strtoull(text, &end, 10);

	if (*end || end == text || *text == '-' || n > max)
		usage();
	return n;
}

static const char *without_slash(char *url)
{
	for (size_t len = strlen(url); len && url[len - 1] == '/';)
		url[--len] = '\0';
	return url;
}

static void parse_options(int argc, char **argv, struct store *st)
{
	static const struct option longs[] = {
		{"url", required_argument, NULL, 'u'},	   {"region", required_argument, NULL, 'r'},
		{"timeout", required_argument, NULL, 't'}, {"stall", required_argument, NULL, 's'},
		{"limit", required_argument, NULL, 'l'},   {"shared", required_argument, NULL, 'S'},
		{"tsc", required_argument, NULL, 'T'},	   {"chunk", required_argument, NULL, 'c'},
		{"anew", no_argument, NULL, 'a'},	   {"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},	   {0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "+hV", longs, NULL)) != -1) {
		switch (c) {
		case 'u': st->s3.url = without_slash(optarg); break;
		case 'r': st->s3.region = optarg; break;
		case 't': st->s3.timeout_s = (unsigned)number(optarg, 86400); break;
		case 's': st->s3.stall_s = (unsigned)number(optarg, 3600); break;
		case 'l': st->limit = number(optarg, UINT64_MAX); break;
		case 'S': st->shared = optarg; break;
		case 'T': st->tsc_khz = number(optarg, UINT32_MAX); break;
		case 'c': st->chunk_bytes = (uint32_t)number(optarg, CHUNK_MAX >> 10) << 10; break;
		case 'a': st->anew = true; break;
		case 'h': fputs(USAGE, stdout); exit(0);
		case 'V': puts("xsbxfs-store " XSBX_VERSION); exit(0);
		default: usage();
		}
	}
	if (st->chunk_bytes < CHUNK_MIN || !st->s3.timeout_s || !st->s3.stall_s)
		usage();
}

static void take_credentials(struct store *st)
{
	char *region = secret_take("AWS_REGION"), *fallback = secret_take("AWS_DEFAULT_REGION");

	st->s3.id = secret_take("AWS_ACCESS_KEY_ID");
	st->s3.secret = secret_take("AWS_SECRET_ACCESS_KEY");
	st->s3.token = secret_take("AWS_SESSION_TOKEN");
	st->secret = secret_take(STORE_SECRET);
	st->s3.ca_file = getenv("SSL_CERT_FILE");
	if (!st->s3.region)
		st->s3.region = region ? region : fallback ? fallback : "us-east-1";
	if (strspn(st->s3.region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(st->s3.region))
		st->s3.region = "us-east-1";
}

/* ---- transfers ---- */

static enum store_end transfer(struct store *st, char **argv, bool get)
{
	const enum store_kind kind = store_kind_of(argv[1]);
	const char *key = argv[2], *dir = argv[3], *why;
	struct store_confinement c = {.network = true, .ca_file = st->s3.ca_file};

	if (kind == STORE_NKINDS || !store_key_valid(key) || !st->s3.url)
		usage();
	if (!s3_url_valid(st->s3.url, st->secret, &why))
		return store_fail(st, STORE_FAILED, "the address of the store: %s", why);
	if (get && mkdir(dir, 0700) < 0 && errno != EEXIST)
		return store_fail(st, STORE_FAILED, "%s: %s", dir, strerror(errno));
	*(get ? &c.writable : &c.readable) = dir;
	if (store_confine(&c) < 0)
		return store_fail(st, STORE_FAILED, "can't confine itself: %s", c.why);
	return get ? store_get(st, kind, key, dir) : store_put(st, kind, key, dir);
}

/* ---- bundles ---- */

static struct store_item parse_item(char *text)
{
	const size_t len = strcspn(text, ":=");
	const bool named = text[len] == '=';
	struct store_item item = {STORE_IMAGE, .key = text + len + 1, .name = named ? text : NULL};

	if (!text[len])
		usage();
	text[len] = '\0';
	if (!named)
		item.kind = store_kind_of(text);
	if (item.kind == STORE_NKINDS || !store_key_valid(item.key) ||
	    (named && !store_key_valid(text)))
		usage();
	return item;
}

/* Reads nothing but what is ours, so it is not confined. */
static enum store_end write_bundle(struct store *st, int argc, char **argv)
{
	struct store_item *items = calloc((size_t)argc, sizeof(*items));
	const char *file = argv[1], *cache = argv[2];
	_cleanup_close_ int fd = -1;
	char part[PATH_MAX];
	enum store_end end;

	for (int i = 3; items && i < argc; i++)
		items[i - 3] = parse_item(argv[i]);
	snprintf(part, sizeof(part), "%s.part", file);
	fd = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (!items || fd < 0)
		return store_fail(st, STORE_FAILED, "%s: %s", part, strerror(errno));
	end = store_export(st, cache, fd, items, (size_t)argc - 3);
	free(items);
	if (end == STORE_DONE && rename(part, file) < 0)
		end = store_fail(st, STORE_FAILED, "%s: %s", file, strerror(errno));
	if (end != STORE_DONE)
		unlink(part);
	return end;
}

static enum store_end read_bundle(struct store *st, char **argv)
{
	const char *file = argv[1], *cache = argv[2];
	struct store_confinement c = {.writable = cache};
	_cleanup_close_ int fd = -1;

	fd = strcmp(file, "-") == 0 ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return store_fail(st, STORE_FAILED, "%s: %s", file, strerror(errno));
	if (mkdir(cache, 0755) < 0 && errno != EEXIST)
		return store_fail(st, STORE_FAILED, "%s: %s", cache, strerror(errno));
	if (store_confine(&c) < 0)
		return store_fail(st, STORE_FAILED, "can't confine itself: %s", c.why);
	return store_import(st, cache, fd);
}

int main(int argc, char **argv)
{
	static struct store st = {
		.s3 = {.timeout_s = TIMEOUT_S, .stall_s = STALL_S},
		.chunk_bytes = CHUNK_BYTES,
	};
	enum store_end end;
	const char *verb;

	parse_options(argc, argv, &st);
	take_credentials(&st);
	signal(SIGPIPE, SIG_IGN);
	argc -= optind;
	argv += optind;
	verb = argc ? argv[0] : "";
	if ((strcmp(verb, "get") == 0 || strcmp(verb, "put") == 0) && argc == 4)
		end = transfer(&st, argv, *verb == 'g');
	else if (strcmp(verb, "export") == 0 && argc >= 4)
		end = write_bundle(&st, argc, argv);
	else if (strcmp(verb, "import") == 0 && argc == 3)
		end = read_bundle(&st, argv);
	else
		usage();
	if (end != STORE_DONE)
		fprintf(stderr, "xsbxfs-store: %s\n", st.why);
	return (int)end;
}
