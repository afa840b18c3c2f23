/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a collector. See sender.h. */
#include "sender.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS 3000L
#define REQUEST_MS 10000L
#define ANSWER_MAX (1u << 20) /* bytes of an answer, of which nothing is read */
#define TRACES	   "/v1/traces"

static size_t on_body(char *data, size_t size, size_t n, void *sender)
{
	struct sender *s = sender;

	(void)data;
	s->received += size * n;
	return s->received > ANSWER_MAX ? 0 : size * n;
}

static void add_header(struct sender *s, const char *text)
{
	struct curl_slist *more = curl_slist_append(s->headers, text);

	s->headers = more ? more : s->headers;
}

bool sender_init(struct sender *s, const char *url)
{
	const char *host = strstr(url, "://"), *path = host ? strchr(host + 3, '/') : NULL;
	size_t len = strlen(url);
	int n;

	*s = (struct sender){.easy = NULL};
	while (len && url[len - 1] == '/')
		len--;
	/* An address that ends with the usual path is that of traces. */
	n = snprintf(s->url, sizeof(s->url), "%.*s%s", (int)len, url,
		     path && len > strlen(TRACES) &&
				     strncmp(url + len - strlen(TRACES), TRACES, strlen(TRACES)) ==
					     0
			     ? ""
			     : TRACES);
	if (!host || n < 0 || (size_t)n >= sizeof(s->url) ||
	    (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0))
		return false;
	s->multi = curl_global_init(CURL_GLOBAL_DEFAULT) == 0 ? curl_multi_init() : NULL;
	add_header(s, "Content-Type: application/json");
	add_header(s, "Expect:");
	return s->multi && s->headers;
}

static void end(struct sender *s)
{
	if (s->easy) {
		curl_multi_remove_handle(s->multi, s->easy);
		curl_easy_cleanup(s->easy);
	}
	s->easy = NULL;
	buf_clear(&s->body);
}

void sender_fini(struct sender *s)
{
	end(s);
	curl_slist_free_all(s->headers);
	curl_multi_cleanup(s->multi);
	curl_global_cleanup();
}

bool sender_begin(struct sender *s)
{
	const char *ca = getenv("SSL_CERT_FILE");
	CURL *easy = s->easy = curl_easy_init();

	if (!easy || s->body.failed) {
		end(s);
		return false;
	}
	s->received = 0;
	*s->why = '\0';
	curl_easy_setopt(easy, CURLOPT_URL, s->url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, s->why);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "xsbxfs-trace/" XSBX_VERSION);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, REQUEST_MS);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, s->headers);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, s->body.data);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body.len);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, s);
	if (ca)
		curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
	if (curl_multi_add_handle(s->multi, easy) == CURLM_OK)
		return true;
	end(s);
	return false;
}

/* What OTLP says of statuses: these may be tried again, and what could not be said at all. */
static enum sender_end judge(struct sender *s, CURLcode code)
{
	long status = 0;

	curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK && !*s->why)
		snprintf(s->why, sizeof(s->why), "%s", curl_easy_strerror(code));
	if (code != CURLE_OK)
		return SENDER_LATER;
	if (status >= 200 && status < 300)
		return SENDER_DONE;
	snprintf(s->why, sizeof(s->why), "it answers with status %ld", status);
	return status == 429 || status == 502 || status == 503 || status == 504 ? SENDER_LATER
										: SENDER_REFUSED;
}

enum sender_end sender_wait(struct sender *s, int fd, int ms)
{
	struct curl_waitfd in = {.fd = fd, .events = CURL_WAIT_POLLIN};
	enum sender_end how = SENDER_BUSY;
	const CURLMsg *msg;
	int running, left;

	curl_multi_poll(s->multi, &in, fd >= 0, ms, NULL);
	curl_multi_perform(s->multi, &running);
	while ((msg = curl_multi_info_read(s->multi, &left)))
		if (msg->msg == CURLMSG_DONE)
			how = judge(s, msg->data.result);
	if (how != SENDER_BUSY)
		end(s);
	return how;
}
