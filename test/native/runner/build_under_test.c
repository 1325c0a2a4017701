/*
 * Simulates builds; the first argument selects one. Those that write print the duration of each call in ns, one per
 * line.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#define THREADS_MAX 64
#define X32 0x40000000

static const char *path;
static int count, size;
static char bytes[1 << 20];
static volatile sig_atomic_t handled;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static int open_file(void)
{
	const int file = open(path, O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0666);

	if (file < 0)
		perror(path);
	return file;
}

static void show(uint64_t from_ns, ssize_t result)
{
	if (result < 0)
		printf("%s\n", strerrorname_np(errno));
	else
		printf("%llu\n", (unsigned long long)(now_ns() - from_ns));
}

static int writes(void)
{
	const int file = open_file();

	for (int i = 0; i < count; i++) {
		const uint64_t from_ns = now_ns();
		show(from_ns, write(file, bytes, size));
	}
	return 0;
}

/* Makes one call of each system call that a plan covers. */
static int family(void)
{
	const int file = open_file();
	const struct iovec parts[2] = {{bytes, size / 2}, {bytes, size - size / 2}};
	uint64_t from_ns = now_ns();

	show(from_ns, write(file, bytes, size));
	from_ns = now_ns();
	show(from_ns, pwrite(file, bytes, size, 0));
	from_ns = now_ns();
	show(from_ns, writev(file, parts, 2));
	from_ns = now_ns();
	show(from_ns, pwritev(file, parts, 2, 0));
	from_ns = now_ns();
	show(from_ns, pwritev2(file, parts, 2, 0, 0));
	from_ns = now_ns();
	show(from_ns, fsync(file));
	from_ns = now_ns();
	show(from_ns, fdatasync(file));
	from_ns = now_ns();
	show(from_ns, sync_file_range(file, 0, size, SYNC_FILE_RANGE_WRITE));
	void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	from_ns = now_ns();
	show(from_ns, msync(mapped, size, MS_SYNC));
	return 0;
}

static void *write_all(void *argument)
{
	const int file = *(int *)argument;

	for (int i = 0; i < count; i++)
		if (write(file, bytes, size) < 0)
			exit(1);
	return NULL;
}

/* Writes from `size` threads at once; prints the duration of all together. */
static int threads(void)
{
	pthread_t all[THREADS_MAX];
	int file = open_file();
	const int thread_count = size;
	const uint64_t from_ns = now_ns();

	size = 1;
	for (int i = 0; i < thread_count; i++)
		pthread_create(&all[i], NULL, write_all, &file);
	for (int i = 0; i < thread_count; i++)
		pthread_join(all[i], NULL);
	show(from_ns, 0);
	return 0;
}

static void on_signal(int signal)
{
	(void)signal;
	handled++;
}

/* Writes while a signal arrives every 2 ms. */
static int restarted(void)
{
	const struct itimerval timer = {{0, 2000}, {0, 2000}};
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	const int failed = writes();
	printf("handled %d\n", handled > 0);
	return failed;
}

/* Writes until each write succeeds, while a signal arrives every 200 us; prints how many were interrupted. */
static int write_with(int flags)
{
	const struct itimerval timer = {{0, 200}, {0, 200}};
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
	const int file = open_file();
	int failed = 0;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (int i = 0; i < count; i++)
		while (write(file, bytes, size) < 0 && errno == EINTR)
			failed++;
	setitimer(ITIMER_REAL, &(const struct itimerval){0}, NULL);
	printf("%d\n", failed);
	return 0;
}

static int interrupted(void)
{
	return write_with(0);
}

/*
 * Writes while a signal arrives once in some calls, a few microseconds after the call began, where it may not have been
 * received yet; prints how many failed.
 */
static int write_with_one_signal(int flags)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
	const int file = open_file();
	int failed = 0;

	sigaction(SIGALRM, &action, NULL);
	for (int i = 0; i < count; i++) {
		setitimer(ITIMER_REAL, &(const struct itimerval){.it_value = {0, 1 + i % 60}}, NULL);
		if (write(file, bytes, size) < 0)
			failed++;
	}
	setitimer(ITIMER_REAL, &(const struct itimerval){0}, NULL);
	printf("%d\n", failed);
	return 0;
}

static int made_again(void)
{
	return write_with_one_signal(SA_RESTART);
}

/* The handler runs on a stack of its own, as each one does in Go. */
static int made_again_aside(void)
{
	const size_t stack_bytes = 32 << 10;
	/* It lies within a larger piece of memory, as an allocator would place it. */
	char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const stack_t stack = {.ss_sp = memory + (300 << 10), .ss_size = stack_bytes};

	if (memory == MAP_FAILED || sigaltstack(&stack, NULL))
		return 1;
	return write_with_one_signal(SA_RESTART | SA_ONSTACK);
}

static int close_all(void)
{
	syscall(SYS_close_range, 0u, ~0u, 0u);
	const int file = open_file();

	for (int i = 0; i < 3; i++)
		dup(file);
	for (int i = 0; i < count; i++)
		if (write(3, bytes, size) != size)
			return 1;
	return 0;
}

static int own_filter(unsigned flags)
{
	struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	const struct sock_fprog program = {1, code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) < 0)
		printf("%s\n", strerrorname_np(errno));
	return writes();
}

/* Becomes a daemon: in a session of its own, orphaned, and writing until it is killed. */
static int become_daemon(void)
{
	if (fork() > 0)
		return 0;
	setsid();
	if (fork() > 0)
		_exit(0);
	const int file = open_file();
	for (;;) {
		if (write(file, bytes, size) < 0)
			_exit(1);
		usleep(10000);
	}
}

_Noreturn static int ignore_term(void)
{
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (fork() == 0)
		setsid();
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}

/* Counts failed writes; the runner is killed while it writes. */
static int write_on(void)
{
	const int file = open_file();
	int failed = 0;

	puts("ready");
	fflush(stdout);
	for (int i = 0; i < count; i++)
		failed += write(file, bytes, size) != size;
	printf("failed %d\n", failed);
	return failed > 0;
}

static int crash(void)
{
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
	return 0;
}

static int show_fds(void)
{
	for (int fd = 0; fd < 100; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d\n", fd);
	return 0;
}

/* Makes calls that a plan does not cover; io_uring_setup must be refused. */
static int uncovered(void)
{
	char parameters[120] = {0};
	const int file = open_file();

	printf("%s\n", syscall(SYS_io_uring_setup, 4, parameters) < 0 ? strerrorname_np(errno) : "set up");
	syscall(SYS_sendfile, file, file, NULL, 0);
	syscall(SYS_copy_file_range, file, NULL, file, NULL, 0, 0);
	/* Calls of the x32 ABI: kernels without it refuse them, but only after the filter has seen them. */
	syscall(X32 | SYS_write, file, bytes, 1);
	syscall(X32 | SYS_fsync, file);
	syscall(X32 | SYS_getpid);
	return 0;
}

int main(int words, char **word)
{
	const char *what = words > 1 ? word[1] : "";

	path = words > 2 ? word[2] : "/dev/null";
	count = words > 3 ? atoi(word[3]) : 1;
	size = words > 4 ? atoi(word[4]) : 1;
	const struct {
		const char *name;
		int (*run)(void);
	} all[] = {
	    {"writes", writes},
	    {"family", family},
	    {"threads", threads},
	    {"restarted", restarted},
	    {"close_all", close_all},
	    {"daemon", become_daemon},
	    {"ignore_term", ignore_term},
	    {"write_on", write_on},
	    {"crash", crash},
	    {"fds", show_fds},
	    {"uncovered", uncovered},
	    {"interrupted", interrupted},
	    {"made_again", made_again},
	    {"made_again_aside", made_again_aside},
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (strcmp(what, all[i].name) == 0)
			return all[i].run();
	if (strcmp(what, "own_filter") == 0)
		return own_filter(0);
	return strcmp(what, "own_listener") == 0 ? own_filter(SECCOMP_FILTER_FLAG_NEW_LISTENER) : 2;
}
