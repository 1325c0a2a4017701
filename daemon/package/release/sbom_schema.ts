/** Checks a list of components against the schema of CycloneDX. */
import { Spec, Validation } from '@cyclonedx/cyclonedx-library';
import { ReleaseError } from './programs.ts';

/**
 * Resolves with the list itself.
 * @throws ReleaseError if the list does not match the schema
 */
export async function checkSbom(text: string): Promise<string> {
  const complaints = await new Validation.JsonStrictValidator(Spec.Version.v1dot6).validate(text);
  if (complaints === null) return text;
  throw new ReleaseError(`the list of components is not CycloneDX 1.6: ${JSON.stringify(complaints)}`);
}
