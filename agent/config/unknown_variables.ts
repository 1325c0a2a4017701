/** Reports environment variables that look like a misspelt setting: they must not be ignored. */
import { nearest } from './nearest.ts';
import { type Declared, type SectionName, variableOf } from './setting.ts';

/**
 * Number of letters that may be wrong. Other software may use similar names: Kubernetes passes a service
 * "kreplay-agent" to pods in KREPLAY_AGENT_SERVICE_HOST, KREPLAY_AGENT_PORT and more.
 */
const WRONG_LETTERS_MAX = 2;

/** Returns lines for the user. */
export function unknownVariables(
  environment: NodeJS.ProcessEnv,
  sections: ReadonlyMap<SectionName, readonly Declared[]>,
): string[] {
  const known = [...sections].flatMap(([section, declared]) =>
    declared.flatMap(({ setting }) => [
      variableOf(setting, section),
      ...(setting.isShared ? [variableOf(setting)] : []),
    ]),
  );
  const written = Object.keys(environment).filter((name) => name.startsWith('KREPLAY_') && environment[name]);
  return written.flatMap((name) => {
    const meant = known.includes(name) ? undefined : nearest(name, known, WRONG_LETTERS_MAX);
    return meant ? [`${name}: there is no such variable; did you mean ${meant}?`] : [];
  });
}
