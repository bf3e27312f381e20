import { Agent, type IncomingMessage, request } from 'node:http';

const agent = new Agent({ keepAlive: true, maxSockets: 1_000 });

/** Where a server listens, and the headers that requests to it need. */
export type Target = { port: number; headers?: Record<string, string> };

/** Sends a POST and resolves when the headers have arrived. */
export async function post(
  { port, headers: added }: Target,
  body: object,
  path = '/v1/chat/completions',
): Promise<IncomingMessage> {
  const text = JSON.stringify(body);
  return await new Promise((resolve, reject) => {
    const length = Buffer.byteLength(text);
    const headers = { 'content-type': 'application/json', 'content-length': length, ...added };
    request({ host: '127.0.0.1', port, path, method: 'POST', headers, agent }, resolve)
      .on('error', reject)
      .end(text);
  });
}

/** Reads the rest of an answer. Throws unless its status is 200. */
export async function readAll(answer: IncomingMessage): Promise<string> {
  answer.setEncoding('utf8');
  let text = '';
  for await (const chunk of answer) text += chunk;
  if (answer.statusCode !== 200) throw new Error(`${answer.statusCode} ${text}`);
  return text;
}

/** Runs `work` the given number of times, `lanes` at a time. */
export async function inParallel(times: number, lanes: number, work: () => Promise<unknown>): Promise<void> {
  let left = times;
  const lane = async () => {
    while (left-- > 0) await work();
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}
