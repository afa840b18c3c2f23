/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that come by the environment. */
#ifndef XSBX_VM_BASE_SECRET_H
#define XSBX_VM_BASE_SECRET_H

/* Takes a variable out of the environment, where it can be looked at from outside. Return: its value, allocated; NULL: there is
 * none, or it is empty. */
char *secret_take(const char *name);

#endif
