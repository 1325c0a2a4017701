#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

/* Number of bytes that can be read after the end of a text. */
constexpr size_t kPaddingBytes = 32;

struct PaddedText {
	const char *data;
	size_t size;
};

/* All texts of two digits, one after the other. */
template <size_t Base> constexpr std::array<char, Base * Base * 2> pairs_of_digits()
{
	std::array<char, Base *Base * 2> pairs = {};
	for (size_t i = 0; i < Base * Base; i++) {
		pairs[i * 2] = "0123456789abcdef"[i / Base];
		pairs[i * 2 + 1] = "0123456789abcdef"[i % Base];
	}
	return pairs;
}

inline constexpr auto kDecimalPairs = pairs_of_digits<10>();
inline constexpr auto kHexPairs = pairs_of_digits<16>();

constexpr size_t kHexDigits = 16;
/* Digits of the largest number of 64 bits. */
constexpr size_t kDecimalMax = 20;

/* Writes bytes one after the other, until some do not fit. */
struct Writer {
	char *at, *end;

	size_t room() const
	{
		return static_cast<size_t>(end - at);
	}

	bool put(std::string_view text)
	{
		if (room() < text.size())
			return false;
		std::memcpy(at, text.data(), text.size());
		at += text.size();
		return true;
	}

	/* Copies whole chunks, because most texts are short; the next write overwrites the excess bytes. */
	bool put(PaddedText text)
	{
		if (room() < text.size + kPaddingBytes)
			return put(std::string_view(text.data, text.size));
		for (size_t i = 0; i < text.size; i += kPaddingBytes)
			std::memcpy(at + i, text.data + i, kPaddingBytes);
		at += text.size;
		return true;
	}

	void pair(unsigned below_100)
	{
		std::memcpy(at, kDecimalPairs.data() + below_100 * 2, 2);
		at += 2;
	}

	void eight_digits(uint32_t value)
	{
		const uint32_t high = value / 10'000, low = value % 10'000;
		pair(high / 100);
		pair(high % 100);
		pair(low / 100);
		pair(low % 100);
	}

	/* Writes at most eight digits, without leading zeros. */
	void digits(uint32_t value)
	{
		if (value < 100)
			return two_digits_at_most(value);
		if (value < 10'000) {
			two_digits_at_most(value / 100);
			return pair(value % 100);
		}
		const uint32_t high = value / 10'000, low = value % 10'000;
		if (high < 100) {
			two_digits_at_most(high);
		} else {
			two_digits_at_most(high / 100);
			pair(high % 100);
		}
		pair(low / 100);
		pair(low % 100);
	}

	void two_digits_at_most(uint32_t value)
	{
		if (value >= 10)
			return pair(value);
		*at++ = static_cast<char>('0' + value);
	}

	/*
	 * Splits the value into groups of eight digits first; std::to_chars() divides all of it for every two digits.
	 */
	bool decimal(uint64_t value)
	{
		constexpr uint64_t k8 = 100'000'000;
		if (room() < kDecimalMax)
			return slow_decimal(value);
		if (value >= k8 * k8) {
			digits(static_cast<uint32_t>(value / (k8 * k8)));
			eight_digits(static_cast<uint32_t>(value / k8 % k8));
			eight_digits(static_cast<uint32_t>(value % k8));
		} else if (value >= k8) {
			digits(static_cast<uint32_t>(value / k8));
			eight_digits(static_cast<uint32_t>(value % k8));
		} else {
			digits(static_cast<uint32_t>(value));
		}
		return true;
	}

	bool decimal(int64_t value)
	{
		const uint64_t bits = static_cast<uint64_t>(value);
		return value >= 0 ? decimal(bits) : put("-") && decimal(0 - bits);
	}

	/* Used when there may be no room for the longest number. */
	bool slow_decimal(uint64_t value)
	{
		const auto [next, error] = std::to_chars(at, end, value);
		if (error != std::errc())
			return false;
		at = next;
		return true;
	}

	bool hex(uint64_t value)
	{
		if (room() < kHexDigits)
			return false;
		for (int shift = 56; shift >= 0; shift -= 8) {
			std::memcpy(at, kHexPairs.data() + (value >> shift & 255) * 2, 2);
			at += 2;
		}
		return true;
	}
};
