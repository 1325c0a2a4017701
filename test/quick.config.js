/** Selects what `make check` runs: suites that need neither root, nor a kernel, nor a browser, and take little time. */
import config from '../jest.config.js';

/** Suites that load BPF programs, or need root, a service or a terminal. */
export const NEEDY = [
  'test/(e2e|fuzz|kernel|native|package|player|run|soak)/',
  'test/agent/(definition_stream|languages|otel_thread_local)',
  'test/daemon/(pins_process|tokens)',
  'test/recording/(open|writer)\\.',
  'test/replay/kept/state_file',
];

/** Suites of more than some seconds. */
export const LONG = [
  'test/daemon/.*_(command|process)\\.',
  'test/daemon/(heavy_clients|kept_sessions|merged_|silent_viewers|slow_tails|streams|tail_batches|tls|transactions|unread_answers|unsent)',
  'test/export/(export_command|hostile_bundles|import)',
  'test/recording/(crash|faults|fuzz|log_damage|retention|scan_oracle)',
  'test/replay/(command|http|plan)',
];

export default {
  ...config,
  rootDir: '..',
  maxWorkers: 2,
  testPathIgnorePatterns: [...NEEDY, ...LONG],
  reporters: ['default', '<rootDir>/test/left_out.js', '<rootDir>/test/closing_line.js'],
};
