import type { Agent } from '../agent/agent.ts';
import { systemHost } from '../engine/host/host.ts';
import { checkOwner, checkOwnerName, isOwnerDead } from '../engine/host/owner.ts';
import type { Settled } from '../engine/log/settled.ts';
import type { Run } from '../engine/run/run.ts';
import type { ChartState } from '../machines/step.ts';
import { EngineError, messageOf } from '../protocol/error.ts';
import { commandFor } from '../protocol/open/answer.ts';
import { shortenOwnerName } from '../protocol/owner-name.ts';
import { isDriven, type Owner, type Store } from '../protocol/store.ts';
import { askForDecisions } from './ask.ts';
import type { DriveOptions } from './command-table.ts';
import { describeCoded, EXIT, exitCodeOfRun } from './exit-codes.ts';
import { readSender, type Sender } from './options.ts';
import { exitWhenDone, watchInterrupts } from './process-end.ts';
import { cyan, type Output, yellow } from './render/output.ts';
import { showOpen, showStatus, showWaiting } from './render/show-open.ts';
import { makeView, type View } from './render/terminal-view.ts';
import type { OpenedStore } from './store.ts';

type Driven = OpenedStore & {
  run: Run;
  agent: Agent;
  /** The fold before the first entry to show; `null` to show the run from its first event. */
  begin: { state: ChartState; seq: number } | null;
  options: DriveOptions;
};

type Drive = Driven & { view: View; sender: Sender };

/**
 * Drives a run until it settles, or follows it while another process drives it, and shows its events. Asks
 * for decisions on a terminal. Returns the exit code.
 *
 * The first Ctrl-C cancels a run that this process drives, and stops following any other. The second exits
 * at once; the run can be resumed.
 */
export async function driveRun(driven: Driven): Promise<number> {
  const drive = { ...driven, view: makeView(driven), sender: readSender(driven.options) };
  try {
    return await driveToRest(drive);
  } catch (error) {
    throw error instanceof EngineError ? adviseResume(error, drive) : error;
  }
}

function adviseResume(error: EngineError, { run, output, commands }: Drive): EngineError {
  const { code, message } = error;
  const advice = `To resume the run: ${commands.of('resume', run.id)}`;
  if (output.json) output.data({ type: 'stranded', runId: run.id, code, reason: message, advice });
  const lines = `${message}\nEverything up to here is recorded. ${advice}`;
  return new EngineError(code, lines, error.details, { cause: error });
}

async function driveToRest(drive: Drive): Promise<number> {
  const { run, output, view, commands } = drive;
  const position = { seq: drive.begin?.seq ?? 0 };
  for (;;) {
    const settled = await settle(drive, position);
    if (settled === 'left') return EXIT.left;
    await watch(drive, position);
    if (settled.status !== 'waiting') {
      view.end(settled, commands);
      return exitCodeOfRun(settled);
    }
    if (await decide(drive, settled, position.seq)) continue;
    if (output.canAsk) output.line('To resume: ', cyan(commands.of('resume', run.id)));
    else showWaiting(output, settled, commands, run.context, systemHost.now());
    showStatus(output, 'waiting', settled, { runId: run.id });
    return EXIT.waiting;
  }
}

async function settle(drive: Drive, position: { seq: number }): Promise<Settled | 'left'> {
  let leave = () => {};
  const left = new Promise<'left'>(resolve => {
    leave = () => resolve('left');
  });
  const unwatch = watchInterrupts({
    first: () => void interrupt(drive, leave).catch(error => drive.output.problem(messageOf(error))),
    again: () => {
      drive.output.problem(`Exiting now. To resume the run: ${drive.commands.of('resume', drive.run.id)}`);
      process.exit(EXIT.left);
    },
  });
  try {
    await announceDriver(drive);
    const settling = drive.run.settled();
    const watching = watch(drive, position);
    watching.catch(() => {});
    return await Promise.race([
      left,
      settling.then(() => watching).then(() => settling),
      watching.then(() => settling),
    ]);
  } finally {
    unwatch();
  }
}

async function watch({ run, view, output }: Drive, position: { seq: number }): Promise<void> {
  for await (const happening of run.events({ after: position.seq })) {
    view.take(happening);
    if ('seq' in happening) position.seq = happening.seq;
    if (happening.type === 'run.claimed') announceTakeover(happening, output);
  }
}

function announceTakeover({ by, replaces }: { by: string; replaces?: string }, output: Output): void {
  if (replaces === undefined || checkOwnerName(replaces) !== 'self' || checkOwnerName(by) === 'self') return;
  const name = shortenOwnerName(by);
  const split = name.lastIndexOf(':');
  const winner = `Process ${name.slice(split + 1)} on ${name.slice(0, split)}`;
  output.problem(
    `${winner} took over this run, because this process (${process.pid}) did not renew its lease in time: it was ` +
      'suspended or blocked. Its results are discarded. Following the run.',
  );
}

async function interrupt({ run, store, output, sender, commands }: Drive, leave: () => void): Promise<void> {
  const owner = await findDriver(store, run.id);
  if (owner !== null && checkOwner(owner) !== 'self') {
    output.problem(
      `${nameOwner(owner)} is still driving the run. To cancel it: ${commands.of('cancel', run.id)}`,
    );
    return leave();
  }
  output.problem('Cancelling the run; calls have 5 s to settle. Press Ctrl-C again to exit now.');
  await run.cancel({ ...sender, reason: 'interrupted' });
  exitWhenDone();
}

async function decide(
  drive: Drive,
  settled: Extract<Settled, { status: 'waiting' }>,
  after: number,
): Promise<boolean> {
  const { run, output, sender, options } = drive;
  if (options.yes !== true || settled.approvals.length === 0) {
    return output.canAsk && (await askForDecisions({ run, output, sender, after }, settled.open));
  }
  let accepted = false;
  for (const call of settled.approvals) {
    showOpen(output, call, 'approved by --yes', systemHost.now());
    const result = await run.submit([{ ...commandFor(call, { type: 'approve' }), ...sender }]);
    if (!result.accepted) output.problem(describeCoded(result));
    accepted ||= result.accepted;
  }
  return accepted;
}

async function announceDriver({ run, store, output }: Drive): Promise<void> {
  const owner = await findDriver(store, run.id);
  if (owner === null || checkOwner(owner) === 'self') return;
  output.line(yellow(`${nameOwner(owner)} is driving this run; following it.`));
}

/** Returns the owner of the run's lease, or `null` if there is none or its process is known to be dead. */
async function findDriver(store: Store, runId: string): Promise<Owner | null> {
  const record = await store.get(runId);
  return record !== undefined && isDriven(record, systemHost.now(), isOwnerDead) ? record.owner : null;
}

function nameOwner({ pid, host }: Owner): string {
  return `Process ${pid} on ${host}`;
}
