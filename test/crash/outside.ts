import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonValue } from '../../protocol/json.ts';
import type { CrashPoint } from './scenario.ts';

/** A call, whose id is unique in its run. */
export type Place = { runId: string; callId: string };

/** An act of a tool, recorded by the tool itself. */
export type Act = Place & { tool: string; key: string; input: JsonValue };

/** Something a person saw or got acknowledged. */
export type Acknowledged =
  | { type: 'killed'; point: CrashPoint }
  | (Place & { type: 'approved'; input?: JsonValue; sticky?: boolean })
  | (Place & { type: 'rejected' })
  | (Place & { type: 'answered'; output: JsonValue })
  | (Place & { type: 'told'; keys: readonly string[] })
  /** An answer under review was sent back with a remark, or approved, also with another one in its place. */
  | (Place & { type: 'reviewed'; by: string; reason?: string; answer?: string })
  | { type: 'sent'; text: string }
  /** A call that was already decided, answered or resolved is open again. */
  | (Place & { type: 'asked again' })
  | { type: 'steered'; by: 'step.requested' | 'run.unpaused' }
  | (Place & { type: 'doubted'; name: string; reason: string })
  | (Place & { type: 'resolved'; as: 'retry' | 'happened' | 'failed' });

/**
 * The world outside the engine: append-only files with a line per event, each written in
 * one call. A killed process leaves a line complete or not at all.
 */
export class Outside {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  act(act: Act): void {
    this.#write('acts', act);
  }

  acknowledge(acknowledged: Acknowledged): void {
    this.#write('acknowledged', acknowledged);
  }

  get acts(): Act[] {
    return this.#read('acts') as Act[];
  }

  get acknowledged(): Acknowledged[] {
    return this.#read('acknowledged') as Acknowledged[];
  }

  hasActed(call: Place): boolean {
    return this.acts.some(act => isSame(act, call));
  }

  #write(file: string, line: Act | Acknowledged): void {
    appendFileSync(join(this.#folder, file), `${JSON.stringify(line)}\n`);
  }

  #read(file: string): unknown[] {
    const path = join(this.#folder, file);
    if (!existsSync(path)) return [];
    return readFileSync(path, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line));
  }
}

export function isSame(one: Place, other: Place): boolean {
  return one.runId === other.runId && one.callId === other.callId;
}
