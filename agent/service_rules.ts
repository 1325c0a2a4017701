/** Reads `--service-rules`: a file of names for services. */
import { readFileSync } from 'node:fs';
import { cleanName } from './attribution/service_name/clean_name.ts';
import { RULE_PATTERNS, type ServiceRule } from './attribution/service_name/rules.ts';
import { AgentError } from './process/errors.ts';

/**
 * Reads a list such as `[{"service": "shop", "executable": "^java$", "arguments": "shop\\.jar"}]`. Throws AgentError.
 */
export function readServiceRules(path: string): ServiceRule[] {
  let rules: unknown;
  try {
    rules = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new AgentError(`the service rules ${path} cannot be read: ${(error as Error).message}`);
  }
  if (!Array.isArray(rules)) throw new AgentError(`${path} holds no list of rules`);
  return rules.map((rule: unknown, i) => {
    const wrong = (text: string) => new AgentError(`${path}, rule ${i + 1}: ${text}`);
    if (typeof rule !== 'object' || rule === null)
      throw wrong('give an object such as {"service": "shop", "executable": "^java$"}');
    return parseRule(rule as Record<string, unknown>, wrong);
  });
}

function parseRule(rule: Record<string, unknown>, wrong: (text: string) => AgentError): ServiceRule {
  const { service, ...patterns } = rule;
  if (typeof service !== 'string' || cleanName(service) === '') throw wrong('its service is missing');
  const parsed: ServiceRule = { service: cleanName(service) };
  for (const [name, pattern] of Object.entries(patterns)) {
    const known = RULE_PATTERNS.find((each) => each === name);
    if (!known) throw wrong(`${name} is none of ${RULE_PATTERNS.join(', ')}`);
    parsed[known] = expressionOf(pattern, (text) => wrong(`${name} ${text}`));
  }
  if (Object.keys(patterns).length === 0) throw wrong(`give one of ${RULE_PATTERNS.join(', ')}`);
  return parsed;
}

function expressionOf(pattern: unknown, wrong: (text: string) => AgentError): RegExp {
  if (typeof pattern !== 'string') throw wrong('is not a text');
  try {
    return new RegExp(pattern);
  } catch (error) {
    throw wrong((error as Error).message);
  }
}
