/* SPDX-License-Identifier: Apache-2.0 */
/* Time, entropy and name of a guest: after a restore they are wrong, and the same in all clones. */
#include "clock.h"

#include <errno.h>
#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define NAME_MAX_HOST 64
#define SECOND	      1000000000u
#define AHEAD_NS      SECOND /* more than a message can be under way */

uint64_t clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

static int set(uint64_t realtime_ns)
{
	const struct timespec ts = {.tv_sec = (time_t)(realtime_ns / SECOND),
				    .tv_nsec = (long)(realtime_ns % SECOND)};

	return clock_settime(CLOCK_REALTIME, &ts) < 0 ? -errno : 0;
}

int clock_set(uint64_t realtime_ns)
{
	const uint64_t now = clock_now();

	if (now >= realtime_ns && now - realtime_ns < AHEAD_NS)
		return 0;
	return set(realtime_ns);
}

int clock_begin(uint64_t realtime_ns)
{
	return set(realtime_ns);
}

int clock_step(int64_t delta_ns)
{
	return delta_ns ? set(clock_now() + (uint64_t)delta_ns) : 0;
}

int clock_stir(int random_fd, const uint8_t *entropy, size_t len)
{
	union {
		struct rand_pool_info info;
		char space[sizeof(struct rand_pool_info) + 64];
	} pool;

	if (len > 64)
		return -EINVAL;
	memset(&pool, 0, sizeof(pool));
	pool.info.entropy_count = (int)len * 8;
	pool.info.buf_size = (int)len;
	memcpy(pool.space + offsetof(struct rand_pool_info, buf), entropy, len);
	if (ioctl(random_fd, RNDADDENTROPY, &pool) < 0)
		return -errno;
	return ioctl(random_fd, RNDRESEEDCRNG) < 0 ? -errno : 0;
}

int clock_name(const char *name, size_t len)
{
	if (len == 0 || len > NAME_MAX_HOST || memchr(name, '\0', len))
		return -EINVAL;
	return sethostname(name, len) < 0 ? -errno : 0;
}
