/* SPDX-License-Identifier: Apache-2.0 */
/* The native part of drivers: the control socket, and the descriptors of a turn. */
#ifndef XSBX_TURN_H
#define XSBX_TURN_H

#include <stdbool.h>
#include <stddef.h>

struct driver_msg;

/**
 * turn_open() - Initialize the control socket
 * @fd: its number, which is closed
 *
 * Descriptor 0 has to be /dev/null, and the key has to be in the socket. The process becomes
 * undumpable.
 * Return: the socket's new number, or -errno
 */
int turn_open(int fd);

/**
 * turn_raise() - Move another descriptor to a high number, after those of turn_open
 * @fd: its number, which is closed
 *
 * Return: the new number, or -errno
 */
int turn_raise(int fd);

/** turn_close() - Close the socket, in a forked child. */
void turn_close(void);

/**
 * turn_receive() - Receive a request; sets up the streams and code of a turn
 * @ret_msg: the request
 * @flags: for recvmsg(2)
 *
 * Return: the request's type, 0 after the last request, -EBADMSG for anything that is not a
 * request, and for a run that could not be accepted, after telling the agent; another -errno
 */
int turn_receive(struct driver_msg *ret_msg, int flags);

/**
 * turn_copy() - Execute the DRIVER_COPY that was received last
 *
 * Return: 1 if a copy was made, 0 in the copy, which uses its own socket, or -errno
 */
int turn_copy(void);

/**
 * turn_code() - Get the code of the last turn received
 * @ret_len: its length
 *
 * Return: the code, NUL-terminated; owned by this module and valid until the next turn
 */
char *turn_code(size_t *ret_len);

/**
 * turn_copy_code() - Copy the turn's code
 * @buf: buffer of the size given in the request
 */
void turn_copy_code(char *buf);

/**
 * turn_place() - Get what the turn has of its own: its directory and variables
 * @ret_len: length of all words
 *
 * The process is in that directory already, and leaves it when the answer is sent.
 *
 * Return: the directory, or an empty word, and NAME=VALUE of each variable, with a NUL behind each; NULL if it has
 * nothing of its own. Valid until the next turn.
 */
char *turn_place(size_t *ret_len);

/** turn_place_size() - Get the length of all words, or 0 */
size_t turn_place_size(void);

/** turn_copy_place() - Copy them to a buffer of that size */
void turn_copy_place(char *buf);

/**
 * turn_send() - Send an answer; DRIVER_DONE gets its token here
 * @msg: the answer, with the nonce of the request
 * @text: text to follow it
 *
 * Return: 0 or -errno
 */
int turn_send(const struct driver_msg *msg, const char *text);

/**
 * turn_note_interrupts() - From now on record SIGINT, instead of acting on it
 *
 * For a driver that has nothing to interrupt yet; its own handler for SIGINT replaces this.
 */
void turn_note_interrupts(void);

/**
 * turn_was_interrupted() - Was a SIGINT recorded since the last turn_receive()?
 */
int turn_was_interrupted(void);

/**
 * turn_write() - Write a whole buffer, waiting as long as necessary
 * @fd: destination
 * @buf: the bytes
 * @len: number of bytes
 *
 * Return: 0 or -errno
 */
int turn_write(int fd, const char *buf, size_t len);

/**
 * turn_is_steady() - Has this turn been writing to one output alone for a while?
 * @fd: 1 or 2, which is about to be written
 *
 * Then no order has to be kept, and a record would only cost more.
 */
bool turn_is_steady(int fd);

/**
 * turn_renew() - Let libraries that notice forks draw new randomness
 * @wipe: false: only find out what is there for that, which takes milliseconds, and is known until the next run
 *
 * Return: number of ranges of pages that say so, or -errno; -E2BIG: too many to be known
 */
int turn_renew(bool wipe);

/** turn_renew_prepare() - Find it out, for a seed that is the next thing that happens in this process. */
void turn_renew_prepare(void);

/** turn_renew_forget() - Code is about to run: what turn_renew() has found will not be true any more. */
void turn_renew_forget(void);

/**
 * turn_record() - Write to an output as a record, which keeps the order of both
 * @fd: 1 or 2
 * @data: the bytes
 * @len: number of bytes
 *
 * After many writes to one of them alone it waits some milliseconds, at most, for those to be read.
 *
 * Return: @len, or 0 if nothing was written, and the caller has to write to the descriptor, because it
 * is not the turn's any more, or to keep the order, or because there are too many bytes
 */
size_t turn_record(int fd, const void *data, size_t len);

#endif
