import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beginFold, foldEntry } from '../../engine/journal/load-run.ts';
import { toStored } from '../../machines/snapshot.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import { hashOf } from '../../protocol/content/digest.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { type JsonObject, type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';

/** A reviewed journal with the states that the chart must reach at its events. */
export type GoldenJournal = {
  made: string;
  about: string;
  /** For edge journals: the edges of the chart that this is a shortest path over. */
  edges?: string[];
  format: number;
  chart: { version: number; hash: string };
  entries: GoldenEntry[];
  /** The state after the last entry. */
  end: JsonObject;
};

type GoldenEntry = { path: string; hash: string; event: JsonObject };

export const MADE = 'by `node test/golden/write-golden.ts`; not to be edited';

const ROOT = fileURLToPath(new URL('.', import.meta.url));

/** The journals of a folder under test/golden, with their file names. */
export function readGolden(folder: string): [name: string, journal: GoldenJournal][] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map(file => file.replaceAll('\\', '/'))
    .filter(file => file.endsWith('.json'))
    .sort()
    .map(file => [`${folder}/${file}`, JSON.parse(readFileSync(join(ROOT, folder, file), 'utf8'))]);
}

export function makeGolden(about: string, events: readonly RunEvent[], edges?: string[]): GoldenJournal {
  const states = foldAll(events);
  const [started] = events;
  const last = states.at(-1);
  if (started?.type !== 'run.started' || last === undefined) throw new Error(`${about} has no beginning`);
  const { format, chart } = started;
  const entries = events.map((event, index): GoldenEntry => {
    const state = states[index] ?? last;
    return { path: statePath(state), hash: hashStanding(state), event: toJson(event) as JsonObject };
  });
  return {
    made: MADE,
    about,
    ...omitUndefined({ edges }),
    format,
    chart,
    entries,
    end: standingOf(last),
  };
}

/** The state after each event. */
export function foldAll(events: readonly RunEvent[]): ChartState[] {
  const [started, ...rest] = events;
  if (started?.type !== 'run.started') throw new Error('a journal begins with run.started');
  const states = [beginFold(started)];
  for (const [index, event] of rest.entries()) {
    const before = states[index];
    if (before !== undefined) states.push(foldEntry(before, { seq: index + 2, event }, started.runId));
  }
  return states;
}

/** The state of a run without the identity of its chart. */
export function standingOf(state: ChartState): JsonObject {
  const { value, status, context } = toStored(state);
  return toJson({ value, status, context }) as JsonObject;
}

/** The first 64 bits of the hash of the state of a run. */
export function hashStanding(state: ChartState): string {
  return hashOf(standingOf(state)).slice(0, 16);
}

/** One entry per line, so that a diff shows which entries changed. */
export function formatGolden({ entries, end, ...head }: GoldenJournal): string {
  const lines = (values: readonly JsonValue[]) =>
    values.map(value => `    ${JSON.stringify(value)}`).join(',\n');
  const fields = Object.entries(head).map(
    ([key, value]) => `  ${JSON.stringify(key)}: ${formatField(value)}`,
  );
  return `{\n${fields.join(',\n')},\n  "entries": [\n${lines(entries)}\n  ],\n  "end": ${JSON.stringify(end)}\n}\n`;
}

function formatField(value: JsonValue): string {
  if (!Array.isArray(value)) return JSON.stringify(value);
  return `[\n${value.map(member => `    ${JSON.stringify(member)}`).join(',\n')}\n  ]`;
}
