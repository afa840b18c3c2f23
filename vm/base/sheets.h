/* SPDX-License-Identifier: Apache-2.0 */
/* Sheets of memory that an heir finds as they are: what lies on one stays while it is held. */
#ifndef XSBX_VM_BASE_SHEETS_H
#define XSBX_VM_BASE_SHEETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * What is long, and goes from one side of the daemon to the other, is not copied into records: it
 * is received on a sheet, and records say where it lies. Each who does is a holder: the request
 * until it was answered (fs/fuse/inbox.h), what is to be sent of it until it was sent
 * (vm/guest/channel_send.c). A sheet is written to anew when nobody holds it, and only behind a
 * commit of records that name nothing there any more; so what records name is there, whenever their
 * daemon died. How many hold a sheet is in no record: an heir holds what it reads of.
 */

#define SHEETS	   4u
/* The longest request of the kernel, and some short ones before it. */
#define SHEET_SIZE ((1u << 20) + (128u << 10))

/* - All are of equal size, one behind the other. */
struct sheets {
	unsigned char *mem; /* NULL: there are none */
	size_t size;	    /* of one */
	unsigned n;	    /* at most SHEETS */
	unsigned held[SHEETS];
	bool retired; /* those that nobody holds have no pages any more */
};

void sheets_init(struct sheets *sh, void *mem, size_t size, unsigned n);

/* Are these bytes on one that is held, and on no other? */
bool sheets_keep(const struct sheets *sh, const void *bytes, size_t len);

/* The one with these bytes stays as it is, once more. */
void sheets_hold(struct sheets *sh, const void *bytes);
/* ... once less. */
void sheets_let_go(struct sheets *sh, const void *bytes);

/* None is written to any more: their memory is given back as nobody holds them. It is that of a file,
 * and they are whole pages. */
void sheets_retire(struct sheets *sh);

/* Where the bytes are, for a record. */
uint64_t sheets_place(const struct sheets *sh, const void *bytes);
/* Return: what a record names; NULL: it is not on one sheet as a whole. Who reads it believes
 * nothing of it. */
unsigned char *sheets_find(const struct sheets *sh, uint64_t place, uint64_t len);

/* Return: the number of the sheet with this place. */
unsigned sheets_number(const struct sheets *sh, uint64_t place);
/* Return: the number of one that nobody holds, other than @but; -1 if there is none. */
int sheets_free(const struct sheets *sh, unsigned but);

#endif
