#include "object.h"

#include "libbpf_log.h"
#include "type_information.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

Napi::Function NativeObject::define(Napi::Env env)
{
	return DefineClass(env, "NativeObject",
			   {
			       InstanceMethod("close", &NativeObject::close),
			       InstanceMethod("programs", &NativeObject::programs),
			       InstanceMethod("maps", &NativeObject::maps),
			       InstanceMethod("setAutoload", &NativeObject::set_autoload),
			       InstanceMethod("setAutocreate", &NativeObject::set_autocreate),
			       InstanceMethod("setMaxEntries", &NativeObject::set_max_entries),
			       InstanceMethod("load", &NativeObject::load),
			       InstanceMethod("variables", &NativeObject::variables),
			       InstanceMethod("setVariable", &NativeObject::set_variable),
			       InstanceMethod("attach", &NativeObject::attach),
			       InstanceMethod("attachAll", &NativeObject::attach_all),
			       InstanceMethod("detach", &NativeObject::detach),
			       InstanceMethod("detachAll", &NativeObject::detach_all),
			       InstanceMethod("testRun", &NativeObject::test_run),
			       InstanceMethod("iterate", &NativeObject::iterate),
			       InstanceMethod("programStats", &NativeObject::program_stats),
			       InstanceMethod("setRunStats", &NativeObject::set_run_stats),
			       InstanceMethod("mapOpen", &NativeObject::map_open),
			       InstanceMethod("mapGet", &NativeObject::map_get),
			       InstanceMethod("mapSet", &NativeObject::map_set),
			       InstanceMethod("mapSetMap", &NativeObject::map_set_map),
			       InstanceMethod("mapDelete", &NativeObject::map_delete),
			       InstanceMethod("mapKeys", &NativeObject::map_keys),
			       InstanceMethod("ringOpen", &NativeObject::ring_open),
			       InstanceMethod("ringsCreate", &NativeObject::rings_create),
			       InstanceMethod("ringDrain", &NativeObject::ring_drain),
			       InstanceMethod("ringPending", &NativeObject::ring_pending),
			       InstanceMethod("ringConsumed", &NativeObject::ring_consumed),
			       InstanceMethod("ringTakePeak", &NativeObject::ring_take_peak),
			       InstanceMethod("ringWait", &NativeObject::ring_wait),
			       InstanceMethod("ringEndWait", &NativeObject::ring_end_wait),
			       InstanceMethod("ringClose", &NativeObject::ring_close),
			   });
}

namespace
{

/* Limit of the file size; usual objects have some hundred KiB. */
constexpr off_t kFileBytesMax = 256 << 20;

/* Returns 0, or an errno value for an unsuitable file. */
int check_file(int fd, off_t *size)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return errno;
	if (S_ISDIR(status.st_mode))
		return EISDIR;
	if (!S_ISREG(status.st_mode))
		return EINVAL;
	*size = status.st_size;
	return status.st_size > kFileBytesMax ? EFBIG : 0;
}

/* Reads `size` bytes, or fewer if the file has been truncated meanwhile. */
int read_whole(int fd, off_t size, std::string *content)
{
	size_t filled = 0;
	content->resize(size);
	while (filled < content->size()) {
		const ssize_t count = read(fd, content->data() + filled, content->size() - filled);
		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return errno;
		if (count == 0)
			break;
		filled += count;
	}
	content->resize(filled);
	return 0;
}

/* Never blocks, not even in open() for the other end of a pipe. */
int read_file(const std::string &path, std::string *content)
{
	off_t size = 0;
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno;
	int error = check_file(fd, &size);
	if (error == 0)
		error = read_whole(fd, size, content);
	close(fd);
	return error;
}

/* The name that bpf_object__open_file() gives an object: the file name up to the first dot. */
std::string name_of(const std::string &path)
{
	const std::string file = path.substr(path.rfind('/') + 1);
	return file.substr(0, file.find('.'));
}

/* Throws the error of malformed type information, which libbpf 1.1 does not check for. */
bool has_fault(Napi::Env env, const uint8_t *file, size_t size)
{
	const std::string fault = type_information_fault(file, size);
	if (!fault.empty())
		throw_malformed(env, "bpf_object__open", fault);
	return !fault.empty();
}

} // namespace

/* (file: string | Uint8Array, name: string, logLevel: number); an empty name selects the default name. */
NativeObject::NativeObject(const Napi::CallbackInfo &info) : Napi::ObjectWrap<NativeObject>(info)
{
	const Napi::Value file = info[0];
	if ((!file.IsString() && !is_bytes(file)) || !info[1].IsString() || !is_uint32(info[2])) {
		throw_type(info.Env(), "Expected 'file' to be a string or a Uint8Array");
		return;
	}
	std::string name = info[1].As<Napi::String>().Utf8Value();
	std::string content;
	Bytes bytes = {};
	if (file.IsString()) {
		const std::string path = file.As<Napi::String>().Utf8Value();
		if (const int error = read_file(path, &content)) {
			throw_bpf(info.Env(), "open", error);
			return;
		}
		bytes = {reinterpret_cast<uint8_t *>(content.data()), content.size()};
		if (name.empty())
			name = name_of(path);
	} else {
		bytes = as_bytes(file);
	}
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = name.empty() ? nullptr : name.c_str(),
		    .kernel_log_level = info[2].As<Napi::Number>().Uint32Value());
	LibbpfLog log;
	if (has_fault(info.Env(), bytes.data, bytes.size))
		return;
	/* libbpf opens the checked bytes, not the path, which may name another file by now. */
	object_.reset(bpf_object__open_mem(bytes.data, bytes.size, &options));
	if (object_ == nullptr) {
		throw_bpf(info.Env(), "bpf_object__open_mem", errno, &log);
		return;
	}
	bpf_map *map;
	bpf_object__for_each_map(map, object_.get()) maps_.push_back(map);
	rings_.resize(maps_.size());
	state_ = State::kOpen;
}

/*
 * Node runs the finalizers of all wrapped objects when an environment ends, including worker.terminate(), so this needs
 * no cleanup hook of its own. Where process.exit() skips them, the kernel closes the file descriptors.
 */
NativeObject::~NativeObject()
{
	release();
}

void NativeObject::release() noexcept
{
	state_ = State::kClosed;
	links_.clear();
	waits_.clear();
	rings_.clear();
	maps_.clear();
	object_.reset();
	if (run_stats_fd_ >= 0)
		::close(run_stats_fd_);
	run_stats_fd_ = -1;
}

Napi::Value NativeObject::close(const Napi::CallbackInfo &info)
{
	std::vector<Napi::Function> callbacks;
	for (auto &[index, wait] : waits_)
		callbacks.push_back(wait->end());
	release();
	for (const Napi::Function &callback : callbacks)
		if (!callback.IsEmpty())
			callback.Call({Napi::Boolean::New(info.Env(), false)});
	return info.Env().Undefined();
}

Napi::Value NativeObject::programs(const Napi::CallbackInfo &info)
{
	REQUIRE_NOT_CLOSED();
	const Napi::Env env = info.Env();
	Napi::Array list = Napi::Array::New(env);
	bpf_program *program;
	bpf_object__for_each_program(program, object_.get())
	{
		Napi::Object entry = Napi::Object::New(env);
		entry.Set("name", bpf_program__name(program));
		entry.Set("section", bpf_program__section_name(program));
		entry.Set("type", Napi::Number::New(env, bpf_program__type(program)));
		entry.Set("autoload", Napi::Boolean::New(env, bpf_program__autoload(program)));
		entry.Set("attached", Napi::Boolean::New(env, links_.count(program) != 0));
		list.Set(list.Length(), entry);
	}
	return list;
}

Napi::Value NativeObject::maps(const Napi::CallbackInfo &info)
{
	REQUIRE_NOT_CLOSED();
	const Napi::Env env = info.Env();
	Napi::Array list = Napi::Array::New(env);
	for (bpf_map *map : maps_) {
		Napi::Object entry = Napi::Object::New(env);
		entry.Set("name", bpf_map__name(map));
		entry.Set("type", Napi::Number::New(env, bpf_map__type(map)));
		entry.Set("keySize", Napi::Number::New(env, bpf_map__key_size(map)));
		entry.Set("valueSize", Napi::Number::New(env, bpf_map__value_size(map)));
		entry.Set("maxEntries", Napi::Number::New(env, bpf_map__max_entries(map)));
		list.Set(list.Length(), entry);
	}
	return list;
}

Napi::Value NativeObject::set_autoload(const Napi::CallbackInfo &info)
{
	REQUIRE_BEFORE_LOAD();
	REQUIRE_PROGRAM(0, program);
	REQUIRE_BOOLEAN(1, on);
	const int error = bpf_program__set_autoload(program, on);
	if (error < 0)
		throw_bpf(info.Env(), "bpf_program__set_autoload", error, nullptr, program_name);
	return info.Env().Undefined();
}

#define REQUIRE_MAP_BEFORE_LOAD(map)                                                                                   \
	REQUIRE_BEFORE_LOAD();                                                                                         \
	REQUIRE_STRING(0, map##_name);                                                                                 \
	bpf_map *map = bpf_object__find_map_by_name(object_.get(), map##_name.c_str());                                \
	if (map == nullptr) {                                                                                          \
		throw_code(info.Env(), "ERR_NOT_FOUND", "No map '" + map##_name + "' in this object");                 \
		return info.Env().Undefined();                                                                         \
	}

Napi::Value NativeObject::set_autocreate(const Napi::CallbackInfo &info)
{
	REQUIRE_MAP_BEFORE_LOAD(map);
	REQUIRE_BOOLEAN(1, on);
	const int error = bpf_map__set_autocreate(map, on);
	if (error < 0)
		throw_bpf(info.Env(), "bpf_map__set_autocreate", error);
	return info.Env().Undefined();
}

Napi::Value NativeObject::set_max_entries(const Napi::CallbackInfo &info)
{
	REQUIRE_MAP_BEFORE_LOAD(map);
	REQUIRE_UINT32(1, count);
	const int error = bpf_map__set_max_entries(map, count);
	if (error < 0)
		throw_bpf(info.Env(), "bpf_map__set_max_entries", error);
	return info.Env().Undefined();
}

namespace
{

/*
 * Blocks signals in this thread: the kernel's verifier gives up with EAGAIN as soon as one is pending (Linux commit
 * c3494801cd17), and libbpf tries only five times. Signals that a fault causes are not blocked, because they go to the
 * thread itself. Others wait, or are handled by another thread of the process.
 */
class WithoutSignals
{
      public:
	WithoutSignals()
	{
		sigset_t all;
		sigfillset(&all);
		for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
			sigdelset(&all, fault);
		pthread_sigmask(SIG_BLOCK, &all, &before_);
	}
	~WithoutSignals()
	{
		pthread_sigmask(SIG_SETMASK, &before_, nullptr);
	}
	WithoutSignals(const WithoutSignals &) = delete;
	WithoutSignals &operator=(const WithoutSignals &) = delete;

      private:
	sigset_t before_;
};

} // namespace

Napi::Value NativeObject::load(const Napi::CallbackInfo &info)
{
	REQUIRE_BEFORE_LOAD();
	LibbpfLog log;
	int error;
	{
		const WithoutSignals blocked;
		error = bpf_object__load(object_.get());
	}
	/* libbpf refuses a second try after a failure, and so does kFailed. */
	state_ = error < 0 ? State::kFailed : State::kLoaded;
	if (error < 0)
		throw_bpf(info.Env(), "bpf_object__load", error, &log);
	return info.Env().Undefined();
}
