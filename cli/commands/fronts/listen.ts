import { messageOf } from '../../../protocol/error.ts';
import type { RunsApp } from '../../../server/app.ts';
import { type Serving, serveRuns } from '../../../server/serve.ts';
import type { ServerLog } from '../serving/serve-log.ts';

/** Serves an app. Returns `null` if it cannot listen, and logs what to do. */
export async function listen(
  app: RunsApp,
  address: { host: string; port: number },
  log: ServerLog,
): Promise<Serving | null> {
  try {
    return await serveRuns(app, address);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const advice =
      code === 'EADDRINUSE'
        ? 'The port is in use, perhaps by another agentchart. Stop that program, or choose another port: --port 0 picks a free one.'
        : `${messageOf(error)}. Choose another --host or --port.`;
    log.problem(`Cannot listen on ${address.host} port ${address.port}. ${advice}`);
    return null;
  }
}
