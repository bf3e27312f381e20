import { createHash } from 'node:crypto';
import type { Context } from 'hono';
import * as z from 'zod';
import type { Host } from '../../../engine/driver/host.ts';
import { forkRun } from '../../../engine/run/forks/fork-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { RunCommand } from '../../../engine/run/run-command.ts';
import { EngineError } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Admission } from '../../access/admission.ts';
import { ApiError } from '../../error-envelope.ts';
import { type BodyLimits, readBody } from '../../read-body.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { findRecord, type RunRegistry } from '../run-registry.ts';
import { byOf, signed } from './command-routes.ts';
import { byBody, commandsBody, sendBody } from './request-bodies.ts';

export const forkBody = z.strictObject({
  at: z.number().int().positive().meta({ description: 'The seq of the last entry that the fork has.' }),
  message: z.exactOptional(sendBody.shape.message),
  commands: z.exactOptional(commandsBody).meta({
    description:
      'What is different in the fork: commands as in `POST /runs/{id}/commands`, applied before anything of it runs. If one is refused, there is no fork.',
  }),
  ...byBody.shape,
});

export type ForkRouteOptions = {
  store: Store;
  clock: Host;
  held: RunRegistry;
  admission: Admission;
  bodyLimits: BodyLimits;
  viewHeld(run: Run): Promise<RunView>;
};

/**
 * Forks a run at an entry and has the fork driven; answers 201 with its view. The same `requestId` again answers with the
 * fork that it made. Throws what forking throws, and the refusal of a command.
 */
export async function fork(
  c: Context<RunsEnv>,
  id: string,
  { store, clock, held, admission, bodyLimits, viewHeld }: ForkRouteOptions,
): Promise<Response> {
  const body = await readBody(c.req.raw, forkBody, bodyLimits);
  const caller = c.get('caller');
  const { runId } = await findRecord(store, id, caller);
  const { at, message, requestId, commands = [] } = body;
  const forkId = requestId === undefined ? clock.newId('run') : forkIdOf(runId, requestId);
  const by = byOf(caller, body.by);
  const release = await admission.admit(caller);
  try {
    const isNew = await begin(store, clock, { runId, forkId, at, ...omitUndefined({ message, by }) });
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
  message?: z.infer<typeof sendBody>['message'];
  by?: string;
};

/** Creates the fork; returns false if this request has created it before. */
async function begin(
  store: Store,
  host: Host,
  { runId, forkId, at, ...message }: ForkRequest,
): Promise<boolean> {
  try {
    await forkRun({ store, host }, runId, at, { ...message, runId: forkId });
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

/** One id for each request on a run, so that its fork is made once. */
function forkIdOf(runId: string, requestId: string): string {
  return `run_${createHash('sha256')
    .update(JSON.stringify(['fork', runId, requestId]))
    .digest('hex')
    .slice(0, 32)}`;
}
