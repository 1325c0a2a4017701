#include "../base/time_slice.h"

#include <cstddef>
#include <cstring>
#include <linux/sockios.h>
#include <napi.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Makes the system calls that Node does not have. The file that calls a function declares it:
 *
 *   peerUser      agent/recording/pin_socket/pin_socket.ts
 *   sendDatagram  agent/process/service_manager.ts
 *   unsentBytes   daemon/http/socket_progress.ts
 *   setTimeSlice  daemon/thread_schedule.ts
 */

namespace
{

/*
 * Sends one datagram to a Unix socket, as sd_notify(3) does, and returns whether it was sent. It never blocks: a
 * manager that does not read must not block the event loop.
 */
Napi::Value send_datagram(const Napi::CallbackInfo &info)
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

/*
 * Bytes of a TCP or Unix socket that the kernel queues until the peer has room for them; 0 for any other descriptor.
 * For a Unix socket the count includes the overhead of the buffers.
 */
Napi::Value unsent_bytes(const Napi::CallbackInfo &info)
{
	int bytes = 0;
	if (ioctl(info[0].As<Napi::Number>().Int32Value(), SIOCOUTQ, &bytes) != 0)
		bytes = 0;
	return Napi::Number::New(info.Env(), bytes);
}

/* User of the process that connected to a Unix socket, as the kernel noted it then; -1 if it is not known. */
Napi::Value peer_user(const Napi::CallbackInfo &info)
{
	ucred peer = {};
	socklen_t size = sizeof(peer);
	if (getsockopt(info[0].As<Napi::Number>().Int32Value(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return Napi::Number::New(info.Env(), -1);
	return Napi::Number::New(info.Env(), static_cast<double>(peer.uid));
}

void set_slice(const Napi::CallbackInfo &info)
{
	set_time_slice(static_cast<uint64_t>(info[0].As<Napi::Number>().Int64Value()));
}

Napi::Object start(Napi::Env env, Napi::Object exports)
{
	exports.Set("peerUser", Napi::Function::New<peer_user>(env, "peerUser"));
	exports.Set("sendDatagram", Napi::Function::New<send_datagram>(env, "sendDatagram"));
	exports.Set("unsentBytes", Napi::Function::New<unsent_bytes>(env, "unsentBytes"));
	exports.Set("setTimeSlice", Napi::Function::New<set_slice>(env, "setTimeSlice"));
	return exports;
}

} // namespace

NODE_API_MODULE(system, start)
