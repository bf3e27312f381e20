import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { isOwnerDead } from '../../engine/host/owner.ts';
import { loadRun } from '../../engine/journal/load-run.ts';
import { listOpen } from '../../machines/settled.ts';
import { type Answer, commandFor } from '../../protocol/open/answer.ts';
import { callIdOf, type InboxItem, isOpenItem } from '../../protocol/run-view.ts';
import { isDriven, type Store } from '../../protocol/store.ts';
import { askForDecisions } from '../ask.ts';
import { bareAgent } from '../launch.ts';
import type { Sender } from '../options.ts';
import type { Output } from '../render/output.ts';
import { findRun } from '../store.ts';
import type { OpenedRow } from './watch-session.ts';

type Deciding = { store: Store; sender: Sender };

/** Gives the answer to what the item shows, and to nothing else: it names the digest. Drives nothing. */
export async function decideItem(
  { store, sender }: Deciding,
  { runId, call }: InboxItem,
  answer: Answer,
): Promise<{ isTaken: boolean; message?: string }> {
  if (!isOpenItem(call)) throw new Error('A sign-in has no decision.');
  const record = await findRun(store, runId);
  const run = await bareAgent(record, store).open(runId);
  const result = await run.submit([{ ...commandFor(call, answer), ...sender }]);
  return result.accepted ? { isTaken: true } : { isTaken: false, message: result.message };
}

/** Asks on the terminal about what is opened: about one open thing, or all of a run. Returns whether anything was answered. */
export async function askAbout(
  { store, sender, output }: Deciding & { output: Output },
  opened: OpenedRow,
): Promise<boolean> {
  const { runId } = 'item' in opened ? opened.item : opened.record;
  const record = await findRun(store, runId);
  const { state, seq } = await loadRun(store, runId);
  const open = listOpen(state.context);
  const asked =
    'item' in opened
      ? open.filter(one => one.kind !== 'pause' && callIdOf(one) === callIdOf(opened.item.call))
      : open;
  if (asked.length === 0) return false;
  const run = await bareAgent(record, store).open(runId);
  return await askForDecisions({ run, output, sender, after: seq }, asked);
}

/** How long other processes have to take up a run before it is resumed here, in ms. */
const TAKEN_UP_MS = 2_000;
const LONGEST_ERROR = 2_000;

type ResumeOptions = { file: string; agent: string | undefined; tell(message: string): void };

/**
 * Resumes runs that were decided here and that no other process drives, each with `agentchart resume` in a process of its
 * own: what a tool prints does not reach the screen.
 */
export class Resumer {
  readonly #store: Store;
  readonly #options: ResumeOptions;
  readonly #driven = new Map<string, Promise<void>>();

  constructor(store: Store, options: ResumeOptions) {
    this.#store = store;
    this.#options = options;
  }

  /** The runs that processes of this one drive. */
  get driven(): readonly string[] {
    return [...this.#driven.keys()];
  }

  async ended(): Promise<void> {
    await Promise.all(this.#driven.values());
  }

  /** Resumes the run unless another process takes it up first, or it rests. */
  resumeLater(runId: string): void {
    if (this.#driven.has(runId)) return;
    const resumed = this.#resume(runId)
      .catch(error => this.#options.tell(String(error)))
      .finally(() => this.#driven.delete(runId));
    this.#driven.set(runId, resumed);
  }

  async #resume(runId: string): Promise<void> {
    const until = performance.now() + TAKEN_UP_MS;
    do {
      if (!(await this.#isLeft(runId))) return;
      await new Promise(resolve => setTimeout(resolve, TAKEN_UP_MS / 8));
    } while (performance.now() < until);
    const { file, agent, tell } = this.#options;
    const [, script = ''] = process.argv;
    const words = ['resume', runId, '--db', file, ...(agent === undefined ? [] : ['--agent', agent])];
    const child = spawn(process.execPath, [...process.execArgv, script, ...words], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-LONGEST_ERROR);
    });
    await once(child, 'close');
    if (await this.#isLeft(runId)) tell(`No process drives ${runId}: ${said.trim()}`);
  }

  /** Whether the run has something to do and no process drives it. */
  async #isLeft(runId: string): Promise<boolean> {
    const record = await this.#store.get(runId);
    return record?.status === 'running' && !isDriven(record, Date.now(), isOwnerDead);
  }
}
