#include <linux/sockios.h>
#include <napi.h>
#include <sys/ioctl.h>

/*
 * What the kernel knows of a socket and Node does not ask for. What daemon/http/access/taken.ts declares.
 */

namespace
{

/*
 * Bytes that the kernel holds until the other side has room for them, of a TCP or Unix socket; 0 of anything else.
 * Those of a Unix socket are with the memory around them.
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
