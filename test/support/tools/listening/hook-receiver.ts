import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export const SECRET = `whsec_${Buffer.from('a secret of the tests').toString('base64')}`;

type Message = { type: string; timestamp: string; data: Record<string, unknown> & { runId: string } };
export type Received = { id: string; isSigned: boolean; body: Message; text: string };

/** A receiver of webhooks that keeps what it is sent. `answers` are its statuses in order, then 204. */
export async function receiveHooks(answers: number[] = [], onReceived = (_: Received[]) => {}) {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const [id, timestamp, signature] = ['id', 'timestamp', 'signature'].map(name =>
      String(request.headers[`webhook-${name}`]),
    );
    const key = Buffer.from('a secret of the tests');
    const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${text}`).digest('base64');
    received.push({ id: id ?? '', isSigned: signature === `v1,${expected}`, body: JSON.parse(text), text });
    response.writeHead(answers.shift() ?? 204, { location: '/elsewhere' }).end();
    onReceived(received);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hook`,
    received,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
