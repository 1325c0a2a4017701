/** Escapes control characters in a name of a recorded program, so that they do not reach the terminal. */
export function escapeControls(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
}

/** Escapes control characters in whole lines, with JSON's escapes, so that JSON stays valid. */
export function escapeControlsAsJson(lines: string): string {
  return lines.replace(/(?!\r?\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    character.replace(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  );
}
