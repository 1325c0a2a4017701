/**
 * Lists of names, written as one text in a parameter of the API or an option of a command. A comma separates names.
 * Backslashes have a meaning only before a comma. There, two backslashes stand for one backslash, and a single
 * remaining backslash makes the comma a part of the name. So a name without a comma needs no escaping, unless it ends
 * in a backslash and another name follows.
 */

/** Returns the names of a list, including the spaces around each name. */
export function parseListItems(list: string): string[] {
  const items: string[] = [];
  let item = '';
  let from = 0;
  for (let comma = list.indexOf(','); comma >= 0; comma = list.indexOf(',', from)) {
    const count = countBackslashesBefore(list, comma, from);
    item += list.slice(from, comma - Math.ceil(count / 2));
    from = comma + 1;
    if (count % 2 === 1) {
      item += ',';
      continue;
    }
    items.push(item);
    item = '';
  }
  return [...items, item + list.slice(from)];
}

/**
 * Returns all names that a list may contain. Names may contain commas or spaces, so the untrimmed items and the whole
 * list are also possible names.
 */
export function listPossibleNames(list: string): string[] {
  const items = parseListItems(list);
  // A name may consist of spaces.
  if (items.length === 1 && list.trim() === '') return items;
  return [...items.map((item) => item.trim()), ...items, items.join()];
}

/** Writes a name as a list of one name. */
export function escapeListItem(name: string): string {
  const parts = name.split(',');
  return parts
    .map((part, i) => (i < parts.length - 1 ? part + '\\'.repeat(countBackslashesBefore(part, part.length, 0)) : part))
    .join('\\,');
}

function countBackslashesBefore(text: string, end: number, from: number): number {
  let start = end;
  while (start > from && text[start - 1] === '\\') start--;
  return end - start;
}
