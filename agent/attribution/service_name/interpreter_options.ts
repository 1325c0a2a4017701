/** Options of interpreters, as far as they decide which argument is the script. */

/**
 * Kinds of what follows an option:
 *   value   a value, attached or as the next argument
 *   next    a value as the next argument, whatever is attached
 *   rest    a value that can only be attached, or none
 *   code    code or standard input: no file is run
 *   module  the name of the module that is run
 *   script  the script, which otherwise stands alone
 */
export type Following = 'value' | 'next' | 'rest' | 'code' | 'module' | 'script';

export interface Interpreter {
  /** File names of the programs. */
  executable: RegExp;
  /** Options by letter or by whole long name; one that is not listed takes no value. */
  options: ReadonlyMap<string, Following>;
  /**
   * Whether it is a shell: `+x` is an option too, and a lone dash ends the options instead of meaning standard input.
   */
  isShell?: boolean;
}

function following(groups: Partial<Record<Following, string>>): ReadonlyMap<string, Following> {
  const pairs = Object.entries(groups) as [Following, string][];
  return new Map(pairs.flatMap(([kind, names]) => names.split(/\s+/).map((name) => [name, kind] as const)));
}

export const INTERPRETERS: readonly Interpreter[] = [
  {
    executable: /^python[\d.]*$/,
    options: following({ value: 'W X --check-hash-based-pycs', code: 'c', module: 'm' }),
  },
  {
    // These are the options of Node 24 that take a value, and --loader of older ones; V8's own options only have
    // attached values.
    executable: /^node(js)?$/,
    options: following({
      code: 'e p --eval --print --run',
      value: `r C --require --import --loader --experimental-loader --conditions --env-file --env-file-if-exists
        --title --input-type --icu-data-dir --openssl-config --tls-cipher-list --tls-keylog --unhandled-rejections
        --disable-warning --disable-proto --redirect-warnings --dns-result-order --diagnostic-dir --localstorage-file
        --network-family-autoselection-attempt-timeout --max-http-header-size --max-old-space-size-percentage
        --inspect-port --debug-port --inspect-publish-uid --secure-heap --secure-heap-min --security-revert
        --report-dir --report-directory --report-filename --report-signal --snapshot-blob --use-largepages
        --cpu-prof-dir --cpu-prof-interval --cpu-prof-name --heap-prof-dir --heap-prof-interval --heap-prof-name
        --heapsnapshot-signal --heapsnapshot-near-heap-limit --trace-event-categories --trace-event-file-pattern
        --trace-require-module --v8-pool-size --watch-path --watch-kill-signal --allow-fs-read --allow-fs-write
        --build-snapshot-config --experimental-sea-config --experimental-config-file --experimental-package-map
        --test-concurrency --test-coverage-branches --test-coverage-exclude --test-coverage-functions
        --test-coverage-include --test-coverage-lines --test-global-setup --test-isolation --test-name-pattern
        --test-reporter --test-reporter-destination --test-shard --test-skip-pattern --test-timeout`,
    }),
  },
  {
    executable: /^ruby[\d.]*$/,
    options: following({
      code: 'e',
      value: 'r I C E --encoding --external-encoding --internal-encoding --enable --disable',
      rest: 'F i K T W x',
    }),
  },
  {
    executable: /^perl[\d.]*$/,
    options: following({ code: 'e E', value: 'I', rest: 'm M C D F V d i x' }),
  },
  {
    executable: /^php[\d.]*$/,
    options: following({
      code: 'r B R E --run --process-begin --process-code --process-end',
      script: 'f F --file --process-file',
      value: 'c d t z S --php-ini --define --docroot --zend-extension --server',
    }),
  },
  {
    executable: /^(ba|da)?sh$/,
    options: following({ code: 'c s', next: 'o O --rcfile --init-file' }),
    isShell: true,
  },
];
