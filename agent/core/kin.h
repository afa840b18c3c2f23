/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of random bytes: which process, or thread, has which, by whose child it is. Part of chance.h. */
#ifndef XSBX_AGENT_CORE_KIN_H
#define XSBX_AGENT_CORE_KIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "chacha.h"

#define KIN_MAX	  512u /* threads that are known */
#define KIN_FORKS 32u  /* children of a process that may not have asked for anything yet */

/* A thread that has asked for something. */
struct kin {
	pid_t tid, pid; /* alike: the process, by its main thread */
	uint64_t start; /* with tid it identifies a thread */
	uint8_t key[CHACHA_KEY];
	uint64_t seen;	/* now_us() */
	uint64_t at;	/* bytes that it has had */
	uint32_t opens; /* how often it has opened a device */
	uint32_t
		forks; /* children that the process has made, in this run if it is the interpreter */
	pid_t newest[KIN_FORKS]; /* process there was before each of the last of these */
};

/* All zeroes but for the key: nobody has asked. */
struct kin_all {
	uint8_t key[CHACHA_KEY]; /* by the seed */
	pid_t interp;		 /* 0: none */
	uint32_t run; /* the last that has begun in it; in all that made the sandbox what it is */
	bool begun;   /* one has */
	struct kin v[KIN_MAX];
	size_t n;
};

/**
 * kin_find() - Who is this thread?
 * @all: All of them
 * @tid: Thread that asks for something
 * @job: The job that it is of, or 0: the interpreter started it
 *
 * Return: valid until the next call; NULL if it has gone.
 */
struct kin *kin_find(struct kin_all *all, pid_t tid, uint32_t job);

/** kin_fork() - Its process is about to make another one. */
void kin_fork(struct kin_all *all, pid_t tid, uint32_t job);

/** kin_interp() - The interpreter is this process from now on. */
void kin_interp(struct kin_all *all, pid_t pid);

/**
 * kin_run() - A run begins in the interpreter
 * @run: Its number
 * @ret_seed: If it is the interpreter's first: what its own generators begin with
 *
 * Return: whether it is.
 */
bool kin_run(struct kin_all *all, uint32_t run, uint8_t ret_seed[CHACHA_KEY]);

#endif
