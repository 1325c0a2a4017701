/**
 * An option of a long-running command. Declared once, it is a flag, an environment variable and a key of the
 * configuration file. Help, man pages and shell completions come from the same object.
 */
import { type Command, Option } from 'commander';
import { z } from 'zod';
import { createOptionParser, isInteger } from './values.ts';

/**
 * Sections of the configuration file. Each is named after the command that it configures; `fleet` is for `fleet status`
 * and `fleet retain`.
 */
export const SECTIONS = ['agent', 'daemon', 'ship', 'fleet', 'watch'] as const;

export type SectionName = (typeof SECTIONS)[number];

/** Keys outside the sections. Every command accepts them in its files, even if it does not use them. */
export const SHARED_KEYS: readonly string[] = ['data', 'log-level', 'log-format'];

/** The value of a setting as it is written in a file or was given as text. */
export type RawValue = boolean | string | readonly string[];

export class Setting extends Option {
  /**
   * Schema of the value, or of each item of a list. It turns a text into the command's value. Switches do not use it.
   */
  schema: z.ZodType<unknown, string> = z.string();
  /** Whether the setting is also a key outside the sections, for all commands. */
  isShared = false;
  /** Whether a changed value takes effect at SIGHUP. */
  isReloaded = false;

  takes(schema: z.ZodType<unknown, string>): this {
    this.schema = schema;
    if (schema instanceof z.ZodEnum) this.argChoices = schema.options as string[];
    const parse = createOptionParser(schema);
    return this.argParser<unknown>(
      this.variadic ? (text, before) => [...((before as unknown[] | undefined) ?? []), parse(text)] : parse,
    );
  }

  shared(): this {
    if (!SHARED_KEYS.includes(this.key)) throw new Error(`${this.key} is not one of the shared keys`);
    this.isShared = true;
    return this;
  }

  reloaded(): this {
    this.isReloaded = true;
    return this;
  }

  /** Sets the default, parsed like a text that a user gives. */
  defaultText(text: string): this {
    return this.default(this.schema.parse(text), text);
  }

  /** Key of the setting in a file: the flag without its dashes. */
  get key(): string {
    return this.long!.replace(/^--(no-)?/, '');
  }

  get isList(): boolean {
    return this.variadic;
  }

  /** Whether the values are numbers, which must not be quoted in a file. */
  get isInteger(): boolean {
    return isInteger(this.schema);
  }

  /** The default value as text; undefined if there is no default, or if the command computes it. */
  get defaultRaw(): RawValue | undefined {
    if (this.defaultValue === undefined) return undefined;
    return typeof this.defaultValue === 'boolean'
      ? this.defaultValue
      : (this.defaultValueDescription ?? String(this.defaultValue));
  }
}

/**
 * Returns the name of an environment variable, such as `KREPLAY_AGENT_RING_SIZE`. A shared setting also has a variable
 * without the section, `KREPLAY_DATA`.
 */
export function nameVariable(setting: Setting, section?: SectionName): string {
  return ['kreplay', ...(section ? [section] : []), setting.key].join('_').replaceAll('-', '_').toUpperCase();
}

/** A setting, and whether it can be switched off: `--state FILE` and `--no-state` are a single setting. */
export interface Declared {
  setting: Setting;
  negatable: boolean;
}

export function listDeclared(command: Command): Declared[] {
  const settings = command.options.filter((option) => option instanceof Setting);
  return settings
    .filter(({ negate }) => !negate)
    .map((setting) => ({
      setting,
      negatable: settings.some((other) => other.negate && other.attributeName() === setting.attributeName()),
    }));
}
