#pragma once

#include "shipment.h"
#include "text_rows.h"
#include "sums.h"

#include <napi.h>

/* Objects of the addon that JavaScript holds as externals. An external of another kind is refused. */
template <typename Made> constexpr napi_type_tag kTag = {};
template <> constexpr napi_type_tag kTag<Layout> = {0x6b7265706c617931, 0x6c61796f75742031};
template <> constexpr napi_type_tag kTag<Texts> = {0x6b7265706c617931, 0x7465787473202031};
template <> constexpr napi_type_tag kTag<Groups> = {0x6b7265706c617931, 0x67726f7570732031};
template <> constexpr napi_type_tag kTag<Shipment> = {0x6b7265706c617931, 0x7368697020202031};
template <> constexpr napi_type_tag kTag<GroupedSums> = {0x6b7265706c617931, 0x73756d7320202031};

template <typename Made> Napi::Value owned(Napi::Env env, Made *made)
{
	const auto external = Napi::External<Made>::New(env, made, [](Napi::Env, Made *released) { delete released; });
	external.TypeTag(&kTag<Made>);
	return external;
}

/* Returns null for any other value. */
template <typename Made> Made *read_owned(const Napi::Value &value)
{
	if (!value.IsExternal())
		return nullptr;
	const auto external = value.As<Napi::External<Made>>();
	return external.CheckTypeTag(&kTag<Made>) ? external.Data() : nullptr;
}
