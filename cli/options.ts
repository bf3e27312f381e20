import { userInfo } from 'node:os';
import { EngineError, messageOf } from '../protocol/error.ts';
import type { JsonValue } from '../protocol/json.ts';

/** Options of commands that show events. */
export type ShowOptions = { db?: string; json?: boolean; deltas?: boolean };

/** Options of commands that drive a run. */
export type DriveOptions = ShowOptions & { agent?: string; by?: string; yes?: boolean };

/** Returns the name of the OS user, the default of `--by`. */
export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return process.env.USER ?? 'unknown';
  }
}

/** Parses the JSON value of an option, or of stdin. Throws `input-invalid`, which names the option. */
export function parseJson(text: string, option: string): JsonValue {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const advice = option.startsWith('--')
      ? ` Quote it for your shell, such as ${option} '{"ok": true}'.`
      : '';
    throw new EngineError(
      'input-invalid',
      `${option} must be valid JSON, got ${JSON.stringify(text)}: ${messageOf(cause)}.${advice}`,
      null,
      { cause },
    );
  }
}

/** Parses a number. Throws `input-invalid`, which names the option. */
export function readNumber(option: string, text: string): number {
  const number = Number(text);
  if (text.trim() !== '' && Number.isFinite(number)) return number;
  throw new EngineError('input-invalid', `${option} must be a number, got ${JSON.stringify(text)}.`);
}

/** Parses an entry number. Throws `input-invalid` unless `text` is an integer. */
export function readEntryNumber(option: string, text: string): number {
  if (/^-?\d+$/.test(text)) return Number(text);
  throw new EngineError(
    'input-invalid',
    `${option} must be an entry number, got ${JSON.stringify(text)}. \`agentchart show RUN --events\` lists the entries.`,
  );
}

/** Returns the port that `--port` asks for. Throws `input-invalid` for anything else. */
export function readPort(text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port <= 65_535) return port;
  throw new EngineError(
    'input-invalid',
    `--port must be a number from 0 to 65535, got "${text}". 0 picks a free port.`,
  );
}

/** Returns the `--token` option, else `AGENTCHART_TOKEN` unless empty. Throws `input-invalid` for an empty option. */
export function readToken(option: string | undefined): string | undefined {
  if (option === '') throw new EngineError('input-invalid', '--token must not be empty.');
  return option ?? (process.env.AGENTCHART_TOKEN || undefined);
}

const ISO = /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** Returns a date (in UTC) or a time with its zone in ms since the epoch. Throws `input-invalid` for anything else. */
export function readTime(option: string, text: string): number {
  const [, day] = ISO.exec(text) ?? [];
  const time = day === undefined ? Number.NaN : Date.parse(text);
  // Date.parse reads February 30 as March 2.
  const isDay = !Number.isNaN(time) && new Date(`${day}T00:00Z`).toISOString().startsWith(`${day}`);
  if (isDay) return time;
  throw new EngineError(
    'input-invalid',
    `${option} must be a date or a time with its zone, such as 2026-11-01 or 2026-11-01T08:00:00Z, got ${JSON.stringify(text)}.`,
  );
}

/** Everything that is piped to this process, without its last line break; empty on a terminal. */
export async function readPiped(): Promise<string> {
  if (process.stdin.isTTY === true) return '';
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8').trimEnd();
}
