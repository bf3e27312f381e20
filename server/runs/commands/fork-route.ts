import { createHash } from 'node:crypto';
import type { Context } from 'hono';
import * as z from 'zod';
import { byOf } from '../../../access/caller.ts';
import type { Host } from '../../../engine/host/host.ts';
import { recordRequest } from '../../../engine/log/request-ids.ts';
import type { Run } from '../../../engine/run/run.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { RunCommand } from '../../../protocol/run-command.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Admission } from '../../access/admission.ts';
import { fields } from '../../fields.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { findRecord, type RunRegistry } from '../run-registry.ts';
import type { ServedAgents } from '../served-agents.ts';
import { signed } from './command-routes.ts';
import { wasCreated } from './repeated-commands.ts';
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
    description: 'The fork rests after entry `at`, before anything follows from it, and after its commands.',
  }),
  commands: z.exactOptional(commandsBody).meta({
    description:
      'The changes in the fork: commands as in `POST /runs/{id}/commands`. They are part of its creation and act before anything follows from entry `at`. If a command is refused, no fork is created.',
  }),
  ...byBody.shape,
});

export type ForkRouteOptions = {
  store: Store;
  host: Host;
  agents: ServedAgents;
  held: RunRegistry;
  admission: Admission;
  viewHeld(run: Run): Promise<RunView>;
};

/** A repeated `requestId` answers with the fork that it created. Throws the errors of forking, and `request-reused`. */
export async function fork(
  c: Context<RunsEnv>,
  id: string,
  body: z.output<typeof forkBody>,
  { store, host, agents, held, admission, viewHeld }: ForkRouteOptions,
): Promise<Response> {
  const caller = c.get('caller');
  const { runId, agent } = await findRecord(store, id, caller);
  const { requestId, commands, at, message, replayTools, paused } = body;
  const forkId = requestId === undefined ? host.newId('run') : forkIdOf(runId, requestId);
  const request = recordRequest(body);
  const options = omitUndefined({
    runId: forkId,
    request,
    by: byOf(caller, body.by),
    message,
    replayTools,
    paused,
    model: body.model === undefined ? undefined : agents.forkModel(agent, body.model),
    commands: commands && signed(commands as RunCommand[], caller),
  });
  const release = await admission.admit(caller);
  try {
    const creation = { store, runId: forkId, request };
    if (!(await wasCreated(creation))) {
      const original = await held.hold(runId);
      try {
        await original.run.fork({ at, ...options });
      } catch (error) {
        if (!(await wasCreated(creation))) throw error;
      } finally {
        original.release();
      }
    }
    const hold = await held.hold(forkId);
    try {
      held.drive(forkId);
      if (held.drives) hold.run.settled().then(release, release);
      else release();
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

function forkIdOf(runId: string, requestId: string): string {
  return `run_${createHash('sha256')
    .update(JSON.stringify(['fork', runId, requestId]))
    .digest('hex')
    .slice(0, 32)}`;
}
