import type { RunEvent } from '../../protocol/event.ts';
import { shortenOwnerName } from '../../protocol/owner-name.ts';
import { memory } from '../../stores/memory.ts';
import { eventsOf } from '../support/engine/agents.ts';
import { makeProcess, type Scene } from './engine-process.ts';
import { PEOPLE } from './scenes/people.ts';
import { RECOVERY } from './scenes/recovery.ts';
import { TOOLS } from './scenes/tools.ts';
import { TURNS } from './scenes/turns.ts';

/**
 * Runs of the engine itself, with scripted models and a clock that stands still: the events in its
 * journals and their order are part of the golden data.
 */

/** The scenes by file name. */
const SCENES: Readonly<Record<string, Scene>> = { ...PEOPLE, ...TOOLS, ...TURNS, ...RECOVERY };

const START = Date.UTC(2026, 0, 1);

export type EngineJournal = { name: string; about: string; events: RunEvent[] };

export async function recordScene(name: string): Promise<EngineJournal> {
  const scene = SCENES[name];
  if (scene === undefined) throw new Error(`there is no scene ${name}`);
  const shared = memory();
  let processes = 0;
  const runId = await scene.play(() => {
    const process = makeProcess(shared, START + processes * 60_000, `p${processes + 1}_`);
    processes += 1;
    return process;
  });
  return { name, about: scene.about, events: hideProcess(await eventsOf(shared, runId)) };
}

/** Identical on every machine. */
function hideProcess(events: readonly RunEvent[]): RunEvent[] {
  const name = events.flatMap(event => (event.type === 'run.claimed' ? [event.by] : []))[0];
  if (name === undefined) return [...events];
  const hide = (text: string, part: string) =>
    text.replaceAll(JSON.stringify(part).slice(1, -1), 'a process');
  return JSON.parse(hide(hide(JSON.stringify(events), name), shortenOwnerName(name)));
}

export function listScenes(): string[] {
  return Object.keys(SCENES);
}
