/** Returns the text as a double-quoted YAML scalar in ASCII. */
export function formatYamlText(text: string): string {
  return `"${text.toWellFormed().replaceAll(/["\\]|[^ -~]/gu, escapeYamlCharacter)}"`;
}

function escapeYamlCharacter(character: string): string {
  if (character === '"' || character === '\\') return `\\${character}`;
  return `\\U${character.codePointAt(0)!.toString(16).padStart(8, '0')}`;
}

export function indent(lines: readonly string[], columns: number): string[] {
  return lines.map((line) => (line === '' ? line : `${' '.repeat(columns)}${line}`));
}
