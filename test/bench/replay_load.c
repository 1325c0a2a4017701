/*
 * Measures both sides of a replay's accuracy on one CPU. Prints one line of JSON.
 *
 *   replay_load sleep CPU PERIOD_NS COUNT      # sleeps to deadlines: how late the kernel wakes a program
 *   replay_load send CPU PERIOD_NS COUNT VIEWER_CPU
 *                                              # the same, and sends a frame's bytes to a process on another CPU: also
 *                                              # how late they arrive there
 *   replay_load view CPU SOCKET SESSION...     # plays sessions of the daemon at SOCKET and reads them to the end: the
 *                                              # lateness that their events report, and how late they arrive here
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "percentiles.h"

#define SESSIONS_MAX 1000
#define BUFFER_SIZE (1 << 19)
/* As many as a frame of the recording that is played. */
#define FRAME_BYTES 640
/* Time until the first deadline. */
#define START_AFTER_NS 10000000

struct moment {
	int64_t offset_ns, due_ns, lateness_ns, received_ns;
};

struct view {
	const char *session;
	int fd;
	/* The session's state has arrived, which is the first thing a viewer gets. */
	int joined;
	int ended;
	long events;
	struct moment first, last;
	size_t length;
	char *buffer;
};

static struct view views[SESSIONS_MAX];
/* Over all sessions: the lateness that each event reports, and how late it arrived here. */
static struct times lateness, received;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Receives frames that begin with their deadlines, and prints how late they are. */
static void receive_frames(int fd)
{
	static char buffer[BUFFER_SIZE];
	size_t length = 0;
	ssize_t count;

	while ((count = recv(fd, buffer + length, sizeof(buffer) - length, 0)) > 0) {
		int64_t received_ns = now_ns(), due_ns;
		size_t at = 0;

		for (length += count; length - at >= FRAME_BYTES; at += FRAME_BYTES) {
			memcpy(&due_ns, buffer + at, sizeof(due_ns));
			add_time(&received, received_ns - due_ns);
		}
		length -= at;
		memmove(buffer, buffer + at, length);
	}
	printf("{");
	print_times("received_ns", &received);
	printf(", ");
	fflush(stdout);
}

static void use_cpu(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "CPU %d", cpu);
}

/* Returns the socket of a process that receives frames on another CPU. */
static int start_receiver(int cpu)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		err(1, "socketpair");
	if (fork() == 0) {
		close(ends[0]);
		use_cpu(cpu);
		receive_frames(ends[1]);
		exit(0);
	}
	close(ends[1]);
	return ends[0];
}

/* `fd` gets a frame at each deadline, unless it is negative. */
static void sleep_to_deadlines(int64_t period_ns, long count, int fd)
{
	char frame[FRAME_BYTES] = {};
	int64_t start_ns = now_ns() + START_AFTER_NS;
	struct rusage usage;

	for (long i = 0; i < count; i++) {
		int64_t due_ns = start_ns + i * period_ns;
		struct timespec until = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
			;
		add_time(&lateness, now_ns() - due_ns);
		memcpy(frame, &due_ns, sizeof(due_ns));
		if (fd >= 0 && send(fd, frame, sizeof(frame), MSG_NOSIGNAL) != sizeof(frame))
			err(1, "send");
	}
	getrusage(RUSAGE_SELF, &usage);
	if (fd >= 0) {
		close(fd);
		wait(NULL);
	} else {
		printf("{");
	}
	print_times("lateness_ns", &lateness);
	printf(", \"cpu_ns\": %lld, \"elapsed_ns\": %ld}\n",
	       (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL +
		   (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL,
	       now_ns() - start_ns);
}

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		err(1, "%s", path);
	return fd;
}

static void send_all(int fd, const char *text)
{
	size_t length = strlen(text);

	while (length > 0) {
		ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);

		if (sent < 0)
			err(1, "send");
		text += sent;
		length -= sent;
	}
}

static void open_view(struct view *view, const char *path, const char *session)
{
	char request[512];

	view->session = session;
	view->fd = connect_to(path);
	view->buffer = malloc(BUFFER_SIZE);
	if (!view->buffer)
		err(1, "memory");
	snprintf(request, sizeof(request),
		 "GET /api/replay/sessions/%s/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		 session);
	send_all(view->fd, request);
}

/* The daemon closes a connection on which more requests than this are pipelined. */
#define PIPELINED_MAX 32
#define PLAYS_MAX (SESSIONS_MAX / PIPELINED_MAX + 1)

/* Connections on which the sessions are played. */
static int play_fds[PLAYS_MAX];
static int play_fd_count;

/* Pipelines the requests on a few connections, without waiting for the answers. */
static void play_all(const char *path, int count)
{
	int fd = -1;

	for (int i = 0; i < count; i++) {
		char request[512];

		if (i % PIPELINED_MAX == 0)
			fd = play_fds[play_fd_count++] = connect_to(path);
		snprintf(request, sizeof(request),
			 "POST /api/replay/sessions/%s/play HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
			 views[i].session);
		send_all(fd, request);
	}
}

static int64_t field(const char *line, const char *name)
{
	const char *found = strstr(line, name);

	if (!found)
		errx(1, "no %s in: %s", name, line);
	return strtoll(found + strlen(name), NULL, 10);
}

static void take_event(struct view *view, const char *replay, int64_t received_ns)
{
	struct moment moment;

	moment.offset_ns = field(replay, "\"offset_ns\":");
	moment.due_ns = field(replay, "\"due_ns\":");
	moment.lateness_ns = field(replay, "\"lateness_ns\":");
	moment.received_ns = received_ns;
	if (view->events++ == 0)
		view->first = moment;
	view->last = moment;
	add_time(&lateness, moment.lateness_ns);
	add_time(&received, received_ns - moment.due_ns);
}

static void take_line(struct view *view, const char *line, int64_t received_ns)
{
	static const char REPLAY[] = "\"replay\":{";
	const char *replay;

	if (strncmp(line, "HTTP/1.1 ", 9) == 0 && strncmp(line + 9, "200", 3) != 0)
		errx(1, "session %s: %s", view->session, line);
	if (strncmp(line, "event: gap", 10) == 0)
		errx(1, "session %s: frames were dropped", view->session);
	if (strncmp(line, "event: state", 12) == 0)
		view->joined = 1;
	if (strncmp(line, "data: ", 6) != 0)
		return;
	/* Events that became due together arrive in one frame. */
	for (replay = strstr(line, REPLAY); replay; replay = strstr(replay + 1, REPLAY))
		take_event(view, replay, received_ns);
}

static void take_lines(struct view *view, int64_t received_ns)
{
	char *start = view->buffer;
	char *stop;

	view->buffer[view->length] = 0;
	while ((stop = strchr(start, '\n'))) {
		*stop = 0;
		take_line(view, start, received_ns);
		start = stop + 1;
	}
	view->length -= start - view->buffer;
	memmove(view->buffer, start, view->length);
}

static void read_view(struct view *view)
{
	size_t room = BUFFER_SIZE - 1 - view->length;
	ssize_t length;

	if (room == 0)
		errx(1, "session %s: a line too long", view->session);
	length = recv(view->fd, view->buffer + view->length, room, 0);
	if (length < 0)
		err(1, "recv");
	if (length == 0) {
		view->ended = 1;
		close(view->fd);
		return;
	}
	view->length += length;
	take_lines(view, now_ns());
}

static void watch(int poll_fd, int fd, struct view *view)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = view};

	if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event))
		err(1, "epoll_ctl");
}

/* Reads the answers to the commands that play, which say nothing unless the daemon refuses the commands. */
static void discard(int *fd)
{
	static char answers[BUFFER_SIZE];

	if (*fd < 0 || recv(*fd, answers, sizeof(answers), MSG_DONTWAIT) != 0)
		return;
	for (int i = 0; i < SESSIONS_MAX; i++)
		if (views[i].joined && !views[i].events)
			errx(1, "session %s: the daemon has closed the connection that plays it", views[i].session);
	close(*fd);
	*fd = -1;
}

static void view_sessions(const char *path, int count, char **sessions)
{
	int poll_fd = epoll_create1(0), joined, ended = 0;
	struct epoll_event ready[64];

	for (int i = 0; i < count; i++) {
		open_view(&views[i], path, sessions[i]);
		watch(poll_fd, views[i].fd, &views[i]);
	}
	while (ended < count) {
		int found = epoll_wait(poll_fd, ready, 64, -1);

		if (found < 0 && errno != EINTR)
			err(1, "epoll_wait");
		for (int i = 0; i < found; i++) {
			struct view *view = ready[i].data.ptr;

			if (!view) {
				for (int at = 0; at < play_fd_count; at++)
					discard(&play_fds[at]);
				continue;
			}
			read_view(view);
			ended += view->ended;
		}
		if (play_fd_count > 0)
			continue;
		joined = 0;
		for (int i = 0; i < count; i++)
			joined += views[i].joined;
		if (joined == count) {
			play_all(path, count);
			for (int at = 0; at < play_fd_count; at++)
				watch(poll_fd, play_fds[at], NULL);
		}
	}
}

static void print_moment(const char *name, const struct moment *moment)
{
	printf("\"%s\": {\"offset_ns\": %ld, \"due_ns\": %ld, \"lateness_ns\": %ld, \"received_ns\": %ld}", name,
	       moment->offset_ns, moment->due_ns, moment->lateness_ns, moment->received_ns);
}

static void print_views(int count)
{
	printf("{");
	print_times("lateness_ns", &lateness);
	printf(", ");
	print_times("received_ns", &received);
	printf(", \"sessions\": [");
	for (int i = 0; i < count; i++) {
		printf("%s{\"events\": %ld, ", i == 0 ? "" : ", ", views[i].events);
		print_moment("first", &views[i].first);
		printf(", ");
		print_moment("last", &views[i].last);
		printf("}");
	}
	printf("]}\n");
}

int main(int argc, char **argv)
{
	if (argc < 5 || argc - 4 > SESSIONS_MAX)
		errx(2, "usage: replay_load sleep CPU PERIOD_NS COUNT | send CPU PERIOD_NS COUNT VIEWER_CPU | "
			"view CPU SOCKET SESSION...");
	use_cpu(atoi(argv[2]));
	if (!strcmp(argv[1], "sleep")) {
		sleep_to_deadlines(atoll(argv[3]), atol(argv[4]), -1);
	} else if (!strcmp(argv[1], "send") && argc == 6) {
		sleep_to_deadlines(atoll(argv[3]), atol(argv[4]), start_receiver(atoi(argv[5])));
	} else {
		view_sessions(argv[3], argc - 4, argv + 4);
		print_views(argc - 4);
	}
	return 0;
}
