#include "shipment_addon.h"

#include "arguments.h"
#include "owned.h"
#include "shipment.h"

#include <algorithm>
#include <memory>
#include <string>

namespace
{

constexpr size_t kRowsMax = 1 << 20;
/* The values of `part` and `refers` are numbers here; agent/ship/rows/shipment_plan.ts has the same. */
constexpr size_t kPartsEnd = static_cast<size_t>(EventPart::count), kRefersEnd = static_cast<size_t>(Refers::count);

std::span<const uint32_t> indexes_of(const Array &array)
{
	return {reinterpret_cast<const uint32_t *>(array.data), array.length};
}

bool read_text(const Napi::Value &value, std::string &text)
{
	if (!value.IsString())
		return false;
	text = value.As<Napi::String>().Utf8Value();
	return true;
}

bool read_text(const Napi::Value &value, TextPool &pool, uint32_t &place)
{
	std::string text;
	if (!read_text(value, text))
		return false;
	place = pool.add(text);
	return true;
}

bool read_u64(const Napi::Value &value, uint64_t &number)
{
	bool lossless = false;
	if (value.IsBigInt())
		number = value.As<Napi::BigInt>().Uint64Value(&lossless);
	return lossless;
}

/* Reads each element of an array. */
template <typename Element, typename Read>
bool read_list(const Napi::Value &value, std::vector<Element> &list, Read read)
{
	if (!value.IsArray())
		return false;
	const Napi::Array array = value.As<Napi::Array>();
	list.resize(array.Length());
	for (uint32_t i = 0; i < array.Length(); i++) {
		const Napi::Value element = array.Get(i);
		if (!element.IsObject() || !read(element.As<Napi::Object>(), list[i]))
			return false;
	}
	return true;
}

bool read_texts(const Napi::Value &value, TextPool &pool, std::vector<uint32_t> &places)
{
	if (!value.IsArray())
		return false;
	const Napi::Array array = value.As<Napi::Array>();
	places.resize(array.Length());
	for (uint32_t i = 0; i < array.Length(); i++) {
		if (!read_text(array.Get(i), pool, places[i]))
			return false;
	}
	return true;
}

bool read_column(const Napi::Object &object, RecordedColumn &column)
{
	size_t event_type, width, refers;
	if (!read_size(object.Get("eventType"), event_type) || event_type > UINT8_MAX ||
	    !read_size(object.Get("width"), width) || width > sizeof(uint64_t) ||
	    !read_size(object.Get("refers"), refers) || refers >= kRefersEnd)
		return false;
	column = {static_cast<uint8_t>(event_type), static_cast<uint8_t>(width), static_cast<Refers>(refers)};
	return true;
}

bool read_head(const Napi::Object &object, ColumnHead &head)
{
	return read_text(object.Get("name"), head.name) && read_text(object.Get("type"), head.type);
}

bool read_event_column(const Napi::Object &object, TextPool &pool, EventColumn &column)
{
	size_t part, place;
	if (!read_head(object, column.head) || !read_size(object.Get("part"), part) || part >= kPartsEnd ||
	    !read_size(object.Get("column"), place) || place > UINT32_MAX ||
	    !read_texts(object.Get("words"), pool, column.words))
		return false;
	column.part = static_cast<EventPart>(part);
	column.column = static_cast<uint32_t>(place);
	return true;
}

bool read_roles(const Napi::Object &plan, RecordedColumns &recorded)
{
	constexpr size_t kRoles = 7, kSlotParts = 4;
	Array roles, origins, devices;
	if (!read_indexes(plan.Get("roles"), roles) || roles.length != kRoles ||
	    !read_indexes(plan.Get("origins"), origins) || origins.length % kSlotParts != 0 ||
	    !read_indexes(plan.Get("devices"), devices))
		return false;
	const auto role = indexes_of(roles);
	recorded.event_type = role[0];
	recorded.timestamp = role[1];
	recorded.duration = role[2];
	recorded.result = role[3];
	recorded.context_source = role[4];
	recorded.context = role[5];
	recorded.service = role[6];
	const auto parts = indexes_of(origins);
	for (size_t i = 0; i < parts.size(); i += kSlotParts)
		recorded.origins.push_back({parts[i], parts[i + 1], parts[i + 2], parts[i + 3]});
	recorded.devices.assign(indexes_of(devices).begin(), indexes_of(devices).end());
	return true;
}

bool read_recorded(const Napi::Object &plan, TextPool &pool, RecordedColumns &recorded)
{
	size_t written_back;
	std::vector<uint32_t> type_names;
	if (!read_list(plan.Get("columns"), recorded.columns, read_column) || !read_roles(plan, recorded) ||
	    !read_size(plan.Get("writtenBack"), written_back) || written_back > UINT8_MAX ||
	    !read_u64(plan.Get("recording"), recorded.recording) || !read_text(plan.Get("node"), pool, recorded.node) ||
	    !read_text(plan.Get("severalOwners"), pool, recorded.several_owners) ||
	    !read_texts(plan.Get("typeNames"), pool, type_names) || type_names.size() > recorded.type_names.size())
		return false;
	recorded.written_back = static_cast<uint8_t>(written_back);
	recorded.type_names.fill(0);
	std::ranges::copy(type_names, recorded.type_names.begin());
	return is_valid(recorded);
}

bool read_tables(const Napi::Value &value, Shipment &shipment)
{
	if (!value.IsArray() || value.As<Napi::Array>().Length() != shipment.tables.size())
		return false;
	for (uint32_t i = 0; i < shipment.tables.size(); i++) {
		std::vector<ColumnHead> heads;
		if (!read_list(value.As<Napi::Array>().Get(i), heads, read_head) ||
		    !shipment.tables[i].set_columns(std::move(heads)))
			return false;
	}
	return has_known_tables(shipment);
}

/* (plan) -> shipment */
Napi::Value create_shipment(const Napi::CallbackInfo &info)
{
	if (!info[0].IsObject())
		return wrong_arguments(info);
	const Napi::Object plan = info[0].As<Napi::Object>();
	References references;
	RecordedColumns recorded;
	NameRows names;
	std::vector<EventColumn> event_columns;
	const auto read_event = [&](const Napi::Object &object, EventColumn &column) {
		return read_event_column(object, references.texts, column) && is_valid(column, recorded);
	};
	if (!read_recorded(plan, references.texts, recorded) ||
	    !read_list(plan.Get("events"), event_columns, read_event) ||
	    !read_text(plan.Get("serviceKind"), references.texts, names.service_kind) ||
	    !read_text(plan.Get("deviceKind"), references.texts, names.device_kind))
		return wrong_arguments(info);
	references.texts.keep();
	auto shipment = std::make_unique<Shipment>(recorded, std::move(references));
	shipment->event_columns = std::move(event_columns);
	shipment->names = std::move(names);
	if (!read_tables(plan.Get("tables"), *shipment))
		return wrong_arguments(info);
	return owned(info.Env(), shipment.release());
}

/* (shipment) */
Napi::Value begin_group(const Napi::CallbackInfo &info)
{
	Shipment *shipment = read_owned<Shipment>(info[0]);
	if (!shipment)
		return wrong_arguments(info);
	shipment->begin();
	return info.Env().Undefined();
}

bool read_recorded_values(const Napi::Value &value, RecordedValues &values)
{
	Values read;
	if (!read_values(value, read))
		return false;
	values = {read.data, read.count, read.width};
	return true;
}

/*
 * (shipment, columns of the recording, numbers: BigUint64Array, rows, first number, places of event columns:
 * Uint32Array, output: Uint8Array) -> bytes of the block, 0 if there is no room, undefined if ids are not known
 */
Napi::Value add_segment(const Napi::CallbackInfo &info)
{
	Shipment *shipment = read_owned<Shipment>(info[0]);
	RecordedValues numbers;
	Array chosen, output;
	size_t rows, first_number;
	if (!shipment || !info[1].IsArray() || !read_recorded_values(info[2], numbers) || !read_size(info[3], rows) ||
	    rows > kRowsMax || !read_size(info[4], first_number) || !read_indexes(info[5], chosen) ||
	    !read_bytes(info[6], output))
		return wrong_arguments(info);
	const Napi::Array columns = info[1].As<Napi::Array>();
	std::vector<RecordedValues> values(columns.Length());
	if (values.size() != shipment->segment.schema().columns.size())
		return wrong_arguments(info);
	for (uint32_t i = 0; i < values.size(); i++) {
		if (!read_recorded_values(columns.Get(i), values[i]))
			return wrong_arguments(info);
	}
	std::vector<const EventColumn *> event_columns;
	for (const uint32_t place : indexes_of(chosen)) {
		if (place >= shipment->event_columns.size())
			return wrong_arguments(info);
		event_columns.push_back(&shipment->event_columns[place]);
	}
	BlockWriter to(output.data, output.length);
	switch (shipment->add(values, numbers, rows, event_columns, first_number, to)) {
	case Added::yes:
		return Napi::Number::New(info.Env(), static_cast<double>(to.size()));
	case Added::no_room:
		return Napi::Number::New(info.Env(), 0);
	case Added::missing:
		return info.Env().Undefined();
	default:
		return wrong_arguments(info);
	}
}

/* (shipment) -> [ids of names, of files, of contexts], each Uint32Array */
Napi::Value missing_ids(const Napi::CallbackInfo &info)
{
	Shipment *shipment = read_owned<Shipment>(info[0]);
	if (!shipment)
		return wrong_arguments(info);
	Napi::Array found = Napi::Array::New(info.Env());
	for (const Refers refers : {Refers::name, Refers::file, Refers::context}) {
		const std::vector<uint32_t> &ids = shipment->segment.missing[static_cast<size_t>(refers)];
		Napi::Uint32Array array = Napi::Uint32Array::New(info.Env(), ids.size());
		std::ranges::copy(ids, array.Data());
		found.Set(found.Length(), array);
	}
	return found;
}

bool read_id(const Napi::Value &value, uint32_t &id)
{
	size_t number;
	if (!read_size(value, number) || number > UINT32_MAX)
		return false;
	id = static_cast<uint32_t>(number);
	return true;
}

/* (shipment, id, text) */
Napi::Value add_name(const Napi::CallbackInfo &info)
{
	Shipment *shipment = read_owned<Shipment>(info[0]);
	uint32_t id, text;
	if (!shipment || !read_id(info[1], id) || !read_text(info[2], shipment->references.texts, text))
		return wrong_arguments(info);
	shipment->references.names.add(id, text);
	return info.Env().Undefined();
}

/* (shipment, id, path, kind) */
Napi::Value add_file(const Napi::CallbackInfo &info)
{
	Shipment *shipment = read_owned<Shipment>(info[0]);
	uint32_t id;
	FileTexts file;
	if (!shipment || !read_id(info[1], id) || !read_text(info[2], shipment->references.texts, file.path) ||
	    !read_text(info[3], shipment->references.texts, file.kind))
		return wrong_arguments(info);
	References &references = shipment->references;
	references.files.add(id, static_cast<uint32_t>(references.file_list.size()));
	references.file_list.push_back(file);
	return info.Env().Undefined();
}

/* Null is no text. */
bool read_text_or_null(const Napi::Value &value, TextPool &pool, uint32_t &text)
{
	text = ContextTexts::kNone;
	return value.IsNull() || read_text(value, pool, text);
}

/* Shorter bytes end with zeros, as FixedString has them. */
template <size_t Size> bool read_fixed(const Napi::Value &value, std::array<uint8_t, Size> &bytes)
{
	Array array;
	if (!read_bytes(value, array) || array.length > Size)
		return false;
	std::copy_n(array.data, array.length, bytes.begin());
	return true;
}

/* (shipment, id, transaction or null, its hash, trace or null, bytes of the trace, of the span) */
Napi::Value add_context(const Napi::CallbackInfo &info)
{
	Shipment *shipment = read_owned<Shipment>(info[0]);
	uint32_t id;
	size_t hash;
	ContextTexts context;
	if (!shipment || !read_id(info[1], id) ||
	    !read_text_or_null(info[2], shipment->references.texts, context.transaction) || !read_size(info[3], hash) ||
	    !read_text_or_null(info[4], shipment->references.texts, context.trace) ||
	    !read_fixed(info[5], context.trace_bytes) || !read_fixed(info[6], context.span_bytes))
		return wrong_arguments(info);
	context.transaction_hash = hash;
	References &references = shipment->references;
	references.contexts.add(id, static_cast<uint32_t>(references.context_list.size()));
	references.context_list.push_back(context);
	return info.Env().Undefined();
}

/* (shipment, table) -> its blocks since the group began */
Napi::Value table_blocks(const Napi::CallbackInfo &info)
{
	Shipment *shipment = read_owned<Shipment>(info[0]);
	size_t table;
	if (!shipment || !read_size(info[1], table) || table >= shipment->tables.size())
		return wrong_arguments(info);
	const std::span<const uint8_t> blocks = shipment->tables[table].blocks();
	return Napi::Buffer<uint8_t>::Copy(info.Env(), blocks.data(), blocks.size());
}

} // namespace

void export_shipment(Napi::Env env, Napi::Object exports)
{
	exports.Set("createShipment", Napi::Function::New<create_shipment>(env));
	exports.Set("beginGroup", Napi::Function::New<begin_group>(env));
	exports.Set("addSegment", Napi::Function::New<add_segment>(env));
	exports.Set("missingIds", Napi::Function::New<missing_ids>(env));
	exports.Set("addName", Napi::Function::New<add_name>(env));
	exports.Set("addFile", Napi::Function::New<add_file>(env));
	exports.Set("addContext", Napi::Function::New<add_context>(env));
	exports.Set("tableBlocks", Napi::Function::New<table_blocks>(env));
}
