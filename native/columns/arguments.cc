#include "arguments.h"

bool read_array(const Napi::Value &value, Array &array)
{
	void *data = nullptr;
	if (napi_get_typedarray_info(value.Env(), value, &array.type, &array.length, &data, nullptr, nullptr) !=
	    napi_ok)
		return false;
	array.data = static_cast<uint8_t *>(data);
	return true;
}

size_t width_of(napi_typedarray_type type)
{
	switch (type) {
	case napi_uint8_array:
		return 1;
	case napi_uint16_array:
		return 2;
	case napi_uint32_array:
	case napi_int32_array:
		return 4;
	case napi_biguint64_array:
	case napi_bigint64_array:
		return 8;
	default:
		return 0;
	}
}

bool read_bytes(const Napi::Value &value, Array &array)
{
	return read_array(value, array) && array.type == napi_uint8_array;
}

bool read_indexes(const Napi::Value &value, Array &array)
{
	return read_array(value, array) && array.type == napi_uint32_array;
}

bool read_values(const Napi::Value &value, Values &values)
{
	Array array;
	if (!read_array(value, array) || width_of(array.type) == 0)
		return false;
	values = {array.data, array.length, width_of(array.type)};
	return true;
}

bool read_size(const Napi::Value &value, size_t &size)
{
	if (!value.IsNumber())
		return false;
	const int64_t number = value.As<Napi::Number>().Int64Value();
	size = static_cast<size_t>(number);
	return number >= 0;
}

Napi::Value wrong_arguments(const Napi::CallbackInfo &info)
{
	Napi::TypeError::New(info.Env(), "columns: an argument has a wrong type or size").ThrowAsJavaScriptException();
	return info.Env().Undefined();
}
