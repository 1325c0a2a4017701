#include <stdio.h>

/*
 * Debian's libbpf.a is compiled for executables (PIE): it refers to stderr by a relocation that a shared library cannot
 * contain. The Makefile renames that symbol to this one, which is defined in the library itself.
 */
FILE *libbpf_ts_stderr __attribute__((visibility("hidden")));

__attribute__((constructor)) static void set_stderr(void)
{
	libbpf_ts_stderr = stderr;
}
