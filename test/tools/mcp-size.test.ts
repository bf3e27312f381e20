import { describe, expect, it } from 'vitest';
import { InDoubt } from '../../protocol/error.ts';
import { boundAnswers, LARGEST_MESSAGE_BYTES } from '../../tools/mcp/bound-answers.ts';
import { mcp } from '../../tools/mcp.ts';
import { rejectionOf, runTool } from '../support/tools/call-context.ts';
import { HttpMcpServer } from '../support/tools/http-mcp-server.ts';

const CHUNK = new TextEncoder().encode('x'.repeat(65_536));

/** A response of 100 MB; `sent` counts the bytes that were read. */
function flood(type: string, head = '') {
  const count = { sent: 0 };
  const body = new ReadableStream<Uint8Array>({
    start: controller => controller.enqueue(new TextEncoder().encode(head)),
    pull(controller) {
      count.sent += CHUNK.length;
      if (count.sent > 100_000_000) controller.close();
      else controller.enqueue(CHUNK);
    },
  });
  return { count, response: new Response(body, { headers: { 'content-type': type } }) };
}

describe('a server that answers with 100 MB', () => {
  it.each([
    ['application/json', '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"'],
    [
      'text/event-stream',
      'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"',
    ],
  ])('is not read to its end (%s)', async (type, head) => {
    const { count, response } = flood(type, head);
    const server = await HttpMcpServer.start();
    const source = mcp({ name: 'desk', url: server.url });
    try {
      const tools = await source.connect();
      server.instead = (_, says) => (says === 'tools/call' ? response : undefined);
      const error = await rejectionOf(runTool(tools, 'echo', { text: 'x' }));
      expect(error).toBeInstanceOf(InDoubt);
      expect(count.sent).toBeLessThan(LARGEST_MESSAGE_BYTES + 8 * 1024 * 1024);
    } finally {
      await source.close();
      await server.close();
    }
  });

  it('is reported with the exceeded limit', async () => {
    const { response } = flood('application/json');
    const answer = await boundAnswers(async () => response, 1000)('http://127.0.0.1');
    await expect(answer.text()).rejects.toThrow('it sent a message of more than 1000 bytes');
  });
});

describe('a stream of many messages', () => {
  const send = async (text: string, cut: number) => {
    const bytes = new TextEncoder().encode(text);
    const chunks = Array.from({ length: Math.ceil(bytes.length / cut) }, (_, at) =>
      bytes.slice(at * cut, (at + 1) * cut),
    );
    const headers = { 'content-type': 'text/event-stream; charset=utf-8' };
    const fetch = async () => new Response(ReadableStream.from(chunks), { headers });
    return await (await boundAnswers(fetch, 100)('http://127.0.0.1')).text();
  };

  it.each([1, 3, 1000])('may be of any length when each message is short, in chunks of %s', async cut => {
    for (const end of ['\n\n', '\r\n\r\n']) {
      const text = `data: ${'a'.repeat(80)}${end}`.repeat(50);
      expect(await send(text, cut)).toBe(text);
    }
  });

  it.each([1, 3, 1000])('fails at a message that is too long, in chunks of %s', async cut => {
    await expect(send(`data: a\n\ndata: ${'b'.repeat(200)}\n\ndata: c\n\n`, cut)).rejects.toThrow(
      'more than 100 bytes',
    );
  });
});
