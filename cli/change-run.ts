import { loadRun } from '../engine/journal/load-run.ts';
import { readJournal } from '../engine/journal/read-journal.ts';
import type { CommandResult, Stranded } from '../engine/log/refusal.ts';
import { listUnsettled } from '../engine/log/settled.ts';
import type { Run } from '../engine/run/run.ts';
import { hasEnded } from '../machines/status.ts';
import type { ChartState } from '../machines/step.ts';
import type { RunRecord, Store } from '../protocol/store.ts';
import { driveRun } from './drive-run.ts';
import { EXIT, exitCodeOfError } from './exit-codes.ts';
import { agentFor, bareAgent, findTop, readLaunch, withAgent } from './launch.ts';
import { type DriveOptions, type ShowOptions, userName } from './options.ts';
import { detectEarlyExit } from './process-end.ts';
import type { Output } from './render/output.ts';
import { orderEvent } from './render/terminal-view.ts';
import { findRun, type Opened, withRun } from './store.ts';

type Found = Opened & { record: RunRecord };

/** Submits a command to a run, in the name of `by`. */
type Change = (run: Run, by: string) => Promise<CommandResult>;

/** Submits a command, then drives the run, or that at its top, until it settles. Returns the exit code. */
export async function changeRun(id: string, options: DriveOptions, change: Change): Promise<number> {
  return await detectEarlyExit(() =>
    withRun(id, options, async found => {
      const { store, record, output } = found;
      const top = await findTop(store, record.runId);
      const begin = await loadRun(store, top);
      const agent = await agentFor(
        hasEnded(begin.state) ? record : await findRun(store, top),
        store,
        readLaunch(options.agent),
      );
      return await withAgent(agent, output, async () => {
        const target = await agent.open(record.runId);
        const result = await change(target, options.by ?? userName());
        if (!result.accepted) return await showRefusal(result, found);
        if (result.stranded) return await showStranded(result.stranded, found);
        const run = top === record.runId ? target : await agent.open(top);
        return await driveRun({ ...found, run, agent, begin, options });
      });
    }),
  );
}

/** Submits a command that needs no agent and no driver here, then prints the run id and `describe`. */
export async function submitCommands(
  id: string,
  options: ShowOptions & { by?: string },
  change: Change,
  describe: (run: Run) => string,
): Promise<number> {
  return await withRun(id, options, async found => {
    const { store, record, output } = found;
    const run = await bareAgent(record, store).open(record.runId);
    const result = await change(run, options.by ?? userName());
    if (!result.accepted) return await showRefusal(result, found);
    if (output.json) await printEntries(store, record.runId, output, record.seq);
    else output.line(`${record.runId} ${describe(run)}`);
    return EXIT.done;
  });
}

/** Prints the journal entries after the entry `after` as JSON events that carry the run id and the entry number. */
export async function printEntries(store: Store, runId: string, output: Output, after = 0): Promise<void> {
  for (const { seq, event } of await readJournal(store, runId, after))
    output.data(orderEvent({ ...event, runId, seq }));
}

/** Reads a run without an agent. Returns the exit code that `show` returns. */
export async function readRun(
  id: string,
  options: ShowOptions,
  show: (state: ChartState, output: Output) => number,
): Promise<number> {
  return await withRun(id, options, async ({ store, record, output }) =>
    show((await loadRun(store, record.runId)).state, output),
  );
}

async function showStranded(stranded: Stranded, { store, record, output }: Found): Promise<number> {
  const { runId, code, reason, advice } = stranded;
  if (output.json) {
    await printEntries(store, record.runId, output, record.seq);
    output.data(stranded);
  }
  output.problem(`The command is recorded, but no process drives run ${runId}: ${reason}. ${advice}`);
  return exitCodeOfError(code);
}

async function showRefusal(
  { code, message }: Extract<CommandResult, { accepted: false }>,
  { store, record: { runId }, output, commands }: Found,
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
