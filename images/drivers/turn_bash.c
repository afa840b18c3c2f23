/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of bash: a builtin that receives turns and evaluates them. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"
#include "turn.h"

/*
 * Theory of operation
 * -------------------
 * Bash loads turn.so as the builtin xsbx_turn, and that builtin is the whole driver: it never
 * returns.
 *
 * Why a builtin, and not a loop of shell commands: the code, the nonce and the status never pass
 * through anything that user code can reach or change. IFS, set -e, functions named `eval` or
 * `read`, closed descriptors and traps all are legal user code.
 *
 * The builtin first makes the shell look as if it stood at the top level of a script: it lets go
 * of everything that bash holds for the call of a builtin, takes itself out of the table of
 * builtins, and empties the positional parameters and the call stack. Then each turn is one
 * parse_and_execute, as for the builtin `eval`, under a landing place of our own for bash's jumps
 * to top level. What arrives there decides about the shell's life:
 *
 *	an interrupt			status 130, and the shell goes on
 *	a fatal expansion error		status of the error, and the shell goes on
 *	exit, a failure under set -e	jump on to bash's own top level: the shell ends there
 *	anything, in a forked child	likewise; a child never answers
 *
 * Interrupts: a shell that is not interactive leaves SIGINT at its default action, or ends itself
 * for it, EXIT trap and all. During a turn we install a handler that records the interrupt and
 * passes it to the handler that bash uses when it is interactive, which makes bash jump to the top
 * level at the next safe point. A trap of the user's on INT has precedence. The builtins `wait` and
 * `trap` set SIGINT by themselves, and are wrapped for that. Between turns SIGINT is ignored.
 *
 * Bash's symbols are declared here and not taken from its headers, of which each version has its
 * own: the few that are used have been the same since 5.0. They are weak so that the object can
 * be loaded into other processes.
 */

/* --- what we use of bash ---------------------------------------------------------------------- */

struct word_desc {
	char *word;
	int flags;
};

struct word_list {
	struct word_list *next;
	struct word_desc *word;
};

typedef int builtin_fn(struct word_list *);

struct builtin {
	char *name;
	builtin_fn *function;
	int flags;
	char *const *long_doc;
	const char *short_doc;
	char *handle;
};

struct shell_var { /* the beginning of it */
	char *name;
	char *value;
	char *exported;
	void *dynamic_value, *assign;
	int attributes;
};

#define VAR_EXPORTED  0x01
#define VAR_READONLY  0x02
#define VAR_NO_STRING 0x84c /* an array of either kind, a function, a reference */

struct array;

enum bash_jump {
	JUMP_EOF = 1,
	JUMP_DISCARD,
	JUMP_EXIT,
	JUMP_ERREXIT,
	JUMP_SIGNAL,
	JUMP_EXIT_BUILTIN
};

#define BUILTIN_ENABLED 1
#define SEVAL_NOHIST	0x004
#define SEVAL_NOFREE	0x008
#define SEVAL_RESETLINE 0x010
#define EX_USAGE	258

#define BASH		extern __attribute__((weak))

BASH sigjmp_buf top_level;
BASH volatile sig_atomic_t interrupt_state, terminating_signal;
BASH int interactive, last_command_exit_value, executing_builtin, read_but_dont_execute,
	subshell_environment, indirection_level;
BASH pid_t dollar_dollar_pid;
BASH char *this_command_name, *dollar_vars[];
BASH builtin_fn *this_shell_builtin;
BASH int parse_and_execute(char *string, const char *from_file, int flags);
BASH void run_unwind_protects(void);
BASH void reset_parser(void);
BASH void unset_bash_input(int check_zero);
BASH void unlink_fifo_list(void);
BASH void sigint_sighandler(int sig);
BASH void termsig_sighandler(int sig);
BASH void termsig_handler(int sig);
BASH int signal_is_trapped(int sig);
BASH struct builtin *builtin_address_internal(const char *name, int disabled_okay);
BASH struct shell_var *find_variable(const char *name);
BASH struct shell_var *bind_variable(const char *name, char *value, int flags);
BASH int unbind_variable(const char *name);
BASH void set_working_directory(char *name);
BASH void
stupidly_hack_special_variables(char *name); /* of which the shell keeps something, as of PATH */
BASH int array_needs_making;		     /* the environment of commands */
BASH void array_flush(struct array *array);
BASH void sbrand(unsigned long seed);

/* --- turns of bash ---------------------------------------------------------------------------- */

static sigjmp_buf outer_level; /* of the script that called us */
static pid_t shell_pid;
static volatile sig_atomic_t interrupted;
static builtin_fn *bash_wait, *bash_trap;
static struct sigaction user_int; /* what SIGINT did at the end of the last turn */

static void on_sigint(int sig)
{
	interrupted = 1;
	sigint_sighandler(sig);
}

/* A forked part of the shell has no business with the socket, and dies of SIGINT before its exec. */
static void on_fork_child(void)
{
	struct sigaction now;

	turn_close();
	if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == on_sigint)
		(void)signal(SIGINT, SIG_DFL);
}

/*
 * Bash 5.3 sets SIGINT back to the shell's own way in the midst of the builtin `wait`, and that
 * depends on whether the shell is interactive. So it is, for that long.
 */
static int wait_as_interactive(struct word_list *list)
{
	bool ours = getpid() == shell_pid;
	int status;

	this_shell_builtin = bash_wait;
	interactive = ours;
	status = bash_wait(list);
	interactive = 0;
	if (ours && interrupt_state)
		interrupted = 1;
	return status;
}

/* `trap - INT` puts back what a script has, which would end the shell. */
static int trap_and_rearm(struct word_list *list)
{
	struct sigaction act = {.sa_handler = on_sigint};
	struct sigaction now;
	int status;

	this_shell_builtin = bash_trap;
	status = bash_trap(list);
	if (getpid() == shell_pid && sigaction(SIGINT, NULL, &now) == 0 &&
	    now.sa_handler == termsig_sighandler)
		sigaction(SIGINT, &act, NULL);
	return status;
}

/* Let SIGINT interrupt the turn, unless the user has a trap for it. */
static void arm_interrupt(void)
{
	struct sigaction act = {.sa_handler = on_sigint};

	interrupted = 0;
	interrupt_state = 0;
	sigaction(SIGINT, signal_is_trapped(SIGINT) ? &user_int : &act, NULL);
}

static void disarm_interrupt(void)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	sigaction(SIGINT, &ignore, &user_int);
	interrupt_state = 0;
}

/* Go where bash would have gone with this jump. */
__attribute__((noreturn)) static void jump_on(int jump)
{
	memcpy(top_level, outer_level, sizeof(top_level));
	siglongjmp(top_level, jump);
}

/* Something has jumped to the top level. Return: the turn's status, if the shell goes on. */
static int land(int jump)
{
	interactive = 0;
	if (getpid() != shell_pid || subshell_environment)
		jump_on(jump);
	if (interrupted && (jump == JUMP_EXIT || jump == JUMP_DISCARD))
		return last_command_exit_value = 128 + SIGINT;
	if (jump == JUMP_EOF || jump == JUMP_DISCARD)
		return last_command_exit_value ? last_command_exit_value : 1;
	jump_on(jump);
}

/* Run shell code as if it stood at the top level of a script. Return: its status. */
static int evaluate(char *text)
{
	int status;
	int jump;

	read_but_dont_execute = 0; /* set -n */
	interactive = 0;
	executing_builtin = 0;
	this_shell_builtin = NULL;
	this_command_name = NULL;
	indirection_level = 0; /* 1 in there: how often `set -x` shows the first character of PS4 */
	reset_parser();
	jump = sigsetjmp(top_level, 0);
	if (jump)
		status = land(jump);
	else
		status = parse_and_execute(text, dollar_vars[0],
					   SEVAL_NOHIST | SEVAL_NOFREE | SEVAL_RESETLINE);
	if (getpid() != shell_pid) {
		last_command_exit_value = status;
		jump_on(JUMP_EXIT);
	}
	unlink_fifo_list();
	return status & 255;
}

/* Write code that names its own interpreter to a file. Return: 0 or -errno */
static int write_script(char *path, const char *text, size_t len)
{
	int fd = mkostemp(path, O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (len > 0) {
		n = write(fd, text, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			goto err_file;
		text += n;
		len -= (size_t)n;
	}
	if (fchmod(fd, 0700) < 0)
		goto err_file;
	close(fd);
	return 0;

err_file:
	n = -errno;
	close(fd);
	unlink(path);
	return (int)n;
}

/* Run code that begins with "#!" by the interpreter it names, as a command of the shell's. */
static int run_script(const char *text, size_t len)
{
	char path[] = "/tmp/run-XXXXXX";
	char command[sizeof(path) + sizeof(" && :")];
	int status;
	int r;

	r = write_script(path, text, len);
	if (r < 0) {
		fprintf(stderr, "bash: %s: %s\n", path, strerror(-r));
		return 126;
	}
	/* In an "and" list neither set -e nor a trap on ERR looks at the status. */
	snprintf(command, sizeof(command), "%s && :", path);
	status = evaluate(command);
	unlink(path);
	return status;
}

/* A variable that a turn has of its own, and what it was before. */
struct own_var {
	char *name, *value; /* of the turn, in its words */
	char *before;	    /* NULL: it was not set */
	int attributes;
};

static struct own_var *own_vars;
static size_t nown;

static void leave(void)
{
	if (!own_vars)
		return;
	for (size_t i = nown; i-- > 0;) {
		struct own_var *v = &own_vars[i];
		struct shell_var *var;

		(void)unbind_variable(v->name);
		var = v->before ? bind_variable(v->name, v->before, 0) : NULL;
		if (var)
			var->attributes = v->attributes;
		if (var && !strcmp(v->name, "PWD"))
			set_working_directory(v->before);
		stupidly_hack_special_variables(v->name);
		free(v->before);
	}
	free(own_vars);
	own_vars = NULL;
	nown = 0;
	array_needs_making = 1;
}

/* Return: 0 or -errno. */
static int enter_var(struct own_var *v)
{
	struct shell_var *var = find_variable(v->name);

	if (var && (var->attributes & (VAR_READONLY | VAR_NO_STRING)))
		return -EPERM;
	if (var && var->value) {
		v->before = strdup(var->value);
		v->attributes = var->attributes;
		if (!v->before)
			return -ENOMEM;
	}
	(void)unbind_variable(v->name); /* also whether it is a number */
	var = bind_variable(v->name, v->value, 0);
	if (!var)
		return -ENOMEM;
	var->attributes |= VAR_EXPORTED;
	stupidly_hack_special_variables(v->name);
	array_needs_making = 1;
	return 0;
}

static struct own_var own_word(char *word)
{
	char *equals = strchr(word, '=');

	*equals = '\0';
	return (struct own_var){.name = word, .value = equals + 1};
}

/* Sets what the turn has of its own. Return: 0; or -errno, and nothing is different. */
static int enter(void)
{
	static char pwd[] = "PWD";
	size_t len, at, n = 1;
	char *place = turn_place(&len);
	int r = 0;

	for (at = 0; at < len; at += strlen(place + at) + 1)
		n++;
	own_vars = place ? calloc(n, sizeof(*own_vars)) : NULL;
	if (!own_vars)
		return place ? -ENOMEM : 0;
	if (*place)
		own_vars[nown++] = (struct own_var){.name = pwd, .value = place};
	for (at = strlen(place) + 1; at < len; at += n) {
		n = strlen(place + at) + 1;
		own_vars[nown++] = own_word(place + at);
	}
	n = nown;
	for (nown = 0; r == 0 && nown < n; nown += r == 0)
		r = enter_var(&own_vars[nown]);
	if (r < 0)
		leave();
	else if (*place)
		set_working_directory(place);
	return r;
}

static int run_turn(void)
{
	static const char mark[] = "\xef\xbb\xbf";
	size_t len;
	char *text = turn_code(&len);
	int status;

	if (strncmp(text, mark, strlen(mark)) == 0) {
		text += strlen(mark);
		len -= strlen(mark);
	}
	__fpurge(stdout);
	__fpurge(stderr);
	status = enter();
	if (status < 0)
		return status;
	arm_interrupt();
	if (strncmp(text, "#!", 2) == 0)
		status = run_script(text, len);
	else
		status = evaluate(text);
	disarm_interrupt();
	(void)fflush(stdout);
	(void)fflush(stderr);
	clearerr(stdout);
	clearerr(stderr);
	leave();
	return status;
}

static void warm(void)
{
	/* An emulated processor translates code when it first comes to it. */
	static char text[] =
		"xsbx_warm() { local i x=a a=(1 2 3); for i in 1 2; do x+=$((i * 2)); done;"
		" [[ $x == a* ]] && x=${x//2/3}; case $x in b*) ;; esac; : ${#a[@]} $(echo b);"
		" printf %s \"$x\" >/dev/null; echo c | cat >/dev/null; (:); }; xsbx_warm;"
		" unset -f xsbx_warm";
	int before = last_command_exit_value;

	(void)evaluate(text);
	last_command_exit_value = before;
}

static void seed(const uint8_t *bytes)
{
	unsigned long value;

	memcpy(&value, bytes, sizeof(value));
	sbrand(value);
}

static void send_ready(void)
{
	struct driver_msg ready = {.type = DRIVER_READY,
				   .status = DRIVER_CAN_COPY | DRIVER_CAN_SEED | DRIVER_CAN_PROVE |
					     DRIVER_CAN_PLACE | DRIVER_CAN_PREPARE};
	const struct shell_var *var = find_variable("BASH_VERSION");
	char version[DRIVER_VERSION];

	snprintf(version, sizeof(version), "bash %s", var && var->value ? var->value : "");
	(void)turn_send(&ready, version);
}

/* Return: 0 if there is a copy of this shell, 1 if there is none; or -1 in the copy. */
static int copy(void)
{
	static char text[] = "SECONDS=0";
	int r = turn_copy();

	if (r != 0)
		return r < 0;
	shell_pid = dollar_dollar_pid = getpid();
	(void)evaluate(text);
	last_command_exit_value = 0;
	send_ready();
	return -1;
}

static bool childless;
static struct sigaction user_chld; /* what SIGCHLD does, while childless */

/* A shell without children has no use for their signal, but anything may send it: by one that it catches it would be
 * woken, and the agent would have to reckon with that. */
static void hush_children(void)
{
	const struct sigaction nothing = {.sa_handler = SIG_DFL};
	siginfo_t si;

	childless = waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD &&
		    sigaction(SIGCHLD, &nothing, &user_chld) == 0;
}

static void hear_children(void)
{
	if (childless)
		(void)sigaction(SIGCHLD, &user_chld, NULL);
	childless = false;
}

/* Wait for a request. Return: as turn_receive(). */
static int receive(struct driver_msg *ret_msg)
{
	int r;

	hush_children();
	r = turn_receive(ret_msg, 0);
	hear_children();
	return r;
}

/* Answer one request. Return: false if there are no more. */
static bool serve(void)
{
	struct driver_msg msg;
	int r = receive(&msg);

	switch (r) {
	case -EINTR:
		if (terminating_signal)
			termsig_handler(terminating_signal);
		return true;
	case -EBADMSG:
	case DRIVER_PREPARE:
	case DRIVER_TIDY: return true;
	case DRIVER_RUN:
		if (msg.status & DRIVER_RUN_SEED)
			seed(msg.seed);
		msg.status = run_turn();
		break;
	case DRIVER_WARM:
		warm();
		msg.status = 0;
		break;
	case DRIVER_SEED:
		seed(msg.seed);
		msg.status = 0;
		break;
	case DRIVER_COPY:
		msg.status = copy();
		if (msg.status < 0)
			return true;
		break;
	default:
		if (r < 0)
			last_command_exit_value = 1;
		return false;
	}
	if (msg.status >= 0)
		last_command_exit_value = msg.status;
	msg.type = DRIVER_DONE;
	memset(msg.seed, 0, sizeof(msg.seed));
	return turn_send(&msg, "") == 0;
}

static void flush_array(const char *name)
{
	struct shell_var *var = find_variable(name);

	if (var && var->value)
		array_flush((struct array *)(void *)var->value);
}

/* Return: what the builtin's function was. */
static builtin_fn *replace_builtin(const char *name, builtin_fn *function)
{
	struct builtin *builtin = builtin_address_internal(name, 1);
	builtin_fn *before = builtin->function;

	builtin->function = function;
	return before;
}

/* Make the shell forget that it runs a script that called a builtin. */
static void enter_top_level(void)
{
	static char text[] = "enable -d xsbx_turn; BASH_ARGV0=bash; set --";
	Dl_info self;

	/* The table of builtins is about to unload us. */
	if (dladdr(&shell_pid, &self))
		(void)dlopen(self.dli_fname, RTLD_LAZY | RTLD_NODELETE);
	memcpy(outer_level, top_level, sizeof(outer_level));
	run_unwind_protects();
	unset_bash_input(0); /* the rest of the script, which is open on a descriptor */
	(void)evaluate(text);
	flush_array("BASH_SOURCE");
	flush_array("BASH_LINENO");
	flush_array("FUNCNAME");
	bash_wait = replace_builtin("wait", wait_as_interactive);
	bash_trap = replace_builtin("trap", trap_and_rearm);
	last_command_exit_value = 0;
}

static int xsbx_turn(struct word_list *list)
{
	if (shell_pid || !list || turn_open(atoi(list->word->word)) < 0)
		return EX_USAGE;
	shell_pid = getpid();
	(void)pthread_atfork(NULL, NULL, on_fork_child);
	disarm_interrupt();
	enter_top_level();
	send_ready();
	while (serve())
		;
	jump_on(JUMP_EXIT);
}

static char *const xsbx_turn_doc[] = {NULL};

extern struct builtin xsbx_turn_struct;
struct builtin xsbx_turn_struct = {
	.name = (char *)(uintptr_t) "xsbx_turn",
	.function = xsbx_turn,
	.flags = BUILTIN_ENABLED,
	.long_doc = xsbx_turn_doc,
	.short_doc = "xsbx_turn CTL",
};
