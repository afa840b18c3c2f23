/* SPDX-License-Identifier: Apache-2.0 */
/* Ends processes of user code. One round stops and kills all it finds; a process that forked while
 * the round ran leaves a child for the next; two empty rounds in a row, in which nothing was forked, are
 * the end. Those that are to stay may fork, so many empty rounds are the end as well. */
#include "killer.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/log.h"
#include "agent/core/proc.h"
#include "agent/core/proc_signal.h"
#include "agent/protocol.h"
#include "agent/core/util.h"

#define ROUND_US   1000u
#define SLOW_US	   5000u
#define HARD_US	   50000u
#define SLOW_AFTER 50000u
#define HARD_AFTER 2000000u		      /* then kill(-1), which no fork can outrun */
#define ASKED_US   20000u		      /* between looks for survivors */
#define GIVE_UP	   (PROTO_GIVE_UP_MS * 1000u) /* stuck in the kernel: nothing will help */
#define CLEAN	   50u			      /* empty rounds in a row ... */
#define SURE	   25u /* ... for which one counts in which nothing was forked */

static const struct proc_scope *scope_of(const struct killer *k)
{
	return k->all ? NULL : &k->scope;
}

/* Lets programs end by themselves. Return: false when they have, or have had their time. */
static bool is_patient(struct killer *k)
{
	int n;

	if (!k->until)
		return false;
	n = k->asked ? proc_count(scope_of(k), k->over) : proc_ask(scope_of(k));
	k->asked = true;
	if (n > 0 && now_us() < k->until) {
		loop_arm(k->loop, &k->timer, ASKED_US);
		return true;
	}
	k->until = 0;
	k->since = now_us();
	return false;
}

/* Return: how many processes were found and killed, or -errno. */
static int kill_round(struct killer *k)
{
	int fds[PROC_CHASED];
	uint64_t as_of;
	pid_t newest;
	bool forked;
	int n;

	if (k->chases)
		proc_chase(fds);
	newest = proc_last_pid();
	n = proc_kill(scope_of(k), &as_of);
	forked = proc_forked_since(newest);
	if (k->chases)
		proc_chase_over(fds);
	k->chases = n == 0 && forked;
	if (n == 0 && as_of <= k->looked)
		return n; /* what the last round saw already */
	k->clean = n != 0 ? 0 : k->clean + (forked ? 1 : SURE);
	k->looked = now_us();
	return n;
}

static void advance(struct killer *k)
{
	uint64_t age;
	int n;

	if (is_patient(k))
		return;
	age = now_us() - k->since;
	n = kill_round(k);
	if (n > 0 && age > HARD_AFTER && getpid() == 1 && !k->scope.holder) {
		if (!k->hard)
			log_line("%d processes outlived %d s of killing: killing all of them", n,
				 (int)(age / 1000000));
		k->hard = true;
		kill(-1, SIGKILL);
	}
	if (k->clean < CLEAN && age < GIVE_UP) {
		/* The processor is theirs, too, to die on. */
		loop_arm(k->loop, &k->timer,
			 k->hard	    ? HARD_US
			 : age < SLOW_AFTER ? ROUND_US
					    : SLOW_US);
		return;
	}
	if (k->clean < CLEAN)
		log_line("%d processes cannot be killed", n);
	k->active = false;
	k->done(k);
}

/* Many at once take turns, with pauses between them: what was killed needs the processor to die on, before us it does not
 * get it. */
static void on_killer_timer(struct loop_timer *t)
{
	static uint64_t next;
	struct killer *k = container_of(t, struct killer, timer);
	const uint64_t began = now_us();

	if (began < next) {
		loop_arm(k->loop, t, next - began);
		return;
	}
	advance(k); /* which may be its end */
	next = 2 * now_us() - began;
}

void killer_ignore(struct killer *k, pid_t pid)
{
	k->over = pid;
}

void killer_hurry(struct killer *k)
{
	if (!k->active || !k->until)
		return;
	k->until = 0;
	k->since = now_us();
	loop_arm(k->loop, &k->timer, 0);
}

void killer_start(struct killer *k, const struct proc_scope *scope, uint64_t grace_us)
{
	k->asked = false;
	k->over = 0;
	k->active = true;
	k->since = now_us();
	k->until = grace_us ? k->since + grace_us : 0;
	k->clean = 0;
	k->looked = k->since;
	k->chases = k->hard = false;
	k->all = !scope;
	k->scope = scope ? *scope : (struct proc_scope){0};
	k->timer.fire = on_killer_timer;
	loop_arm(k->loop, &k->timer, 0);
}

void killer_all(void)
{
	const struct timespec pause = {0, 1000000};
	unsigned clean = 0;
	uint64_t as_of;

	for (unsigned round = 0; clean < 2 && round < 5000; round++) {
		clean = proc_kill(NULL, &as_of) == 0 ? clean + 1 : 0;
		nanosleep(&pause, NULL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}
