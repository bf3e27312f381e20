/** Commands that change a run: decisions about its open calls, and what steers it. */
import { loadRun } from '../../engine/journal/load-run.ts';
import { readJournal } from '../../engine/journal/read-journal.ts';
import type { CommandResult } from '../../engine/log/refusal.ts';
import { describeUnsettled, listUnsettled } from '../../engine/log/settled.ts';
import type { Run } from '../../engine/run/run.ts';
import { hasEnded } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import { invalidInput } from '../../protocol/error.ts';
import { isJsonObject, omitUndefined } from '../../protocol/json.ts';
import { type Answer, commandFor } from '../../protocol/open/answer.ts';
import type { OpenItem } from '../../protocol/run-view.ts';
import type { Store } from '../../protocol/store.ts';
import type { Action, DriveOptions } from '../command-table.ts';
import { driveRun } from '../drive-run.ts';
import { describeCoded, EXIT, exitCodeOfError } from '../exit-codes.ts';
import { agentFor, bareAgent, findTop, readLaunch, withAgent } from '../launch.ts';
import { assertOneOf, readSender, type Sender } from '../options.ts';
import { detectEarlyExit } from '../process-end.ts';
import { formatClock } from '../render/format.ts';
import type { Output } from '../render/output.ts';
import { orderEvent } from '../render/terminal-view.ts';
import { type FoundRun, findRun, type OnRun, withRun } from '../store.ts';

type Change = (run: Run, sender: Sender) => Promise<CommandResult>;

export const approve: Action<'approve'> = ({ input, answer, answerJson, digest, sticky, ...given }) => {
  const isAnswer = answer !== undefined || answerJson !== undefined;
  if (isAnswer) assertOneOf({ '--answer': answer, '--answer-json': answerJson, '--input': input });
  const edit = omitUndefined({ input, answer: answer ?? answerJson, sticky });
  return decide(given, { kind: 'approval', digest }, { type: 'approve', ...edit });
};

export const reject: Action<'reject'> = ({ reason, ...given }) =>
  decide(given, { kind: 'approval' }, { type: 'reject', ...omitUndefined({ reason }) });

export const answer: Action<'answer'> = ({ output, answers, digest, ...given }) => {
  assertOneOf({ '--output': output, '--answers': answers });
  if (answers === undefined) return decide(given, { kind: 'result', digest }, { type: 'result', output });
  if (!isJsonObject(answers))
    throw invalidInput(`--answers: expected an object with a value for each key, such as '{"how": 4}'.`);
  return decide(given, { kind: 'question', digest }, { type: 'answers', answers });
};

export const resolve: Action<'resolve'> = ({ retry, force, happened, failed, ...given }) => {
  assertOneOf({ '--retry': retry, '--happened': happened, '--failed': failed });
  if (force === true && retry !== true) throw invalidInput('--force can only be used with --retry.');
  const doubt = { kind: 'doubt' } as const;
  if (happened !== undefined) return decide(given, doubt, { type: 'happened', output: happened });
  if (failed !== undefined) return decide(given, doubt, { type: 'failed', reason: failed });
  return decide(given, doubt, { type: 'retry', force: force === true });
};

function decide(
  { call: callId, ...options }: DriveOptions & OnRun & { call: string },
  open: { kind: OpenItem['kind']; digest?: string | undefined },
  answer: Answer,
): Promise<number> {
  const { kind, digest } = open;
  const reference = { kind, callId, ...omitUndefined({ digest }) };
  return changeRun(options, (run, sender) => run.submit([{ ...commandFor(reference, answer), ...sender }]));
}

export const unpause: Action<'unpause'> = options => changeRun(options, (run, sender) => run.unpause(sender));

export const step: Action<'step'> = options => changeRun(options, (run, sender) => run.step(sender));

/** Submits no command, only drives. */
export const resume: Action<'resume'> = options => changeRun(options, async () => ({ accepted: true }));

export const send: Action<'send'> = ({ text, ...options }) => {
  const message = text.join(' ');
  if (message.trim() === '') throw invalidInput('The message must not be empty.');
  return changeRun(options, (run, sender) => run.send(message, sender));
};

/** Does not wait until the run is paused. */
export const pause: Action<'pause'> = options =>
  submitCommand(
    options,
    (run, sender) => run.pause(sender),
    () => 'will pause before its next step.',
  );

/** A run that another process drives may end later; the output says by when. */
export const cancel: Action<'cancel'> = ({ reason, ...options }) =>
  submitCommand(
    options,
    (run, sender) => run.cancel({ ...sender, ...omitUndefined({ reason }) }),
    ({ context: { cancelling } }) =>
      cancelling === null
        ? 'was cancelled.'
        : `is being cancelled by the process that drives it; it ends by ${formatClock(cancelling.deadline)} UTC.`,
  );

/** Submits a command, then drives the run, or that at its top, until it settles. Returns the exit code. */
export async function changeRun(options: DriveOptions & OnRun, change: Change): Promise<number> {
  return await detectEarlyExit(() =>
    withRun(options, async found => {
      const { store, record, output } = found;
      const top = await findTop(store, record.runId);
      const begin = await loadRun(store, top);
      const driven = hasEnded(begin.state) ? record : await findRun(store, top);
      const agent = await agentFor(driven, store, readLaunch(options.agent));
      return await withAgent(agent, output, async () => {
        const target = await agent.open(record.runId);
        const result = await change(target, readSender(options));
        if (!result.accepted) return await showRefusal(result, found);
        if (!result.stranded) {
          const run = top === record.runId ? target : await agent.open(top);
          return await driveRun({ ...found, run, agent, begin, options });
        }
        const { runId, code, reason, advice } = result.stranded;
        if (output.json) {
          await printEntries(store, record.runId, output, record.seq);
          output.data(result.stranded);
        }
        output.problem(`The command is recorded, but no process drives run ${runId}: ${reason}. ${advice}`);
        return exitCodeOfError(code);
      });
    }),
  );
}

/** Submits a command that needs no agent and no driver here, then prints the run id and `describe`. */
export async function submitCommand(
  options: OnRun & { by?: string | undefined },
  change: Change,
  describe: (run: Run) => string,
): Promise<number> {
  return await withRun(options, async found => {
    const { store, record, output } = found;
    const run = await bareAgent(record, store).open(record.runId);
    const result = await change(run, readSender(options));
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

export async function readRun(
  options: OnRun,
  show: (state: ChartState, output: Output) => number,
): Promise<number> {
  return await withRun(options, async ({ store, record, output }) =>
    show((await loadRun(store, record.runId)).state, output),
  );
}

async function showRefusal(
  { code, message }: Extract<CommandResult, { accepted: false }>,
  { store, record: { runId }, output, commands }: FoundRun,
): Promise<number> {
  const tell = (text: string) => output.problem(describeCoded({ code, message: text }));
  if (code === 'run-ended') {
    const next = `${commands.of('run', '--continues', runId)} TEXT`;
    tell(`Run ${runId} has ended. To start a new run from its transcript: ${next}`);
  } else if (code === 'call-not-open') {
    const open = listUnsettled((await loadRun(store, runId)).state.context);
    const lines = open.map(call => `  ${describeUnsettled(call)}`);
    const calls = lines.length === 0 ? ['The run has no open calls.'] : ['Open calls:', ...lines];
    tell([message, ...calls].join('\n'));
  } else tell(message);
  return exitCodeOfError(code);
}
