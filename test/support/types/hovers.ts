import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as z from 'zod';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

const messageSchema = z.object({
  id: z.union([z.number(), z.string()]).optional(),
  method: z.string().optional(),
  params: z.looseObject({ items: z.array(z.unknown()).optional() }).optional(),
  result: z.unknown().optional(),
  error: z.unknown().optional(),
});
type Message = z.infer<typeof messageSchema>;

const hoverSchema = z.object({ contents: z.object({ value: z.string() }) });

/**
 * Starts TypeScript's language server and opens a file. `hover` returns the type that an editor shows for the last
 * word of the first place with this text. https://microsoft.github.io/language-server-protocol
 */
export async function openEditor(url: URL) {
  const tsc = `${ROOT}node_modules/typescript/bin/tsc`;
  const server = spawn(process.execPath, [tsc, '--lsp', '--stdio'], { stdio: ['pipe', 'pipe', 'ignore'] });
  const answered = new Map<Message['id'], (message: Message) => void>();
  const send = (message: object) => {
    const json = JSON.stringify({ jsonrpc: '2.0', ...message });
    server.stdin.write(`Content-Length: ${Buffer.byteLength(json)}\r\n\r\n${json}`);
  };
  let received = Buffer.alloc(0);
  server.stdout.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    for (let taken = takeMessage(received); taken !== undefined; taken = takeMessage(received)) {
      received = taken.rest;
      const { id, method, params } = taken.message;
      if (method === undefined) answered.get(id)?.(taken.message);
      // The server asks for settings; `null` leaves each at its default.
      else if (id !== undefined) send({ id, result: params?.items?.map(() => null) ?? null });
    }
  });
  let requests = 0;
  const ask = async (method: string, params: object): Promise<unknown> => {
    requests += 1;
    const id = requests;
    const answer = new Promise<Message>(resolve => answered.set(id, resolve));
    send({ id, method, params });
    const { result, error } = await answer;
    if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return result;
  };
  const text = readFileSync(url, 'utf8');
  const uri = url.href;
  await ask('initialize', {
    processId: process.pid,
    rootUri: pathToFileURL(ROOT).href,
    capabilities: { textDocument: { hover: { contentFormat: ['markdown'] } } },
  });
  send({ method: 'initialized', params: {} });
  send({
    method: 'textDocument/didOpen',
    params: { textDocument: { uri, languageId: 'typescript', version: 1, text } },
  });
  return {
    async hover(place: string): Promise<string> {
      const lines = text.slice(0, text.indexOf(place)).split('\n');
      if (!text.includes(place)) throw new Error(`${url.pathname} does not have ${place}.`);
      const character = (lines.at(-1)?.length ?? 0) + place.search(/\w+$/);
      const position = { line: lines.length - 1, character };
      const found = await ask('textDocument/hover', { textDocument: { uri }, position });
      const { value } = hoverSchema.parse(found).contents;
      return /^```\w*\n(.*?)\n```/s.exec(value)?.[1] ?? value;
    },
    async close(): Promise<void> {
      server.kill();
      await once(server, 'close');
    },
  };
}

function takeMessage(received: Buffer): { message: Message; rest: Buffer<ArrayBuffer> } | undefined {
  const end = received.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const length = Number(/Content-Length: (\d+)/i.exec(received.toString('latin1', 0, end))?.[1]);
  const body = Buffer.from(received.subarray(end + 4));
  if (body.length < length) return undefined;
  const json = JSON.parse(body.toString('utf8', 0, length));
  return { message: messageSchema.parse(json), rest: body.subarray(length) };
}
