/* SPDX-License-Identifier: Apache-2.0 */
/* What status.html is made of. See page.h. */
#include "page.h"

#include <inttypes.h>

#include "fs/request/clock.h"
#include "fs/session/run.h"
#include "html.h"
#include "page_static.h"
#include "vm/base/problem.h"

static void put(struct buf *out, struct page_static part)
{
	(void)buf_append(out, part.data, part.len);
}

/* Nothing but the style and the script of this program counts in it, whatever it holds. */
static void put_policy(struct buf *out)
{
	struct page_hash style, script;

	if (page_static_hash(page_css(), &style) < 0 || page_static_hash(page_js(), &script) < 0) {
		out->failed = out->failed ? out->failed : -ENOMEM;
		return;
	}
	buf_printf(out,
		   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		   "style-src %s; script-src %s; base-uri 'none'; form-action 'none'\">\n",
		   style.text, script.text);
}

void page_begin(struct page *p, struct buf *out, const char *title, unsigned every_s)
{
	*p = (struct page){.out = out, .now = clock_now()};
	buf_printf(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
	put_policy(out);
	buf_printf(out,
		   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		   "<meta name=\"color-scheme\" content=\"light dark\">\n"
		   "<meta name=\"referrer\" content=\"no-referrer\">\n"
		   "<noscript><meta http-equiv=\"refresh\" content=\"%u\"></noscript>\n<title>",
		   every_s);
	html_text(out, title, PAGE_NAME_MAX);
	buf_printf(out, "</title>\n<style>");
	put(out, page_css());
	buf_printf(out, "</style>\n</head>\n<body data-every=\"%u\">\n<header>\n", every_s);
}

void page_as_of(struct page *p)
{
	const int64_t t = p->now.tv_sec;

	buf_printf(p->out,
		   "<div class=\"right\"><span>as of <time data-t=\"%" PRId64
		   "\">%02u:%02u:%02u UTC</time>"
		   "</span></div>\n</header>\n",
		   t, (unsigned)(t / 3600 % 24), (unsigned)(t / 60 % 60), (unsigned)(t % 60));
}

int page_end(struct page *p)
{
	buf_printf(p->out, "<script>");
	put(p->out, page_js());
	buf_printf(p->out, "</script>\n</body>\n</html>\n");
	return p->out->failed;
}

/* ---- numbers ---- */

/* Return: microseconds, 0 where @b is not behind @a. */
static uint64_t us_from(const struct timespec *a, const struct timespec *b)
{
	const int64_t us =
		((int64_t)b->tv_sec - a->tv_sec) * 1000000 + (b->tv_nsec - a->tv_nsec) / 1000;

	return us > 0 ? (uint64_t)us : 0;
}

void page_time_span(struct buf *out, uint64_t us)
{
	const uint64_t s = us / 1000000;

	if (us < 10000)
		buf_printf(out, "%" PRIu64 ".%" PRIu64 " ms", us / 1000, us / 100 % 10);
	else if (us < 1000000)
		buf_printf(out, "%" PRIu64 " ms", us / 1000);
	else if (s < 60)
		buf_printf(out, "%" PRIu64 ".%" PRIu64 " s", s, us / 100000 % 10);
	else if (s < 3600)
		buf_printf(out, "%" PRIu64 " min %" PRIu64 " s", s / 60, s % 60);
	else if (s < 86400)
		buf_printf(out, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
	else
		buf_printf(out, "%" PRIu64 " d %" PRIu64 " h", s / 86400, s / 3600 % 24);
}

void page_ago(struct page *p, const struct timespec *t)
{
	const uint64_t s = us_from(t, &p->now) / 1000000;

	if (!t->tv_sec)
		return;
	buf_printf(p->out, "<time data-t=\"%" PRId64 ".%03u\">", (int64_t)t->tv_sec,
		   (unsigned)(t->tv_nsec / 1000000));
	if (s < 1)
		buf_printf(p->out, "now");
	else if (s < 120)
		buf_printf(p->out, "%" PRIu64 " s ago", s);
	else if (s < 7200)
		buf_printf(p->out, "%" PRIu64 " min ago", s / 60);
	else if (s < 172800)
		buf_printf(p->out, "%" PRIu64 " h ago", s / 3600);
	else
		buf_printf(p->out, "%" PRIu64 " d ago", s / 86400);
	buf_printf(p->out, "</time>");
}

void page_bytes(struct buf *out, uint64_t n)
{
	static const char units[] = "KMGTPE";
	unsigned unit = 0;
	uint64_t part = n;

	if (n < 1024) {
		buf_printf(out, "%" PRIu64 " bytes", n);
		return;
	}
	for (; part >= 1024 * 1024; part /= 1024)
		unit++;
	if (part < 10240)
		buf_printf(out, "%" PRIu64 ".%" PRIu64 " %ciB", part / 1024,
			   part % 1024 * 10 / 1024, units[unit]);
	else
		buf_printf(out, "%" PRIu64 " %ciB", part / 1024, units[unit]);
}

void page_count(struct buf *out, uint64_t n, const char *noun)
{
	buf_printf(out, "%" PRIu64 " %s%s", n, noun, n == 1 ? "" : "s");
}

/* ---- states ---- */

void page_state(struct buf *out, const char *kind, const char *word)
{
	buf_printf(out, "<span class=\"state %s\">%s</span>", kind, word);
}

const char *page_run_kind(const struct run *r)
{
	return r->state == RUN_DONE && r->result.status ? "exit" : run_state_str(r->state);
}

void page_run_state(struct buf *out, const struct run *r)
{
	char word[32];

	if (r->state != RUN_DONE) {
		page_state(out, page_run_kind(r), run_state_str(r->state));
		return;
	}
	snprintf(word, sizeof(word), "exit %u", r->result.status);
	page_state(out, page_run_kind(r), word);
}

/* ---- tiles ---- */

void page_tile(struct buf *out, const char *head)
{
	buf_printf(out, "<div class=\"tile card\"><h3>%s</h3>", head);
}

void page_tile_end(struct buf *out)
{
	buf_printf(out, "</div>\n");
}

void page_meter(struct buf *out, const char *what, uint64_t part, uint64_t more, uint64_t all,
		bool scarce)
{
	const double scale = all ? 1000.0 / (double)all : 0;
	const double first = MIN((double)part * scale, 1000.0);
	const double second = MIN((double)more * scale, 1000.0 - first);

	buf_printf(out,
		   "<svg class=\"meter\" viewBox=\"0 0 1000 6\" preserveAspectRatio=\"none\" "
		   "role=\"img\" "
		   "aria-label=\"%s: %.0f %%\"><rect class=\"all\" width=\"1000\" height=\"6\"/>"
		   "<rect class=\"%s\" width=\"%.0f\" height=\"6\"/>",
		   what, (first + second) / 10, scarce && first + second > 950 ? "full" : "part",
		   first);
	if (second > 0)
		buf_printf(out, "<rect class=\"more\" x=\"%.0f\" width=\"%.0f\" height=\"6\"/>",
			   first, second);
	buf_printf(out, "</svg>");
}

/* "./" in front of it, so that nothing is taken for the scheme of a URL. Names here have no characters that mean anything in one. */
void page_link(struct buf *out, const char *path, const char *rest)
{
	buf_printf(out, "<a href=\"./");
	html_text(out, path, PAGE_NAME_MAX);
	buf_printf(out, "%s\"><bdi>", rest);
	html_text(out, path, PAGE_NAME_MAX);
	buf_printf(out, "</bdi></a>");
}

void page_problem(struct buf *out, const char *what, const char *path, const struct problem *p)
{
	buf_printf(out, "<li class=\"card\"><div>");
	if (what)
		buf_printf(out, "<b>%s</b> ", what);
	if (path)
		page_link(out, path, "/status.html");
	buf_printf(out, " <code>");
	html_text(out, problem_code_str(p->code), PAGE_NAME_MAX);
	buf_printf(out, "</code></div><div class=\"foreign\">");
	html_text(out, p->cause, PAGE_LINE_MAX);
	buf_printf(out, "</div>");
	if (*p->fix) {
		buf_printf(out, "<div class=\"fix foreign\"><b>What to do:</b> ");
		html_text(out, p->fix, PAGE_LINE_MAX);
		buf_printf(out, "</div>");
	}
	buf_printf(out, "</li>\n");
}
