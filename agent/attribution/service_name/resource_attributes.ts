/**
 * Parses OTEL_RESOURCE_ATTRIBUTES as the OpenTelemetry resource SDK does (specification, "Specifying resource
 * information via an environment variable"): W3C Baggage without the metadata after semicolons.
 *
 *   attributes = [ pair *("," pair) ]      pair = key "=" value, both percent-encoded, blanks around them
 */

/**
 * Returns null when any part is malformed: the specification then discards the whole variable, so the program itself
 * does not have these attributes either. The last of a repeated key wins.
 */
export function parseResourceAttributes(text: string): Map<string, string> | null {
  const attributes = new Map<string, string>();
  if (text.trim() === '') return attributes;
  for (const pair of text.split(',')) {
    // Baggage allows more equals signs in a value, and SDKs accept them although the specification wants them encoded.
    const separator = pair.indexOf('=');
    const key = separator < 0 ? '' : decode(pair.slice(0, separator));
    const value = decode(pair.slice(separator + 1));
    if (!key || value === null) return null;
    attributes.set(key, value);
  }
  return attributes;
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text.trim());
  } catch {
    return null; // There is a percent sign by itself, or bytes that are not UTF-8.
  }
}
