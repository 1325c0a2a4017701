/* Converts names to the form that recordings have: hex in, hex out, one per line. */
#include <stdio.h>

#include "identify/recorded_name.h"

int main(void)
{
	char line[2 * PATH_MAX + 2];

	while (fgets(line, sizeof(line), stdin)) {
		char path[PATH_MAX] = "", name[RECORDED_NAME_MAX];
		unsigned byte;

		for (int i = 0; sscanf(line + 2 * i, "%2x", &byte) == 1; i++)
			path[i] = byte;
		recorded_name(path, name);
		for (const char *at = name; *at; at++)
			printf("%02x", (unsigned char)*at);
		puts("");
	}
	return 0;
}
