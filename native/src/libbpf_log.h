#pragma once

#include <string>

/*
 * What libbpf says on this thread while one of these lives. libbpf's print callback is one for the process,
 * and worker threads load at the same time: so it writes to the capture of its own thread, and drops the
 * rest.
 */
class LibbpfLog
{
      public:
	LibbpfLog();
	~LibbpfLog();
	LibbpfLog(const LibbpfLog &) = delete;
	LibbpfLog &operator=(const LibbpfLog &) = delete;

	/* Call once per process or more often; nothing is printed to stderr afterwards. */
	static void install();

	/* The kernel verifier's log of the program that failed; empty when it wasn't the verifier. */
	const std::string &verifier_log() const
	{
		return verifier_log_;
	}
	/* libbpf's own messages. */
	const std::string &messages() const
	{
		return messages_;
	}
	/* The program that libbpf blames; empty when it blames none. */
	const std::string &program() const
	{
		return program_;
	}

	void append(std::string text);

      private:
	LibbpfLog *outer_;
	std::string verifier_log_;
	std::string messages_;
	std::string program_;
};
