/**
 * An option of a command that runs for long, declared once: it is a flag, a variable of the environment and a key of the
 * configuration file. Help, man pages and shell completions come from the same object.
 */
import { type Command, Option } from 'commander';
import { z } from 'zod';
import { isInteger, parserOf } from './values.ts';

/** What a section of the file may be; each is the command that it configures. */
export const SECTIONS = ['agent', 'daemon'] as const;

export type SectionName = (typeof SECTIONS)[number];

/** As it is written in a file, or was given as text. */
export type RawValue = boolean | string | readonly string[];

export class Setting extends Option {
  /** What it may be, of a list each item: from the text of a flag to what the command gets. Switches have none. */
  schema: z.ZodType<unknown, string> = z.string();
  /** Also a key outside of the sections, for all commands. */
  isShared = false;
  /** Takes effect at SIGHUP. */
  isReloaded = false;

  takes(schema: z.ZodType<unknown, string>): this {
    this.schema = schema;
    if (schema instanceof z.ZodEnum) this.argChoices = schema.options as string[];
    const parse = parserOf(schema);
    return this.argParser<unknown>(
      this.variadic ? (text, before) => [...((before as unknown[] | undefined) ?? []), parse(text)] : parse,
    );
  }

  shared(): this {
    this.isShared = true;
    return this;
  }

  reloaded(): this {
    this.isReloaded = true;
    return this;
  }

  /** The text is read as one that a user gives. */
  defaultText(text: string): this {
    return this.default(this.schema.parse(text), text);
  }

  /** In a file, without the dashes of its flag. */
  get key(): string {
    return this.long!.replace(/^--(no-)?/, '');
  }

  get isList(): boolean {
    return this.variadic;
  }

  /** Its values are numbers: a file must not put them into quotes. */
  get isInteger(): boolean {
    return isInteger(this.schema);
  }

  /** What it is when nobody says anything, as text; undefined: it depends, or is not there. */
  get defaultRaw(): RawValue | undefined {
    if (this.defaultValue === undefined) return undefined;
    return typeof this.defaultValue === 'boolean'
      ? this.defaultValue
      : (this.defaultValueDescription ?? String(this.defaultValue));
  }
}

/** `KREPLAY_AGENT_RING_SIZE`; of a shared one also `KREPLAY_DATA`. */
export function variableOf(setting: Setting, section?: SectionName): string {
  return ['kreplay', ...(section ? [section] : []), setting.key].join('_').replaceAll('-', '_').toUpperCase();
}

/** A setting, and whether it can be switched off: `--state FILE` and `--no-state` are one. */
export interface Declared {
  setting: Setting;
  negatable: boolean;
}

export function declaredOf(command: Command): Declared[] {
  const settings = command.options.filter((option) => option instanceof Setting);
  return settings
    .filter(({ negate }) => !negate)
    .map((setting) => ({
      setting,
      negatable: settings.some((other) => other.negate && other.attributeName() === setting.attributeName()),
    }));
}
