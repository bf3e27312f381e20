import { userInfo } from 'node:os';
import { EngineError, messageOf } from '../protocol/error.ts';
import type { JsonValue } from '../protocol/json.ts';

/** Options of every command that opens a store. */
export type StoreOptions = { db?: string };

/** Options of commands that show a run while it goes on. */
export type ShowOptions = StoreOptions & { json?: boolean; deltas?: boolean };

/** Options of commands that make a run go on. */
export type DriveOptions = ShowOptions & { agent?: string; by?: string; yes?: boolean };

/** The OS user's name: who decided, unless `--by` says so. */
export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return process.env.USER ?? 'somebody';
  }
}

/** The value of an option that takes JSON; throws `input-invalid`, naming the option. */
export function parseJson(text: string, option: string): JsonValue {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new EngineError(
      'input-invalid',
      `${option} takes JSON, and ${JSON.stringify(text)} is not: ${messageOf(cause)}. Quote it for your shell, such as ${option} '{"ok": true}'.`,
      null,
      { cause },
    );
  }
}

/** The number of an entry, as an option gives it. Throws `input-invalid` for what is no whole number. */
export function readEntryNumber(option: string, text: string): number {
  if (/^-?\d+$/.test(text)) return Number(text);
  throw new EngineError(
    'input-invalid',
    `${option} takes the number of an entry, and ${JSON.stringify(text)} is none. \`agentchart show RUN --events\` lists them.`,
  );
}
