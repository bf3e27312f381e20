import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import { systemHost } from '../engine/host/host.ts';
import { EngineError, invalidInput, messageOf } from '../protocol/error.ts';
import type { JsonValue } from '../protocol/json.ts';
import type { Person } from '../protocol/run-command.ts';

export const DEFAULT_STORE = '.agentchart/runs.db';

export function storeFile(db: string | undefined): string {
  return db ?? (process.env.AGENTCHART_DB || DEFAULT_STORE);
}

/** Throws `input-invalid` for `--host` or `--token` without `--port`: they would have no effect. */
export function refuseWithoutPort(command: Pick<Command, 'getOptionValueSource'>): void {
  for (const name of ['host', 'token'])
    if (command.getOptionValueSource(name) === 'cli' && command.getOptionValueSource('port') !== 'cli')
      throw invalidInput(`Give --${name} only with --port.`);
}

/** The folder of this package. */
export function packageFolder(): string {
  return dirname(createRequire(import.meta.url).resolve('agentchart/package.json'));
}

export function readVersion(): string {
  return JSON.parse(readFileSync(join(packageFolder(), 'package.json'), 'utf8')).version;
}

export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return process.env.USER || 'unknown';
  }
}

/** Who gives the commands of this process, as it says. */
export type Sender = { as: Person };

export function readSender({
  by,
  group,
}: {
  by?: string | undefined;
  group?: readonly string[] | undefined;
}): Sender {
  return { as: { name: by ?? userName(), groups: group, known: 'asserted' } };
}

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

/** `what` names the allowed numbers, by default by their bounds; `advice` follows the error. */
export type NumberRule = { what?: string; isWhole?: boolean; from?: number; to?: number; advice?: string };

/** Parses a number, by default any. Throws `input-invalid`, which names the option and `what` it must be. */
export function readNumber(text: string, option: string, rule: NumberRule = {}): number {
  const { isWhole = false, from = -Infinity, to = Infinity, advice = '' } = rule;
  const { what = `a ${isWhole ? 'whole ' : ''}number${describeBounds(from, to)}` } = rule;
  const number = Number(text);
  const isNumber = isWhole ? /^-?\d+$/.test(text) : text.trim() !== '' && Number.isFinite(number);
  if (isNumber && number >= from && number <= to) return number;
  throw invalidInput(`${option} must be ${what}, got ${JSON.stringify(text)}.${advice}`);
}

function describeBounds(from: number, to: number): string {
  const isEndless = to >= Number.MAX_SAFE_INTEGER;
  if (from === -Infinity) return isEndless ? '' : ` up to ${to}`;
  return isEndless ? ` from ${from} on` : ` from ${from} to ${to}`;
}

export function readEntryNumber(text: string, option: string): number {
  const advice = ' `agentchart show RUN --events` lists the entries.';
  return readNumber(text, option, { what: 'an entry number', isWhole: true, advice });
}

export function readOneOf<Word extends string>(known: readonly Word[], text: string, option: string): Word {
  const word = known.find(one => one === text);
  if (word !== undefined) return word;
  throw invalidInput(`${option} must be one of ${known.join(', ')}, got ${JSON.stringify(text)}.`);
}

/** Throws `input-invalid` unless exactly one of the options is given. `options` maps flags to their values. */
export function assertOneOf(options: Readonly<Record<string, unknown>>): void {
  const found = Object.values(options).filter(value => value !== undefined).length;
  if (found === 1) return;
  const names = Object.keys(options).join(', ');
  throw invalidInput(`Give exactly one of ${names}; got ${found}.`);
}

/** Throws `input-invalid` for an empty name, such as that of a variable that is not set. */
export function readName(text: string, option: string): string {
  if (text.trim() === '') throw invalidInput(`${option} must not be empty.`);
  return text;
}

/** Returns the `--token` option, else `AGENTCHART_TOKEN` unless empty. Throws `input-invalid` for an empty option. */
export function readToken(option: string | undefined): string | undefined {
  if (option === '') throw invalidInput('--token must not be empty.');
  return option ?? (process.env.AGENTCHART_TOKEN || undefined);
}

const ISO = /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/;

const AGO = /^(\d{1,6})([mhd])$/;
const AGO_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Returns a date (in UTC), a time with its zone, or a time ago, such as `30d`, in ms since the epoch. Throws
 * `input-invalid` for anything else.
 */
export function readTime(text: string, option: string): number {
  const [, count, unit] = AGO.exec(text) ?? [];
  if (unit !== undefined) return systemHost.now() - Number(count) * AGO_MS[unit as keyof typeof AGO_MS];
  const [, day] = ISO.exec(text) ?? [];
  const time = day === undefined ? Number.NaN : Date.parse(text);
  // Date.parse reads February 30 as March 2.
  const isDay = !Number.isNaN(time) && new Date(`${day}T00:00Z`).toISOString().startsWith(`${day}`);
  if (isDay) return time;
  throw invalidInput(
    `${option} must be a date, a time with its zone, or minutes, hours or days ago, such as 2026-11-01, 2026-11-01T08:00:00Z or 30d, got ${JSON.stringify(text)}.`,
  );
}

export async function readPiped(): Promise<string> {
  if (process.stdin.isTTY === true) return '';
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8').trimEnd();
}
