#include "libbpf_log.h"

#include <bpf/libbpf.h>
#include <cstdarg>
#include <cstdio>

namespace
{

constexpr size_t kVerifierLogBytesMax = 64 * 1024;
constexpr size_t kMessagesBytesMax = 16 * 1024;

thread_local LibbpfLog *current = nullptr;

/* Keeps the end of a log, which has the reason; it is cut at a line. */
std::string tail(std::string text, size_t bytes_max)
{
	if (text.size() <= bytes_max)
		return text;
	const size_t line = text.find('\n', text.size() - bytes_max);
	return line == std::string::npos ? text.substr(text.size() - bytes_max) : text.substr(line + 1);
}

int print(enum libbpf_print_level level, const char *format, va_list args)
{
	if (current == nullptr || level == LIBBPF_DEBUG)
		return 0;
	va_list again;
	va_copy(again, args);
	const int length = vsnprintf(nullptr, 0, format, again);
	va_end(again);
	if (length <= 0)
		return 0;
	std::string text(length + 1, '\0');
	vsnprintf(text.data(), text.size(), format, args);
	text.resize(length);
	current->append(std::move(text));
	return 0;
}

/* libbpf starts each message with this; a message about a program continues with: prog 'NAME': */
constexpr char kSpeaker[] = "libbpf: ";

std::string blamed_program(const std::string &text)
{
	constexpr char kPrefix[] = "prog '";
	if (text.rfind(kPrefix, 0) != 0)
		return "";
	const size_t start = sizeof(kPrefix) - 1;
	const size_t end = text.find('\'', start);
	return end == std::string::npos ? "" : text.substr(start, end - start);
}

} // namespace

LibbpfLog::LibbpfLog() : outer_(current)
{
	current = this;
}

LibbpfLog::~LibbpfLog()
{
	current = outer_;
}

void LibbpfLog::install()
{
	libbpf_set_print(print);
}

void LibbpfLog::append(std::string text)
{
	constexpr char kBegin[] = "-- BEGIN PROG LOAD LOG --\n";
	constexpr char kEnd[] = "-- END PROG LOAD LOG --";

	if (text.rfind(kSpeaker, 0) == 0)
		text.erase(0, sizeof(kSpeaker) - 1);
	if (std::string name = blamed_program(text); !name.empty())
		program_ = std::move(name);
	if (const size_t begin = text.find(kBegin); begin != std::string::npos) {
		const size_t start = begin + sizeof(kBegin) - 1;
		const size_t end = text.rfind(kEnd);
		verifier_log_ =
		    tail(text.substr(start, end == std::string::npos ? end : end - start), kVerifierLogBytesMax);
		return;
	}
	messages_ = tail(messages_ + text, kMessagesBytesMax);
}
