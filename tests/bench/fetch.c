/* SPDX-License-Identifier: Apache-2.0 */
/* Times requests over HTTPS for the benchmark: prints a line for each. */
#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * usage: fetch kept|fresh|many:P HTTP CA PROXY|- N (URL ADDRESS)...
 *
 * N requests for each URL, whose host is at ADDRESS, with HTTP/2 if HTTP is `2` and the other end has it; certificates
 * are judged by those of the file CA, and a PROXY is told to connect to ADDRESS.
 *
 *	kept	all over one connection, which is there before the clock starts
 *	fresh	each over one of its own, with a full handshake
 *	many:P	P at a time, over P connections, or over one with HTTP/2, which are there before the clock starts
 *
 * The clock runs from before the request until the last byte of the answer is there; with `fresh` from before the
 * connection. Prints `time NANOSECONDS` or `time fail` for each; with `many` one for all; and `http 1` or `http 2`.
 */

struct plan {
	bool fresh, h2;
	long parallel;
	const char *ca, *proxy;
	long n;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t ignore(char *bytes, size_t size, size_t n, void *data)
{
	(void)bytes;
	(void)data;
	return size * n;
}

static CURL *prepare(const struct plan *p, const char *url, struct curl_slist *where)
{
	CURL *easy = curl_easy_init();

	if (!easy)
		exit(2);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_CONNECT_TO, where);
	curl_easy_setopt(easy, CURLOPT_CAINFO, p->ca);
	curl_easy_setopt(easy, CURLOPT_PROXY, p->proxy);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
			 p->h2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, p->fresh ? 1L : 0L);
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, p->fresh ? 1L : 0L);
	curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, 60L);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 262144L);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
	return easy;
}

/* Has it had its answer? Libcurl itself fails if that is not whole. Why the first has not is said to people. */
static bool is_good(CURL *easy, CURLcode r)
{
	static bool said;
	long status = 0;

	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	if (r == CURLE_OK && status == 200)
		return true;
	if (!said)
		fprintf(stderr, "fetch: status %ld, %s\n", status, curl_easy_strerror(r));
	said = true;
	return false;
}

static void print_http(CURL *easy)
{
	long version = 0;

	curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &version);
	printf("http %d\n", version == CURL_HTTP_VERSION_2_0 ? 2 : 1);
}

static void report(uint64_t began, bool good)
{
	const uint64_t took = now() - began;

	if (good)
		printf("time %llu\n", (unsigned long long)took);
	else
		puts("time fail");
}

static void one_by_one(const struct plan *p, CURL *easy)
{
	if (!p->fresh)
		(void)is_good(easy, curl_easy_perform(easy));
	for (long i = 0; i < p->n; i++) {
		const uint64_t began = now();
		const CURLcode r = curl_easy_perform(easy);

		report(began, is_good(easy, r));
	}
	print_http(easy);
}

/* Has @n answers come, with @parallel requests under way as long as there are as many to make? Return: are all good? */
static bool all(CURLM *multi, CURL **easy, long parallel, long n)
{
	long begun = 0, done = 0;
	bool good = true;
	int running, left;
	CURLMsg *m;

	for (; begun < parallel && begun < n; begun++)
		curl_multi_add_handle(multi, easy[begun]);
	while (done < n) {
		if (curl_multi_perform(multi, &running) != CURLM_OK)
			return false;
		while ((m = curl_multi_info_read(multi, &left))) {
			CURL *one = m->easy_handle;

			good = is_good(one, m->data.result) && good;
			done++;
			curl_multi_remove_handle(multi, one);
			if (begun < n && ++begun)
				curl_multi_add_handle(multi, one);
		}
		if (done < n && curl_multi_poll(multi, NULL, 0, 1000, NULL) != CURLM_OK)
			return false;
	}
	return good;
}

static void side_by_side(const struct plan *p, const char *url, struct curl_slist *where)
{
	CURL **easy = calloc((size_t)p->parallel, sizeof(*easy));
	CURLM *multi = curl_multi_init();
	uint64_t began;

	if (!easy || !multi)
		exit(2);
	for (long i = 0; i < p->parallel; i++)
		easy[i] = prepare(p, url, where);
	curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, p->parallel);
	(void)all(multi, easy, p->parallel, p->parallel);
	began = now();
	report(began, all(multi, easy, p->parallel, p->n));
	print_http(easy[0]);
	for (long i = 0; i < p->parallel; i++)
		curl_easy_cleanup(easy[i]);
	curl_multi_cleanup(multi);
	free(easy);
}

static void fetch(const struct plan *p, const char *url, const char *address)
{
	struct curl_slist *where;
	char text[64];
	CURL *easy;

	snprintf(text, sizeof(text), "::%s:", address);
	where = curl_slist_append(NULL, text);
	if (p->parallel) {
		side_by_side(p, url, where);
	} else {
		easy = prepare(p, url, where);
		one_by_one(p, easy);
		curl_easy_cleanup(easy);
	}
	curl_slist_free_all(where);
}

int main(int argc, char **argv)
{
	struct plan p;

	if (argc < 8 || argc % 2)
		return 2;
	curl_global_init(CURL_GLOBAL_ALL);
	p = (struct plan){
		.fresh = !strcmp(argv[1], "fresh"),
		.parallel = !strncmp(argv[1], "many:", 5) ? strtol(argv[1] + 5, NULL, 10) : 0,
		.h2 = *argv[2] == '2',
		.ca = argv[3],
		.proxy = strcmp(argv[4], "-") ? argv[4] : "",
		.n = strtol(argv[5], NULL, 10),
	};
	for (int i = 6; i + 1 < argc; i += 2)
		fetch(&p, argv[i], argv[i + 1]);
	curl_global_cleanup();
	return 0;
}
