/**
 * The second process: decisions come in as webhooks. The sender is a user, and can decide about that user's
 * runs only.
 *
 *   curl -X POST http://127.0.0.1:PORT/ -H 'x-user: 7' -d '{ "run": "…", "call": "…", "digest": "…", "approve": true }'
 */
import { createServer, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { EngineError } from 'agentchart';
import * as z from 'zod';
import { desk, store } from './desk.ts';

const decision = z.object({ run: z.string(), call: z.string(), digest: z.string(), approve: z.boolean() });

/** Applies a decision; returns the status and the body of the answer. */
async function decide(request: IncomingMessage): Promise<[number, object]> {
  const user = String(request.headers['x-user']);
  const { run: id, call, digest, approve } = decision.parse(JSON.parse(await text(request)));
  const run = await desk.open(id, { labels: { user } });
  const options = { digest, by: user };
  const result = await (approve ? run.approve(call, options) : run.reject(call, options));
  // An accepted decision drives the run in this process until it settles.
  if (result.accepted) await run.settled();
  return [result.accepted ? 200 : 409, result];
}

const server = createServer((request, response) => {
  decide(request)
    .catch((error): [number, object] => {
      const isForeign = error instanceof EngineError && /^run-(foreign|unknown)$/.test(error.code);
      return isForeign ? [404, { message: 'There is no such run.' }] : [400, { message: error.message }];
    })
    .then(([status, body]) => response.writeHead(status).end(`${JSON.stringify(body)}\n`));
});
server.listen(Number(process.env.PORT ?? 4200), '127.0.0.1', () => {
  console.log(JSON.stringify(server.address()));
});
process.on('SIGTERM', () => server.close(() => void store.close()));
