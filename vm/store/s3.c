/* SPDX-License-Identifier: Apache-2.0 */
/* A client for S3-compatible buckets, using libcurl. */
#include "s3.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "vm/base/ms.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * One curl multi handle does all transfers; connections are kept and shared. Addresses have the form
 * URL/OBJECT, the bucket being part of the path, and consist of characters that need no escaping. So
 * what is signed is what is sent.
 *
 * Transient errors are retried after a pause: no connection, one that was closed early, a server that
 * answers 5xx or 429. Others are final. Redirects are not followed: the signature would not match, and no
 * other server is trusted.
 *
 * There are three time limits: to connect, between two bytes, and for the whole transfer. Credentials
 * exist only in libcurl's memory and the environment, and appear in no message.
 */

#define CONNECT_MS    2000L
#define STALL_BYTES   1L /* a second */
#define RETRY_MS      300u
#define WAIT_MS	      200
#define HTTP_OK_LAST  299
#define EMPTY_SHA256  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define HEADER_BYTES  4096
#define REFUSED_BYTES 512u /* of an error's body: enough to know the reason */

struct s3 {
	const struct s3_config *cfg;
	CURLM *multi;
	TAILQ_HEAD(, s3_request) requests;
	uint64_t deadline;
	char why[S3_WHY_MAX];
};

static const char *const verb_str[] = {
	[S3_GET] = "GET",
	[S3_HEAD] = "HEAD",
	[S3_PUT] = "PUT",
};
static_assert(ARRAY_SIZE(verb_str) == S3_NVERBS, "a name for each verb");

uint64_t s3_now_ms(void)
{
	return (uint64_t)ms_now(CLOCK_MONOTONIC);
}

/* ---- addresses ---- */

static bool is_loopback(const char *host, size_t len)
{
	static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strlen(names[i]) == len && strncmp(host, names[i], len) == 0)
			return true;
	}
	return false;
}

bool s3_url_valid(const char *url, bool authenticated, const char **ret_why)
{
	const bool plain = strncmp(url, "http://", 7) == 0;
	const char *host = url + (plain ? 7 : 8);
	size_t len;

	*ret_why = "it must begin with https:// (or http://)";
	if (!plain && strncmp(url, "https://", 8) != 0)
		return false;
	*ret_why =
		"it must be host/bucket, maybe a prefix, and of letters, digits and . _ - ~ only; "
		"no user, no question mark";
	if (strspn(url, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~:/[]-") !=
		    strlen(url) ||
	    strstr(host, "//") || strstr(host, "/.") || strlen(url) > 1024)
		return false;
	len = strcspn(host, "/");
	if (!len || !host[len] || !host[len + 1] ||
	    strcspn(host + len, ":[]") != strlen(host + len))
		return false;
	*ret_why = "without TLS anybody on the way could put something else in; use https://, a "
		   "server "
		   "on this machine, or a secret that authenticates (XSBXFS_STORE_SECRET)";
	if (host[0] == '[')
		len = strcspn(host, "]") + 1;
	else
		len = strcspn(host, ":/");
	return !plain || authenticated || is_loopback(host, len);
}

/* ---- requests ---- */

struct s3 *s3_new(const struct s3_config *cfg)
{
	struct s3 *s3 = calloc(1, sizeof(*s3));

	if (!s3)
		return NULL;
	s3->cfg = cfg;
	TAILQ_INIT(&s3->requests);
	s3->deadline = s3_now_ms() + cfg->timeout_s * 1000ull;
	s3->multi = curl_global_init(CURL_GLOBAL_DEFAULT) == 0 ? curl_multi_init() : NULL;
	if (!s3->multi) {
		free(s3);
		return NULL;
	}
	return s3;
}

static void release(struct s3 *s3, struct s3_request *req)
{
	if (req->easy) {
		curl_multi_remove_handle(s3->multi, req->easy);
		curl_easy_cleanup(req->easy);
	}
	curl_slist_free_all(req->headers);
	req->easy = req->headers = NULL;
}

static void end(struct s3 *s3, struct s3_request *req, int result)
{
	TAILQ_REMOVE(&s3->requests, req, link);
	release(s3, req);
	req->state = S3_DONE;
	req->result = result;
}

void s3_free(struct s3 *s3)
{
	struct s3_request *req;

	if (!s3)
		return;
	TAILQ_FOREACH(req, &s3->requests, link)
		release(s3, req);
	curl_multi_cleanup(s3->multi);
	curl_global_cleanup();
	free(s3);
}

const char *s3_why(const struct s3 *s3)
{
	return s3->why;
}

void s3_submit(struct s3 *s3, struct s3_request *req)
{
	req->easy = req->headers = NULL;
	req->retry_at = 0;
	req->state = S3_BUSY;
	TAILQ_INSERT_TAIL(&s3->requests, req, link);
}

static size_t on_body(char *bytes, size_t size, size_t n, void *data)
{
	struct s3_request *req = data;
	long status = 0;

	curl_easy_getinfo(req->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status > HTTP_OK_LAST || req->verb != S3_GET) {
		/* An error's explanation is not what was asked for; a little of it is let pass. */
		req->refused += size * n;
		return req->refused > REFUSED_BYTES * 64 ? 0 : size * n;
	}
	if (buf_append(&req->body, bytes, size * n) == 0)
		return size * n;
	req->overflow = true;
	return 0;
}

static bool printf_like(2, 3) add_header(struct s3_request *req, const char *fmt, ...)
{
	char text[HEADER_BYTES];
	struct curl_slist *more;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text))
		return false;
	more = curl_slist_append(req->headers, text);
	if (more)
		req->headers = more;
	return more;
}

static bool sign(struct s3 *s3, struct s3_request *req)
{
	const struct s3_config *cfg = s3->cfg;
	char provider[128];

	if (!cfg->id || !cfg->secret)
		return true;
	snprintf(provider, sizeof(provider), "aws:amz:%.64s:s3", cfg->region);
	curl_easy_setopt(req->easy, CURLOPT_AWS_SIGV4, provider);
	curl_easy_setopt(req->easy, CURLOPT_USERNAME, cfg->id);
	curl_easy_setopt(req->easy, CURLOPT_PASSWORD, cfg->secret);
	return add_header(req, "x-amz-content-sha256: %s",
			  req->verb == S3_PUT ? req->sha256 : EMPTY_SHA256) &&
	       (!cfg->token || add_header(req, "x-amz-security-token: %s", cfg->token));
}

static bool set_up(struct s3 *s3, struct s3_request *req)
{
	CURL *easy = req->easy = curl_easy_init();
	char url[1024 + S3_OBJECT_MAX + 2];
	const uint64_t now = s3_now_ms();
	const uint64_t left = s3->deadline > now ? s3->deadline - now : 1;

	if (!easy)
		return false;
	snprintf(url, sizeof(url), "%.1024s/%s", s3->cfg->url, req->object);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, req);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, req->error);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "xsbxfs-store");
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)s3->cfg->stall_s);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS,
			 (long)(req->timeout_ms ? MIN(req->timeout_ms, left) : left));
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, req);
	if (s3->cfg->ca_file)
		curl_easy_setopt(easy, CURLOPT_CAINFO, s3->cfg->ca_file);
	if (req->verb == S3_HEAD)
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	if (req->verb == S3_PUT) {
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, verb_str[S3_PUT]);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, req->data);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)req->len);
		/* Without that header would be better, but libcurl signs what it then leaves out. */
		curl_easy_setopt(easy, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
		if (!add_header(req, "Content-Type: application/octet-stream"))
			return false;
	}
	if (!sign(s3, req))
		return false;
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, req->headers);
	return true;
}

static void begin(struct s3 *s3, struct s3_request *req)
{
	req->refused = 0;
	req->bytes = 0;
	req->overflow = false;
	req->error[0] = '\0';
	req->body.len = 0;
	if (!set_up(s3, req) || curl_multi_add_handle(s3->multi, req->easy) != CURLM_OK)
		end(s3, req, -ENOMEM);
}

/* ---- results ---- */

static void printf_like(3, 4)
	explain(struct s3 *s3, const struct s3_request *req, const char *fmt, ...)
{
	char text[S3_WHY_MAX / 2];
	va_list ap;

	if (s3->why[0])
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(s3->why, sizeof(s3->why), "%s %.100s: %s", verb_str[req->verb], req->object, text);
}

/* Return: result, or -EAGAIN if it may get better. */
static int judge(struct s3 *s3, struct s3_request *req, CURLcode code)
{
	curl_off_t length = 0;
	long status = 0;

	curl_easy_getinfo(req->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(req->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	req->bytes = length > 0 ? (uint64_t)length : 0;
	if (req->overflow) {
		explain(s3, req, "more than the %zu bytes it should have", req->body.limit);
		return -EBADMSG;
	}
	if (code != CURLE_OK && status <= HTTP_OK_LAST) {
		explain(s3, req, "%.150s", req->error[0] ? req->error : curl_easy_strerror(code));
		return -EAGAIN;
	}
	if (status >= 200 && status <= HTTP_OK_LAST)
		return 0;
	if (status == 404)
		return -ENOENT;
	explain(s3, req, "the store answers with %ld%s", status,
		status == 403 || status == 401 ? ": it does not accept the credentials" : "");
	if (status == 401 || status == 403)
		return -EACCES;
	return status >= 500 || status == 429 ? -EAGAIN : -EHOSTUNREACH;
}

static void over(struct s3 *s3, struct s3_request *req, CURLcode code)
{
	int r = judge(s3, req, code);

	if (r == -EAGAIN && --req->tries && s3_now_ms() < s3->deadline) {
		release(s3, req);
		req->retry_at = s3_now_ms() + RETRY_MS;
		s3->why[0] = '\0';
		return;
	}
	end(s3, req, r == -EAGAIN ? -EHOSTUNREACH : r);
}

void s3_step(struct s3 *s3)
{
	struct s3_request *req, *next;
	int running, left;
	bool news = false;
	CURLMsg *msg;

	for (req = TAILQ_FIRST(&s3->requests); req; req = next) {
		next = TAILQ_NEXT(req, link);
		if (!req->easy && req->retry_at <= s3_now_ms())
			begin(s3, req);
	}
	curl_multi_perform(s3->multi, &running);
	while ((msg = curl_multi_info_read(s3->multi, &left))) {
		void *of = NULL;
		const CURLcode code = msg->data.result;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &of);
		over(s3, of, code);
		news = true;
	}
	if (!news && !TAILQ_EMPTY(&s3->requests))
		curl_multi_poll(s3->multi, NULL, 0, WAIT_MS, NULL);
}

int s3_do(struct s3 *s3, struct s3_request *req)
{
	s3_submit(s3, req);
	while (req->state == S3_BUSY)
		s3_step(s3);
	return req->result;
}
