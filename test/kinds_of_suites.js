/** Patterns of suites by what they need; those that match none need neither root, nor a kernel, nor a browser. */

/** Suites that load BPF programs, or need root, a service or a terminal. */
export const NEEDY = [
  'test/(e2e|fuzz|kernel|native|soak)/',
  'test/agent/(attribution/otel/thread_local|capture/definition_stream|package/|recording/(open|writer)\\.)',
  'test/daemon/(cli/player|run)/',
  'test/daemon/(http/access/tokens|store/pins_process)\\.',
];

/** Suites whose verdict depends on time or memory, or that take all of the machine. */
export const HEAVY = [
  'test/(clickhouse|ship)/',
  'test/agent/recording/(crash|faults|fuzz|log_damage|retention|scan_oracle)',
  'test/daemon/.*_(command|process)\\.',
  'test/daemon/http/(heavy_clients|streams|unread_answers)\\.',
  'test/daemon/http/access/(silent_viewers|tls|unsent)\\.',
  'test/daemon/(replay/|store/(fleet/|merged_|transactions)|tail/.*_)',
  'test/daemon/export/(hostile_bundles|import)',
  'test/page/(accessibility|compare|hostile_input|lanes_view|live|overview|print|replay|shell)\\.',
];

/** Suites of NEEDY and HEAVY whose verdict depends on time or memory: they run with no other suite beside them. */
export const JUDGING = [
  'test/daemon/(cli/player/|replay/(?!kept/kept_|merged_)|run/)',
  'test/daemon/http/(heavy_clients|streams|unread_answers)\\.',
  'test/daemon/http/access/(silent_viewers|unsent)\\.',
  'test/daemon/(export/hostile_bundles|server/daemon_command|tail/slow_tails)',
  'test/e2e/(doctor|moved_work|run|slow_disk|transcripts)',
  'test/(native/runner|soak)/',
];

/** Suites of NEEDY and HEAVY that record nothing of the kernel, and so run beside one that does. */
export const BESIDE = [
  'test/(agent/recording|clickhouse|daemon|fuzz|ship)/',
  'test/native/(hostile/|map|object|sanitized_addons)',
  'test/page/',
];

/** Suites that can run beside others, but take more than some seconds. */
export const SLOW = [
  'test/agent/(attribution/otel/elf|config/(client_settings|config_command)|recording/transaction_index)',
  'test/daemon/(cli/(cut_connections|loaded_modules|query_commands|sql_time)|server/(docs_page|log))\\.',
  'test/daemon/(store/scan_threads|tail/tail)\\.',
  'test/daemon/http/(access/connections|columns|contract/api_curl|pages)\\.',
  'test/daemon/export/(bundle|csv|redaction|sql)\\.',
  'test/page/overview_sentences\\.',
];

/** Suites that can run beside others, but need a program that only `make test` installs: a browser, protoc, promtool. */
export const INSTALLED = [
  'test/agent/attribution/otel/process_context\\.',
  'test/daemon/(export/perfetto|metrics/alerts|server/guide)\\.',
];
