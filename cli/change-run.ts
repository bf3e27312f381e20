import type { Agent } from '../agent/agent.ts';
import { loadRun } from '../engine/journal/load-run.ts';
import { readJournal } from '../engine/journal/read-journal.ts';
import type { CommandResult, Stranded } from '../engine/run/explain-refusal.ts';
import type { Run } from '../engine/run/run.ts';
import { listUnsettled } from '../engine/run/settled.ts';
import { hasEnded } from '../machines/standing.ts';
import type { ChartState } from '../machines/step.ts';
import { EngineError } from '../protocol/error.ts';
import type { RunRecord, Store } from '../protocol/store.ts';
import { detectEarlyExit } from './detect-early-exit.ts';
import { driveRun } from './drive-run.ts';
import { EXIT, exitCodeOfError } from './exit-codes.ts';
import { findRun } from './find-run.ts';
import { agentFor, bareAgent, findTop, readLaunch } from './launch.ts';
import { storeFile, withExistingStore } from './open-store.ts';
import { type DriveOptions, type ShowOptions, userName } from './options.ts';
import { CommandLines } from './render/command-lines.ts';
import { makeView, orderEvent } from './render/make-view.ts';
import { Output } from './render/output.ts';

/**
 * Submits a command to a run, then drives the run until it settles. For a sub-agent's run, drives the run at
 * the top. `change` gets the run and the author. Returns the exit code.
 */
export async function changeRun(
  id: string,
  options: DriveOptions,
  change: (run: Run, by: string) => Promise<CommandResult>,
): Promise<number> {
  const output = new Output({ json: options.json === true });
  const file = storeFile(options.db);
  const by = options.by ?? userName();
  return await detectEarlyExit(() =>
    withExistingStore(file, async store => {
      const record = await findRun(store, id);
      const top = await findTop(store, record.runId);
      const begin = await loadRun(store, top);
      const agent = await agentFor(
        hasEnded(begin.state) ? record : await findRun(store, top),
        store,
        readLaunch(options.agent),
      );
      return await withAgent(agent, output, async () => {
        const target = await agent.open(record.runId);
        const result = await change(target, by);
        const commands = new CommandLines(file);
        if (!result.accepted) return await showRefusal(result, store, record, output, commands);
        if (result.stranded) return await showStranded(result.stranded, store, record, output);
        const run = top === record.runId ? target : await agent.open(top);
        const view = makeView({ output, runId: top, agent, deltas: options.deltas === true, begin });
        return await driveRun({
          run,
          store,
          output,
          view,
          commands,
          after: begin.seq,
          by,
          yes: options.yes === true,
        });
      });
    }),
  );
}

/**
 * Submits a command that needs neither an agent nor a driver in this process, then prints what `describe`
 * returns after the run id. Returns the exit code.
 */
export async function submitCommands(
  id: string,
  options: ShowOptions & { by?: string },
  change: (run: Run, by: string) => Promise<CommandResult>,
  describe: (run: Run) => string,
): Promise<number> {
  const output = new Output({ json: options.json === true });
  const file = storeFile(options.db);
  return await withExistingStore(file, async store => {
    const record = await findRun(store, id);
    const run = await bareAgent(record, store).open(record.runId);
    const result = await change(run, options.by ?? userName());
    if (!result.accepted) return await showRefusal(result, store, record, output, new CommandLines(file));
    if (output.json) await printEntriesAfter(record, store, output);
    else output.line(`${record.runId} ${describe(run)}`);
    return EXIT.done;
  });
}

async function printEntriesAfter({ runId, seq: after }: RunRecord, store: Store, output: Output) {
  for (const { seq, event } of await readJournal(store, runId, after))
    output.data(orderEvent({ ...event, runId, seq }));
}

/** Reads a run without an agent. Returns the exit code that `show` returns. */
export async function readRun(
  id: string,
  options: ShowOptions,
  show: (state: ChartState, output: Output) => number,
): Promise<number> {
  const output = new Output({ json: options.json === true });
  return await withExistingStore(storeFile(options.db), async store => {
    const { runId } = await findRun(store, id);
    return show((await loadRun(store, runId)).state, output);
  });
}

/** Runs `work`, then closes the agent. An error while closing is reported and does not change the outcome. */
export async function withAgent<Result>(
  agent: Agent,
  output: Output,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } finally {
    await agent.close().catch(error => output.problem(`Closing a tool server failed: ${String(error)}`));
  }
}

/** Shows why no process drives a run whose command was recorded. */
async function showStranded(
  stranded: Stranded,
  store: Store,
  record: RunRecord,
  output: Output,
): Promise<number> {
  const { runId, code, reason, advice } = stranded;
  if (output.json) {
    await printEntriesAfter(record, store, output);
    output.data(stranded);
  }
  output.problem(`The command is recorded, but no process drives run ${runId}: ${reason}. ${advice}`);
  return exitCodeOfError(code);
}

async function showRefusal(
  { code, message }: Extract<CommandResult, { accepted: false }>,
  store: Store,
  { runId }: RunRecord,
  output: Output,
  commands: CommandLines,
): Promise<number> {
  if (code === 'run-ended') {
    const next = `${commands.of('run', '--continues', runId)} TEXT`;
    output.problem(`Run ${runId} has ended. To start a new run from its transcript: ${next}`);
    return exitCodeOfError(code);
  }
  const { state } = await loadRun(store, runId);
  const open = listUnsettled(state.context);
  const isAboutCalls = code === 'call-unknown' || code === 'call-not-open';
  const lines = open.map(call => `  ${call.callId}  ${call.name}, ${call.status}`);
  const calls = lines.length === 0 ? ['The run has no open calls.'] : ['Open calls:', ...lines];
  output.problem([message, ...(isAboutCalls ? calls : [])].join('\n'));
  return exitCodeOfError(code);
}

/** Throws `input-invalid` unless exactly one of the options is given. `options` maps flags to their values. */
export function assertOneOf(options: Readonly<Record<string, unknown>>): void {
  const found = Object.values(options).filter(value => value !== undefined).length;
  if (found === 1) return;
  const names = Object.keys(options).join(', ');
  throw new EngineError('input-invalid', `Give exactly one of ${names}; got ${found}.`);
}
