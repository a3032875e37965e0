/* Preloaded into a User Mode Linux kernel before 6.16: on a CPU with AMX the host takes the
 * registers of a process (NT_X86_XSTATE) as a whole only, 11 kB, and such a kernel has room for
 * the first 2.6 kB. What it leaves out is zero here: the initial state, which no process of the
 * lab leaves. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

typedef long (*call)(enum __ptrace_request, pid_t, void *, void *);

long ptrace(enum __ptrace_request request, ...)
{
    static call next;
    static char whole[1 << 16];
    static size_t size; /* of all registers */
    va_list rest;

    va_start(rest, request);
    pid_t pid = va_arg(rest, pid_t);
    void *address = va_arg(rest, void *);
    void *data = va_arg(rest, void *);
    va_end(rest);

    if (!next)
        next = (call)dlsym(RTLD_NEXT, "ptrace");
    if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
        struct iovec *given = data, all = {whole, sizeof whole};

        if (!size && next(PTRACE_GETREGSET, pid, address, &all) == 0) {
            size = all.iov_len;
            memset(whole, 0, sizeof whole);
        }
        if (given->iov_len < size) {
            memcpy(whole, given->iov_base, given->iov_len);
            all.iov_len = size;
            return next(request, pid, address, &all);
        }
    }
    return next(request, pid, address, data);
}
