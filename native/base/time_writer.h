#pragma once

#include "text_writer.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

/*
 * Writes times as RFC 3339, in UTC and with all nine digits of the nanoseconds:
 *
 *   2026-11-30T16:52:17.123456789Z
 *   [ second           ][ below ]
 *
 * The text of the last second is kept, because most rows began in the same second as the row before. Any 64-bit number
 * of nanoseconds, signed or not, is in a year of four digits: 1677 to 2554.
 */
class TimeWriter
{
      public:
	static constexpr size_t kTimeSize = 30;

	bool write(Writer &writer, uint64_t ns)
	{
		return write_parts(writer, static_cast<int64_t>(ns / kSecondNs), static_cast<uint32_t>(ns % kSecondNs));
	}

	bool write(Writer &writer, int64_t ns)
	{
		constexpr int64_t second_ns = static_cast<int64_t>(kSecondNs);
		const int64_t below = ns % second_ns;
		const bool is_before = below < 0;
		return write_parts(writer, ns / second_ns - (is_before ? 1 : 0),
				   static_cast<uint32_t>(is_before ? below + second_ns : below));
	}

      private:
	static constexpr uint64_t kSecondNs = 1'000'000'000;
	static constexpr int64_t kDaySeconds = 86'400;
	static constexpr size_t kSecondSize = 20;

	bool is_set = false;
	int64_t second = 0;
	std::array<char, kSecondSize> text;

	bool write_parts(Writer &writer, int64_t of_second, uint32_t below_second)
	{
		if (writer.room() < kTimeSize)
			return false;
		if (!is_set || of_second != second)
			set(of_second);
		std::memcpy(writer.at, text.data(), kSecondSize);
		writer.at += kSecondSize;
		*writer.at++ = static_cast<char>('0' + below_second / 100'000'000);
		writer.eight_digits(below_second % 100'000'000);
		*writer.at++ = 'Z';
		return true;
	}

	/* Counts years from March, so that a leap day is the last day of a year, in eras of 400 years. */
	void set(int64_t of_second)
	{
		constexpr int64_t kEraDays = 146'097, kMarchOfYear0 = 719'468;
		const int64_t since_midnight = (of_second % kDaySeconds + kDaySeconds) % kDaySeconds;
		/* Never negative: the first year is 1677. */
		const int64_t days = (of_second - since_midnight) / kDaySeconds + kMarchOfYear0;
		const int64_t of_era = days % kEraDays;
		const int64_t year_of_era = (of_era - of_era / 1'460 + of_era / 36'524 - of_era / (kEraDays - 1)) / 365;
		const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
		const int64_t from_march = (5 * of_year + 2) / 153;
		const int64_t day = of_year - (153 * from_march + 2) / 5 + 1;
		const int64_t month = from_march < 10 ? from_march + 3 : from_march - 9;
		const int64_t year = days / kEraDays * 400 + year_of_era + (month <= 2 ? 1 : 0);
		Writer digits = {text.data(), text.data() + text.size()};
		const auto put = [&digits](int64_t below_100, char after) {
			digits.pair(static_cast<unsigned>(below_100));
			*digits.at++ = after;
		};
		digits.pair(static_cast<unsigned>(year / 100));
		put(year % 100, '-');
		put(month, '-');
		put(day, 'T');
		put(since_midnight / 3600, ':');
		put(since_midnight / 60 % 60, ':');
		put(since_midnight % 60, '.');
		second = of_second;
		is_set = true;
	}
};
