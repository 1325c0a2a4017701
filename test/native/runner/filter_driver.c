/*
 * Prints the filter's verdicts on calls read as lines of ARCH NUMBER FIRST_ARGUMENT, where ARCH is native or compat:
 * `seen` or `let be`, and for a seen call that no plan covers the name it is counted under. Interprets the subset of
 * classic BPF that the filter uses.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <linux/seccomp.h>

#include "seccomp/filter.h"
#include "seccomp/syscalls.h"

static uint32_t answer(const struct filter *filter, const struct seccomp_data *data)
{
	uint32_t loaded = 0;

	for (unsigned at = 0; at < filter->program.len; at++) {
		const struct sock_filter *code = &filter->code[at];

		switch (code->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&loaded, (const char *)data + code->k, sizeof(loaded));
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			at += loaded == code->k ? code->jt : code->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			at += loaded > code->k ? code->jt : code->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			at += loaded & code->k ? code->jt : code->jf;
			break;
		case BPF_RET | BPF_K:
			return code->k;
		default:
			return 0;
		}
	}
	return 0;
}

int main(void)
{
	struct filter filter;
	char arch[16];
	int number;
	unsigned long long first;

	filter_make(&filter, &(struct filter_choice){
				 .op_mask = ALL_WRITES | ALL_SYNCS,
				 .standard_op_mask = ALL_SYNCS,
				 .uncovered = true,
			     });
	while (scanf("%15s %i %llu", arch, &number, &first) == 3) {
		const struct seccomp_data data = {
		    .arch = strcmp(arch, "native") == 0 ? NATIVE_ARCH : AUDIT_ARCH_I386,
		    .nr = number,
		    .args = {first},
		};
		if (answer(&filter, &data) != SECCOMP_RET_USER_NOTIF)
			puts("let be");
		else if (data.arch == NATIVE_ARCH && syscall_op(number) >= 0)
			puts("seen");
		else
			printf("seen %s\n", UNCOVERED_NAMES[syscall_uncovered(data.arch, number)]);
	}
	return 0;
}
