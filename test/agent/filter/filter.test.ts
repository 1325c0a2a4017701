/** Tests the filters that an operator may set, by flags and in a file, and the errors for invalid ones. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { addFilterOptions, type FilterFlags, parseFilterFlags } from '../../../agent/filter/options.ts';
import { asksForProcesses, listsProcess, wantsDataOwner, wantsProcess } from '../../../agent/filter/process_filter.ts';
import { type FilterSettings, type FilterTexts, filterSettings } from '../../../agent/filter/settings.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-filter-'));

afterAll(() => rmSync(folder, { recursive: true }));

function fromFlags(...flags: string[]): FilterSettings {
  const command = addFilterOptions(new Command()).exitOverride();
  command.parse(flags, { from: 'user' });
  return parseFilterFlags(command.opts<FilterFlags>());
}

function fromFile(text: string, ...flags: string[]): FilterSettings {
  const path = join(folder, 'filter.json');
  writeFileSync(path, text);
  return fromFlags(...flags, '--filter-file', path);
}

const plain = (settings: FilterSettings) =>
  JSON.parse(
    JSON.stringify(settings, (_, value) =>
      value instanceof Set ? [...value] : typeof value === 'bigint' ? `${value}` : value,
    ),
  );

test('without a flag everything is recorded', () => {
  const none = { only: [], except: [] };
  expect(plain(fromFlags())).toEqual({
    pids: none,
    comms: none,
    services: none,
    cgroups: none,
    onlyLabelled: false,
    minDurationNs: '0',
    eventTypes: ['sys_write', 'block_io', 'sys_sync'],
  });
});

test('flags and the filter file are equivalent, and the file takes precedence', () => {
  const flags = ['--only-labelled', '--min-duration', '2ms', '--event-type', 'block_io', '--pid', '1', '2'];
  const file = { only_labelled: true, min_duration: '2ms', event_types: ['block_io'], pids: [1, 2] };
  expect(plain(fromFlags(...flags))).toEqual(plain(fromFile(JSON.stringify(file))));
  expect(plain(fromFile('{"pids": [3], "except_comms": ["sh"]}', '--pid', '1', '--service', 'a'))).toMatchObject({
    pids: { only: ['3'], except: [] },
    comms: { only: [], except: ['sh'] },
    services: { only: ['a'], except: [] },
  });
});

test.each([
  ['service', 'services', 'a'],
  ['cgroup', 'cgroups', '/a'],
  ['comm', 'comms', 'a'],
  ['pid', 'pids', 7],
])('--%s and --except-%s are %s and except_%s of the file', (option, key, value) => {
  expect(plain(fromFlags(`--${option}`, `${value}`))).toEqual(plain(fromFile(JSON.stringify({ [key]: [value] }))));
  const except = plain(fromFlags(`--except-${option}`, `${value}`));
  expect(except).toEqual(plain(fromFile(JSON.stringify({ [`except_${key}`]: [value] }))));
  expect(except[key]).toEqual({ only: [], except: [`${value}`] });
});

test.each([
  ['{', /cannot be read/],
  ['[]', /holds no object/],
  ['{"service": ["a"]}', /service is .*one of the keys only_labelled/],
  ['{"services": "a"}', /services is "a": give a list of texts/],
  ['{"pids": ["1"]}', /pids is .*a list of numbers/],
  ['{"pids": [0]}', /pids cannot be "0": give the number of a process/],
  ['{"min_duration": "2"}', /min_duration cannot be "2": give a duration/],
  ['{"min_duration": 2}', /min_duration is 2/],
  ['{"only_labelled": "yes"}', /true or false/],
  ['{"event_types": ["read"]}', /event_types cannot be "read": give one of sys_write, block_io, sys_sync/],
])('the file %s is refused', (text, message) => {
  expect(() => fromFile(text)).toThrow(message);
});

test('a missing file is refused', () => {
  expect(() => fromFlags('--filter-file', join(folder, 'none'))).toThrow(/filter file .* cannot be read/);
});

test.each<[FilterTexts, string, string | undefined, boolean]>([
  [{}, 'a', '/x', true],
  [{ services: ['a', 'b'] }, 'a', undefined, true],
  [{ services: ['a', 'b'] }, 'c', undefined, false],
  [{ except_services: ['a'] }, 'a', undefined, false],
  [{ except_services: ['a'] }, 'c', undefined, true],
  [{ services: ['a'], except_services: ['a'] }, 'a', undefined, false],
  [{ cgroups: ['/x'] }, 'a', '/x', true],
  [{ cgroups: ['/x/'] }, 'a', '/x/y', true],
  [{ cgroups: ['/x'] }, 'a', '/xy', false],
  // A cgroup that is not known is not outside.
  [{ cgroups: ['/x'] }, 'a', undefined, true],
  [{ except_cgroups: ['/x'] }, 'a', undefined, true],
  [{ cgroups: ['/x'], services: ['b'] }, 'a', undefined, false],
  [{ cgroups: ['/'] }, 'a', '/x', true],
  [{ except_cgroups: ['/x'] }, 'a', '/x/y', false],
  [{ services: ['a'], except_cgroups: ['/x'] }, 'a', '/z', true],
])('%j of %s in %s: %p', (texts, service, cgroupPath, wanted) => {
  const settings = filterSettings(texts);
  expect(wantsProcess(settings, { service, cgroupPath })).toBe(wanted);
  expect(asksForProcesses(settings)).toBe(Object.keys(texts).length > 0);
});

test.each<[FilterTexts, boolean, string]>([
  [{}, true, 'no filter'],
  [{ only_labelled: true }, false, 'no label'],
  [{ except_services: ['shop'] }, false, 'its service'],
  [{ services: ['bank'] }, false, 'another service'],
  [{ except_cgroups: ['/a'] }, false, 'its cgroup'],
  [{ except_pids: ['7'] }, false, 'its pid'],
  [{ pids: ['8'] }, false, 'another pid'],
  [{ except_comms: ['a-long-command-name'] }, false, 'its command, which the kernel cuts'],
  [{ comms: ['sh'] }, false, 'another command'],
  [{ except_comms: ['sh'] }, true, 'another command is left out'],
  [{ min_duration: '1s', event_types: ['block_io'] }, true, 'nothing of the process'],
])('whether a request names whose data it carries: %j %s, by %s', (texts, isWanted) => {
  expect(wants(texts, undefined, '/bin/a-long-command-name')).toBe(isWanted);
});

function wants(texts: FilterTexts, label: string | null | undefined, executable = ''): boolean {
  const settings = filterSettings(texts);
  const isWanted = wantsProcess(settings, { service: 'shop', cgroupPath: '/a/b' });
  return wantsDataOwner(settings, { isWanted, isListed: listsProcess(settings, 7, executable) }, label);
}

test('a label decides about the service of data, and is needed where only labelled events are wanted', () => {
  expect([wants({ only_labelled: true }, null), wants({ only_labelled: true }, 'bank')]).toEqual([true, true]);
  expect(wants({ except_services: ['shop'] }, null)).toBe(false);
  expect(wants({ except_services: ['shop'] }, 'bank')).toBe(true);
  expect([wants({ services: ['shop'] }, null), wants({ services: ['shop'] }, 'bank')]).toEqual([true, false]);
  expect(wants({ except_pids: ['7'] }, 'bank')).toBe(false);
});
