/** Names that an operator gives to services: what they say goes before everything that a host tells of itself. */
/** All that a rule names must match, as regular expressions that may match a part. */
export interface ServiceRule {
  service: string;
  /** File name of the program. */
  executable?: RegExp;
  /** Its arguments, with a blank between them. */
  arguments?: RegExp;
  /** Path of its cgroup, which holds a container's id and a unit's name. */
  cgroup?: RegExp;
}

export const RULE_PATTERNS = ['executable', 'arguments', 'cgroup'] as const;

interface Facts {
  executable: string;
  args: readonly string[];
  cgroupPath: string | undefined;
}

/** The first rule that matches counts. */
export function serviceByRule(
  rules: readonly ServiceRule[],
  { executable, args, cgroupPath }: Facts,
): string | undefined {
  const texts = { executable, arguments: args.join(' '), cgroup: cgroupPath ?? '' };
  return rules.find((rule) => RULE_PATTERNS.every((name) => rule[name]?.test(texts[name]) ?? true))?.service;
}
