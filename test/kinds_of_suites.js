/** Patterns of suites by what they need; those that match none need neither root, nor a kernel, nor a browser. */

/** Suites that load BPF programs, or need root, a service or a terminal. */
export const NEEDY = [
  'test/(e2e|fuzz|kernel|native|package|player|run|soak)/',
  'test/agent/(definition_stream|languages|otel_thread_local)',
  'test/daemon/(pins_process|tokens)',
  'test/recording/(open|writer)\\.',
];

/** Suites whose verdict depends on time or memory, or that take all of the machine. */
export const HEAVY = [
  'test/daemon/.*_(command|process)\\.',
  'test/daemon/(heavy_clients|kept_sessions|merged_|silent_viewers|slow_tails|streams|tail_batches|tls|transactions|unread_answers|unsent)',
  'test/export/(export_command|hostile_bundles|import)',
  'test/recording/(crash|faults|fuzz|log_damage|retention|scan_oracle)',
  'test/replay/',
];

/** Suites of NEEDY and HEAVY whose verdict depends on time or memory: they run with no other suite beside them. */
export const JUDGING = [
  'test/daemon/(heavy_clients|silent_viewers|slow_tails|streams|unread_answers|unsent)',
  'test/e2e/(doctor|moved_work|run|slow_disk)',
  'test/export/hostile_bundles',
  'test/(native/runner|player|replay|run|soak)/',
];

/** Suites of NEEDY and HEAVY that record nothing of the kernel, and so run beside one that does. */
export const BESIDE = [
  'test/daemon/(.*_(command|process)|kept_sessions|merged_.*|tail_batches|tls|tokens|transactions)\\.',
  'test/(export|fuzz|recording)/',
  'test/native/(hostile/|map|object)',
];

/** Suites that can run beside others, but take more than some seconds. */
export const SLOW = [
  'test/agent/otel_elf',
  'test/config/(client_settings|config_command)',
  'test/daemon/(api_curl|connections|cut_connections|docs_page|loaded_modules|log|pages|query_commands|sql_time|tail)\\.',
  'test/export/(bundle|csv|redaction|sql)\\.',
  'test/recording/transaction_index',
];
