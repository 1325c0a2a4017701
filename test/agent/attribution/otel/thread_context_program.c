/*
 * Threads that each publish a record and print "thread pointer, address of the variable, address of the record", one
 * line per thread, the main thread's first. The first argument is a library to load once the threads run, or none.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifndef LOADS_LIBRARY
#include "thread_context.h"
#endif

#define THREADS 4

typedef void **thread_context_address(void);

static thread_context_address *address;
static pthread_barrier_t turn;
static pthread_mutex_t turn_to_tell = PTHREAD_MUTEX_INITIALIZER;

static void publish(void)
{
	unsigned long thread_pointer;
	void **variable = address();

	*variable = malloc(28);
	syscall(SYS_arch_prctl, ARCH_GET_FS, &thread_pointer);
	pthread_mutex_lock(&turn_to_tell);
	printf("%lx %lx %lx\n", thread_pointer, (unsigned long)variable, (unsigned long)*variable);
	pthread_mutex_unlock(&turn_to_tell);
}

static void *thread(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	publish();
	pthread_barrier_wait(&turn);
	pause();
	return NULL;
}

static thread_context_address *find(const char *path)
{
#ifdef LOADS_LIBRARY
	void *library = dlopen(path, RTLD_NOW);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return (thread_context_address *)dlsym(library, "thread_context");
#else
	(void)path;
	return thread_context;
#endif
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&turn, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, thread, NULL);
	pthread_barrier_wait(&turn);
	address = find(argc > 1 ? argv[1] : NULL);
	publish();
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	printf("ready\n");
	fflush(stdout);
	pause();
	return 0;
}
