import { Spec, Validation } from '@cyclonedx/cyclonedx-library';
import { ReleaseError } from './programs.ts';

/**
 * Checks an SBOM (list of components) against the CycloneDX schema. Resolves with the SBOM itself.
 * @throws ReleaseError if the SBOM does not match the schema
 */
export async function checkSbom(text: string): Promise<string> {
  const complaints = await new Validation.JsonStrictValidator(Spec.Version.v1dot6).validate(text);
  if (complaints === null) return text;
  throw new ReleaseError(`the list of components is not CycloneDX 1.6: ${JSON.stringify(complaints)}`);
}
