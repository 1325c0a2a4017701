#include <linux/sockios.h>
#include <napi.h>
#include <sys/ioctl.h>

/*
 * Queries the kernel for socket state that Node does not expose. daemon/http/access/taken.ts declares the function.
 */

namespace
{

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

Napi::Object start(Napi::Env env, Napi::Object exports)
{
	exports.Set("unsentBytes", Napi::Function::New<unsent_bytes>(env, "unsentBytes"));
	return exports;
}

} // namespace

NODE_API_MODULE(socket, start)
