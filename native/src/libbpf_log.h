#pragma once

#include <string>

/*
 * Captures libbpf's messages on this thread during the object's lifetime. libbpf has one print callback per process,
 * and worker threads load at the same time: so the callback writes to the capture of its own thread, and drops messages
 * of a thread without one.
 */
class LibbpfLog
{
      public:
	LibbpfLog();
	~LibbpfLog();
	LibbpfLog(const LibbpfLog &) = delete;
	LibbpfLog &operator=(const LibbpfLog &) = delete;

	/* Must be called at least once per process; after that nothing is printed to stderr. */
	static void install();

	/* The kernel verifier's log of the program that failed; empty when the failure was another one. */
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
