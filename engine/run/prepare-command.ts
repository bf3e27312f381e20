import { findCall } from '../../machines/calls.ts';
import type { Call, Context } from '../../machines/context.ts';
import { findLateSuccess, findLiveAttempt } from '../driver/find-live-attempt.ts';
import { boundCommand, RunBlobs } from '../journal/run-blobs.ts';
import { becameOnce } from '../services/call-run.ts';
import {
  type CallCommand,
  type Command,
  type MakeCommand,
  makeDecision,
  makeInput,
  type RunCommand,
} from './command.ts';
import { type Refusal, refuse } from './explain-refusal.ts';
import type { RunOptions } from './run-options.ts';

type Surroundings = Pick<RunOptions, 'runId' | 'store' | 'host' | 'graceMs' | 'judgeOwner' | 'connectTools'>;

/**
 * A command as the input it becomes, as far as that takes more than the state it will meet: an edited input is
 * validated, and an output that is too large for the journal is kept beside it. What must not happen twice is
 * not run again, unless it is forced, while an attempt of it may still act, or once one has.
 */
export async function prepareCommand(
  command: RunCommand,
  context: Context,
  surroundings: Surroundings,
): Promise<MakeCommand | Refusal> {
  if (!('callId' in command)) return makeInput(command, surroundings);
  return await boundInput(await prepareDecision(command, context, surroundings), context, surroundings);
}

/** An input, with an output that is too large for the journal kept beside it. */
export async function boundInput(
  said: Command | Refusal,
  context: Context,
  surroundings: Surroundings,
): Promise<MakeCommand | Refusal> {
  if ('accepted' in said) return said;
  const bound = await boundCommand(said, context, new RunBlobs(surroundings));
  return () => bound;
}

/** Why a call is not run again while an attempt of it, of the first `attempt` or of any, may still act. */
export async function refuseLive(
  { callId, attempt }: { callId: string; attempt: number },
  surroundings: Surroundings,
): Promise<Refusal | null> {
  const alive = await findLiveAttempt(surroundings, surroundings.runId, { callId, attempt });
  if (alive === null) return null;
  return refuse(
    'attempt-alive',
    `An earlier attempt of call ${callId} may still act: ${alive}. End that process, or wait until it is done, and retry; or force the retry (--force, { force: true }), which may do it twice.`,
  );
}

async function prepareDecision(
  command: CallCommand,
  context: Context,
  surroundings: Surroundings,
): Promise<Command | Refusal> {
  const { connectTools } = surroundings;
  const call = findCall(context, command.callId);
  const isRetry = command.type === 'resolve' && 'retry' in command && command.force !== true;
  const isOnce = isRetry && (await mustNotRunTwice(call, connectTools));
  const refusal = isOnce && call !== undefined ? await refuseTwice(call, surroundings) : null;
  return refusal ?? (await makeDecision(command, call, connectTools));
}

async function refuseTwice(call: Call, surroundings: Surroundings): Promise<Refusal | null> {
  const { store, runId } = surroundings;
  const late = await findLateSuccess(store, runId, call.callId);
  if (late === undefined) return await refuseLive(call, surroundings);
  return refuse(
    'already-happened',
    `An attempt of call ${call.callId} has succeeded after it was given up. Say that it happened ({ happened: true, output }), or force the retry (--force, { force: true }), which does it twice.`,
  );
}

async function mustNotRunTwice(
  call: Call | undefined,
  connectTools: Surroundings['connectTools'],
): Promise<boolean> {
  if (call?.status !== 'doubted') return false;
  return call.sideEffect === 'once' || becameOnce(call, (await connectTools()).get(call.name));
}
