/**
 * Parses the rules of `--short`, which have the syntax of `--fail` rules but name no error. A chosen call writes only
 * half of the bytes that it was asked to write.
 *
 *   sys_write:path=/data/*.log:nth=3         the third of these calls
 */
import { type FailRule, parseFailRule, RuleError } from './rules.ts';

export type ShortRule = Omit<FailRule, 'errno'>;

export function parseShortRule(text: string): ShortRule {
  if (namesAnError(text)) throw new RuleError('must not name an error: a call that fails writes nothing');
  const { eventType, matches, nth } = parseFailRule(`${text}:EIO`);
  if (eventType !== 'sys_write')
    throw new RuleError(`must begin with sys_write: nothing of a ${eventType} can be short`);
  return { eventType, matches, nth };
}

function namesAnError(text: string): boolean {
  try {
    parseFailRule(text);
    return true;
  } catch {
    return false;
  }
}
