import { findCall } from '../../machines/calls.ts';
import type { Call, Context } from '../../machines/context.ts';
import type { CallCommand, RunCommand } from '../../protocol/run-command.ts';
import type { RunOptions } from '../driver/run-options.ts';
import { findLateSuccess, findLiveAttempt } from '../journal/find-live-attempt.ts';
import { type CommandStore, RunBlobs } from '../journal/run-blobs.ts';
import {
  boundCommand,
  type Command,
  type JudgeEdit,
  type MakeCommand,
  makeDecision,
  makeInput,
} from '../log/command.ts';
import { type Refusal, refuse } from '../log/refusal.ts';
import { recordRequest, recordRequests } from '../log/request-ids.ts';
import { becameOnce } from '../services/tool-batch.ts';
import { toolsIn } from '../sub-agents/hand-back.ts';
import type { CallRouter } from './call-router.ts';
import { editCall, editTurn, requalify } from './edits.ts';
import { makeReviewDecision } from './review-command.ts';

type Surroundings = Pick<
  RunOptions,
  'runId' | 'host' | 'graceMs' | 'checkOwner' | 'connectTools' | 'output' | 'rules' | 'loadPast'
> & {
  store: CommandStore;
};

/** Makes a command an input: validates an edited input, bounds an output, refuses an unsafe retry. `request`: its record. */
export async function prepareCommand(
  command: RunCommand,
  context: Context,
  surroundings: Surroundings,
  request = recordRequest(command),
): Promise<MakeCommand | Refusal> {
  const made = await makeCommand(command, context, surroundings);
  if ('accepted' in made || request === undefined) return made;
  return state => ({ ...made(state), ...request });
}

async function makeCommand(
  command: RunCommand,
  context: Context,
  surroundings: Surroundings,
): Promise<MakeCommand | Refusal> {
  if (!('callId' in command) && command.type !== 'edit-turn') return makeInput(command, surroundings);
  return await boundInput(await decide(command, context, surroundings), context, surroundings);
}

async function decide(
  command: CallCommand | Extract<RunCommand, { type: 'edit-turn' }>,
  context: Context,
  surroundings: Surroundings,
): Promise<Command | Refusal> {
  if (command.type === 'edit-turn') return await editTurn(command, { ...surroundings, context });
  const { callId } = command;
  if (command.type === 'edit-call') return await editCall(callId, command, { ...surroundings, context });
  if (context.review?.id === callId) return await makeReviewDecision(command, context, surroundings.output);
  const call = findCall(context, callId);
  const isRetry = command.type === 'resolve' && 'retry' in command && command.force !== true;
  const refusal = isRetry && call?.status === 'doubted' ? await refuseSecondRun(call, surroundings) : null;
  if (refusal !== null) return refusal;
  const connectTools = async () => toolsIn(await surroundings.connectTools(), context);
  const judge: JudgeEdit = (edited, input) => requalify({ ...edited, input }, { ...surroundings, context });
  const now = surroundings.host.now();
  return await makeDecision(command, call, { connectTools, judge, people: context.people, now });
}

/** Prepares the commands of one submission, or says why the first invalid one is refused. */
export async function prepareCommands(
  commands: readonly RunCommand[],
  context: Context,
  surroundings: Surroundings,
  router: Pick<CallRouter, 'refuseForeign'>,
): Promise<MakeCommand[] | (Refusal & { index: number })> {
  const makes: MakeCommand[] = [];
  const requests = recordRequests(commands);
  for (const [index, command] of commands.entries()) {
    const foreign = await router.refuseForeign(command, context);
    const prepared = foreign ?? (await prepareCommand(command, context, surroundings, requests[index]));
    if ('accepted' in prepared) return { ...prepared, index };
    makes.push(prepared);
  }
  return makes;
}

/** Stores an output that is too large for the journal as a blob. Refusals pass through. */
export async function boundInput(
  input: Command | Refusal,
  context: Context,
  surroundings: Surroundings,
): Promise<MakeCommand | Refusal> {
  if ('accepted' in input) return input;
  const bound = await boundCommand(input, context, new RunBlobs(surroundings));
  return () => bound;
}

/** Refuses to run a call again while an attempt of it may still act; `null` if none can. `attempt` as in `findLiveAttempt`. */
export async function refuseLive(
  { callId, attempt }: { callId: string; attempt: number },
  surroundings: Surroundings,
): Promise<Refusal | null> {
  const alive = await findLiveAttempt(surroundings, surroundings.runId, { callId, attempt });
  if (alive === null) return null;
  return refuse(
    'attempt-alive',
    `An earlier attempt of call ${callId} may still act: ${alive}. Stop that process or wait for it, then retry. Or force the retry (--force, { force: true }), which may perform the action twice.`,
  );
}

async function refuseSecondRun(call: Call, surroundings: Surroundings): Promise<Refusal | null> {
  const { store, runId, connectTools } = surroundings;
  const isOnce = call.sideEffect === 'once' || becameOnce(call, (await connectTools()).get(call.name));
  if (!isOnce) return null;
  const late = await findLateSuccess(store, runId, call.callId);
  if (late === undefined) return await refuseLive(call, surroundings);
  return refuse(
    'already-happened',
    `An earlier attempt of call ${call.callId} succeeded after the run had given it up. Record that it happened ({ happened: true, output }), or force the retry (--force, { force: true }), which performs the action twice.`,
  );
}
