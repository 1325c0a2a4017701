/** Tests rules that name services: the first match counts, and an invalid rule is reported with its place. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findServiceByRule } from '../../../../agent/attribution/service_name/rules.ts';
import { readServiceRules } from '../../../../agent/command.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-rules-'));

afterAll(() => rmSync(folder, { recursive: true }));

function rulesIn(text: string) {
  const path = join(folder, 'rules.json');
  writeFileSync(path, text);
  return readServiceRules(path);
}

test.each([
  ['java', ['java', '-jar', 'shop.jar'], undefined, 'shop'],
  ['java', ['java', '-jar', 'shopXjar'], undefined, 'other java'],
  ['javac', ['java', '-jar', 'shop.jar'], undefined, undefined],
  ['postgres', [], '/db.slice/x', 'db'],
  ['postgres', [], undefined, undefined],
])('%s %j in %s is %s', (executable, args, cgroupPath, service) => {
  const rules = rulesIn(
    JSON.stringify([
      { service: 'shop', executable: '^java$', arguments: 'shop\\.jar' },
      { service: 'other java', executable: '^java$' },
      { service: 'db', cgroup: '/db\\.slice' },
    ]),
  );
  expect(findServiceByRule(rules, { executable, args, cgroupPath })).toBe(service);
});

test.each([
  ['[', /cannot be read/],
  ['{}', /holds no list/],
  ['[1]', /rule 1: give an object/],
  ['[{"service": "a", "executable": "x"}, {"executable": "x"}]', /rule 2: its service is missing/],
  ['[{"service": "a"}]', /rule 1: give one of executable, arguments, cgroup/],
  ['[{"service": "a", "exe": "x"}]', /rule 1: exe is none of/],
  ['[{"service": "a", "cgroup": 1}]', /rule 1: cgroup is not a text/],
  ['[{"service": "a", "cgroup": "("}]', /rule 1: cgroup Invalid regular expression/],
])('%s is refused', (text, message) => {
  expect(() => rulesIn(text)).toThrow(message);
});
