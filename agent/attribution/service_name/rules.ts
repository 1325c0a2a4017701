/** Names services by an operator's rules, which take precedence over everything derived from the host. */
/**
 * A rule applies if all of its patterns match. A pattern is a regular expression that may match any part of the text.
 */
export interface ServiceRule {
  service: string;
  /** Matches the file name of the program. */
  executable?: RegExp;
  /** Matches the arguments, joined by blanks. */
  arguments?: RegExp;
  /** Matches the path of the cgroup, which contains a container's id and a unit's name. */
  cgroup?: RegExp;
}

export const RULE_PATTERNS = ['executable', 'arguments', 'cgroup'] as const;

interface Facts {
  executable: string;
  args: readonly string[];
  cgroupPath: string | undefined;
}

/** Returns the service of the first rule that matches. */
export function findServiceByRule(
  rules: readonly ServiceRule[],
  { executable, args, cgroupPath }: Facts,
): string | undefined {
  const texts = { executable, arguments: args.join(' '), cgroup: cgroupPath ?? '' };
  return rules.find((rule) => RULE_PATTERNS.every((name) => rule[name]?.test(texts[name]) ?? true))?.service;
}
