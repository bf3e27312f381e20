import { createHash } from 'node:crypto';
import type { Context } from 'hono';
import * as z from 'zod';
import { byOf } from '../../../access/caller.ts';
import type { Host } from '../../../engine/driver/host.ts';
import { type ForkModel, forkRun } from '../../../engine/run/forks/fork-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { RunCommand } from '../../../engine/run/run-command.ts';
import { EngineError } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Admission } from '../../access/admission.ts';
import { ApiError } from '../../error-envelope.ts';
import { fields } from '../../fields.ts';
import { type BodyLimits, readBody } from '../../read-body.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { findRecord, type RunRegistry } from '../run-registry.ts';
import type { ServedAgents } from '../served-agents.ts';
import { signed } from './command-routes.ts';
import { byBody, commandsBody, sendBody } from './request-bodies.ts';

export const forkBody = fields({
  at: z.number().int().positive().meta({ description: 'The seq of the last entry to copy.' }),
  message: z.exactOptional(sendBody.shape.message),
  replayTools: z.exactOptional(z.boolean()).meta({
    description:
      'The fork takes the results of equal calls from the original run and executes no tool. A call without such a result is in doubt.',
  }),
  model: z.exactOptional(z.string()).meta({
    description:
      'The model of the fork and of its forks: one of `forkModels` in `GET /agents/{name}`. Without it, the fork uses the model of the run.',
  }),
  paused: z.exactOptional(z.boolean()).meta({
    description: 'The fork rests after entry `at`, before anything follows from it.',
  }),
  commands: z.exactOptional(commandsBody).meta({
    description:
      'The changes in the fork: commands as in `POST /runs/{id}/commands`, applied before the fork runs. If a command is refused, no fork is created.',
  }),
  ...byBody.shape,
});

export type ForkRouteOptions = {
  store: Store;
  clock: Host;
  agents: ServedAgents;
  held: RunRegistry;
  admission: Admission;
  bodyLimits: BodyLimits;
  viewHeld(run: Run): Promise<RunView>;
};

/**
 * Forks a run at an entry and has the fork driven; answers 201 with its view. A repeated `requestId` answers with the
 * fork that it created. Throws the errors of forking, and an `ApiError` for a refused command.
 */
export async function fork(
  c: Context<RunsEnv>,
  id: string,
  { store, clock, agents, held, admission, bodyLimits, viewHeld }: ForkRouteOptions,
): Promise<Response> {
  const body = await readBody(c.req.raw, forkBody, bodyLimits);
  const caller = c.get('caller');
  const { runId, agent } = await findRecord(store, id, caller);
  const { at, message, requestId, commands = [], replayTools, paused } = body;
  const model = body.model === undefined ? undefined : agents.forkModel(agent, body.model);
  const decided = commands.flatMap(command => ('callId' in command ? [command.callId] : []));
  const forkId = requestId === undefined ? clock.newId('run') : forkIdOf(runId, requestId);
  const by = byOf(caller, body.by);
  const release = await admission.admit(caller);
  try {
    const how = omitUndefined({ message, by, replayTools, paused, model });
    const isNew = await begin(store, clock, { runId, forkId, at, decided, ...how });
    const hold = await held.hold(forkId);
    try {
      if (isNew) await change(store, hold.run, signed(commands as RunCommand[], caller));
      held.drive(forkId);
      hold.run.settled().then(release, release);
      c.header('Location', `/runs/${forkId}`);
      return c.json(await viewHeld(hold.run), 201);
    } finally {
      hold.release();
    }
  } catch (error) {
    release();
    throw error;
  }
}

type ForkRequest = {
  runId: string;
  forkId: string;
  at: number;
  decided: readonly string[];
  message?: z.infer<typeof sendBody>['message'];
  by?: string;
  replayTools?: boolean;
  paused?: boolean;
  model?: ForkModel;
};

/** Creates the fork. Returns false if an earlier request with this id has created it. */
async function begin(store: Store, host: Host, { runId, forkId, at, ...how }: ForkRequest): Promise<boolean> {
  try {
    await forkRun({ store, host }, runId, at, { ...how, runId: forkId });
    return true;
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== 'run-exists') throw error;
    const known = await store.get(forkId);
    if (known?.forkOf?.runId === runId && known.forkOf.at === at) return false;
    throw new ApiError('input-invalid', 'The request id belongs to another fork. Choose a new id for each.');
  }
}

/** Applies commands to a new fork. If they are refused, deletes it. */
async function change(store: Store, run: Run, commands: readonly RunCommand[]): Promise<void> {
  if (commands.length === 0) return;
  const result = await run.submit(commands);
  if (result.accepted) return;
  await store.delete(run.id);
  throw new ApiError(result.code, result.message, { by: result.by, details: { index: result.index } });
}

/** Returns the fork's id, derived from the run and the request, so that a request creates one fork. */
function forkIdOf(runId: string, requestId: string): string {
  return `run_${createHash('sha256')
    .update(JSON.stringify(['fork', runId, requestId]))
    .digest('hex')
    .slice(0, 32)}`;
}
