/* Uses no thread-local variable, and runs until it is killed. An argument is a library to load first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc > 1 && !dlopen(argv[1], RTLD_NOW))
		return 1;
	printf("ready\n");
	fflush(stdout);
	pause();
	return 0;
}
