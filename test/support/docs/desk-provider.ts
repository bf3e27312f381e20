import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { completeResponse, listEvents, type OutputItem } from '../../../examples/stand-in/events.ts';

/** The provider of the desk of docs/migrate, with the number of its model calls. */
export type DeskProvider = AsyncDisposable & { url: string; calls(): number };

/** Starts a provider of the Responses API that looks an order up, refunds it, and says so, by what a request has. */
export async function startDeskProvider(): Promise<DeskProvider> {
  let calls = 0;
  const server = createServer(async (request, response) => {
    const body = (await json(request)) as Request;
    const results = body.input.filter(({ type }) => type === 'function_call_output');
    calls += 1;
    const completed = completeResponse(
      { model: 'stand-in', input: [] },
      {
        id: `resp_${calls}`,
        output: [nextItem(results.at(-1)?.call_id)],
        usage: USAGE,
      },
    );
    if (body.stream !== true) {
      response.writeHead(200, { 'content-type': 'application/json' });
      return response.end(JSON.stringify(completed));
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of listEvents(completed))
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    return response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    calls: () => calls,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise(closed => server.close(closed));
    },
  };
}

type Request = { input: { type?: string; call_id?: string }[]; stream?: boolean };

function nextItem(answered: string | undefined): OutputItem {
  if (answered === undefined) return callItem('find_order', { orderId: 'A-1001' });
  if (answered === 'call_find_order') return callItem('refund', { orderId: 'A-1001', cents: 4200 });
  const text = 'The 42 dollars for order A-1001 are on their way.';
  return {
    id: 'msg_answer',
    type: 'message',
    status: 'completed',
    role: 'assistant',
    phase: 'final_answer',
    content: [{ type: 'output_text', annotations: [], logprobs: [], text }],
  };
}

function callItem(name: string, input: object): OutputItem {
  return {
    id: `fc_${name}`,
    type: 'function_call',
    status: 'completed',
    arguments: JSON.stringify(input),
    call_id: `call_${name}`,
    name,
  };
}

const USAGE = {
  input_tokens: 80,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 20,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 100,
};
