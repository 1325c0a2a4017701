#include <cstddef>
#include <cstring>
#include <napi.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Sends one datagram to a Unix socket, as sd_notify(3) does: Node has no Unix datagram sockets.
 * agent/process/service_manager.ts declares the function.
 */

namespace
{

/* Returns whether the datagram was sent. It never blocks: a manager that does not read must not block the event loop.
 */
Napi::Value send(const Napi::CallbackInfo &info)
{
	const std::string path = info[0].As<Napi::String>();
	const std::string text = info[1].As<Napi::String>();
	sockaddr_un address = {};
	if (path.empty() || path.size() >= sizeof(address.sun_path))
		return Napi::Boolean::New(info.Env(), false);
	address.sun_family = AF_UNIX;
	memcpy(address.sun_path, path.data(), path.size());
	/* An abstract name starts with a NUL byte and has no terminator: its length delimits it. */
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	const socklen_t size = offsetof(sockaddr_un, sun_path) + path.size() + (path[0] == '@' ? 0 : 1);
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return Napi::Boolean::New(info.Env(), false);
	const ssize_t sent = sendto(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
				    reinterpret_cast<const sockaddr *>(&address), size);
	close(fd);
	return Napi::Boolean::New(info.Env(), sent == static_cast<ssize_t>(text.size()));
}

Napi::Object start(Napi::Env env, Napi::Object exports)
{
	exports.Set("send", Napi::Function::New<send>(env, "send"));
	return exports;
}

} // namespace

NODE_API_MODULE(notify, start)
