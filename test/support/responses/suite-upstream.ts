/**
 * A model provider for the public Open Responses suite, with the APIs of Responses, Chat Completions and Messages. It
 * calls the first tool that is offered, and otherwise answers with a text. CONTRIBUTING.md says how to run the suite.
 *
 *     node test/support/responses/suite-upstream.ts [PORT]
 */
import { createServer } from 'node:http';
import { objectOf, objectsOf, textIn } from '../../../adapters/turn/json-access.ts';
import { anthropicMessages } from '../../../examples/stand-in/wire/anthropic.ts';
import { chat } from '../../../examples/stand-in/wire/chat.ts';
import { parseBody } from '../../../examples/stand-in/wire/read-requests.ts';
import { responses } from '../../../examples/stand-in/wire/responses.ts';
import { type Encoder, seeded, type WrittenTurn } from '../../../examples/stand-in/wire/turn.ts';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';

const ENCODERS: readonly (readonly [path: RegExp, encoder: Encoder])[] = [
  [/\/responses$/, responses()],
  [/\/chat\/completions$/, chat()],
  [/\/messages$/, anthropicMessages],
];

const port = Number(process.argv[2] ?? 8787);

const server = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = parseBody(Buffer.concat(chunks).toString());
  const summary = summaryFor(request.url ?? '', body);
  if (summary !== undefined)
    return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(summary));
  const [, encoder] = ENCODERS.find(([path]) => path.test(request.url ?? '')) ?? [];
  if (encoder === undefined) return response.writeHead(404).end('{"error":{"message":"unknown path"}}');
  const type = body.stream === true ? encoder.contentType : 'application/json';
  response.writeHead(200, { 'content-type': type });
  const turn = turnFor(body);
  response.end(
    body.stream === true ? encoder.stream(turn, seeded(1)).join('') : JSON.stringify(encoder.whole(turn)),
  );
});
server.listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}`));

/** What the provider's own compaction answers, in the form of its API; `undefined` for other requests. */
function summaryFor(path: string, { compaction }: JsonObject): JsonObject | undefined {
  const usage = { input_tokens: 10, output_tokens: 3, total_tokens: 13 };
  if (path.endsWith('/responses/compact')) {
    const output = [{ type: 'compaction', id: 'cmp_1', encrypted_content: 'A short summary.' }];
    return { id: 'resp_1', object: 'response.compaction', output, usage };
  }
  if (!path.endsWith('/messages') || !isJsonObject(compaction)) return undefined;
  const content = [{ type: 'compaction', content: 'A short summary.', signature: 'signed' }];
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'stand-in' };
  return { ...message, content, stop_reason: 'compaction', stop_sequence: null, usage };
}

function turnFor({ tools }: JsonObject): WrittenTurn {
  const [tool = {}] = objectsOf(tools);
  const name = textIn(tool.name) || textIn(objectOf(tool.function).name);
  const call = { id: 'call_1', name, arguments: '{"location":"San Francisco, CA"}' };
  return {
    model: 'stand-in',
    reasoning: '',
    finish: 'stop',
    text: name === '' ? 'hello there friend' : '',
    calls: name === '' ? [] : [call],
    usage: { input: 10, output: 3, cached: 0, reasoning: 0 },
  };
}
