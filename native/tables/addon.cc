#include "tables.h"

#include <napi.h>

/* The functions that daemon/export/sql/native_tables.ts declares. */

namespace
{

/* defineTables(tables, open, makeText) */
void define(const Napi::CallbackInfo &info)
{
	const Napi::Env env = info.Env();
	if (!info[0].IsArray() || !info[1].IsFunction() || !info[2].IsFunction()) {
		Napi::TypeError::New(env, "tables, open and makeText are expected").ThrowAsJavaScriptException();
		return;
	}
	const auto given = info[0].As<Napi::Array>();
	auto *tables = new Tables{env, {}, nullptr, nullptr};
	for (uint32_t i = 0; i < given.Length(); i++) {
		const auto from = given.Get(i).As<Napi::Object>();
		const auto columns = from.Get("columns").As<Napi::Array>();
		Table table = {from.Get("name").ToString(), {}, from.Get("orderColumn").ToNumber().Int32Value()};
		for (uint32_t at = 0; at < columns.Length(); at++) {
			const auto column = columns.Get(at).As<Napi::Object>();
			table.columns.push_back({column.Get("name").ToString(), column.Get("isParameter").ToBoolean(),
						 column.Get("operators").ToString()});
		}
		tables->tables.push_back(std::move(table));
	}
	napi_create_reference(env, info[1], 1, &tables->open);
	napi_create_reference(env, info[2], 1, &tables->make_text);
	offer_tables(tables);
}

Napi::Value failure(const Napi::CallbackInfo &info)
{
	const napi_value value = take_failure(info.Env());
	return value ? Napi::Value(info.Env(), value) : info.Env().Undefined();
}

Napi::Object start(Napi::Env env, Napi::Object exports)
{
	/* Node tells hooks apart by their arguments, so each loading of the addon needs its own. */
	napi_add_env_cleanup_hook(
	    env,
	    [](void *argument) {
		    end_environment();
		    delete static_cast<char *>(argument);
	    },
	    new char);
	exports.Set("defineTables", Napi::Function::New<define>(env, "defineTables"));
	exports.Set("takeFailure", Napi::Function::New<failure>(env, "takeFailure"));
	return exports;
}

} // namespace

NODE_API_MODULE(tables, start)
