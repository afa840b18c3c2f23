/* SPDX-License-Identifier: Apache-2.0 */
/* The architecture of this host, which is also that of its machines. */
#ifndef XSBX_VM_BASE_ARCH_H
#define XSBX_VM_BASE_ARCH_H

enum arch { ARCH_X86_64, ARCH_ARM64 };

/*
 * ARCH_NAME		as `uname -m` has it
 * ARCH_QEMU		the emulator, and the Debian package that it is in
 * ARCH_MACHINE		the kind of machine, as QEMU's streams name it
 */
#if defined(__x86_64__)
#define ARCH_HOST	  ARCH_X86_64
#define ARCH_NAME	  "x86_64"
#define ARCH_QEMU	  "qemu-system-x86_64"
#define ARCH_QEMU_PACKAGE "qemu-system-x86"
#define ARCH_MACHINE	  "microvm"
#elif defined(__aarch64__)
#define ARCH_HOST	  ARCH_ARM64
#define ARCH_NAME	  "aarch64"
#define ARCH_QEMU	  "qemu-system-aarch64"
#define ARCH_QEMU_PACKAGE "qemu-system-arm"
#define ARCH_MACHINE	  "virt"
#else
#error "xsbxfs runs on x86-64 and on arm64"
#endif

#endif
